-- The public relations; `yarp.index.catalog` says what each column is, and a test holds them
-- together. session_metadata is a temporary view over the metadata database (metadata.py), and
-- item_search is the table of 001_private.sql itself.

CREATE VIEW sources AS
SELECT id AS source_id, path AS locator, runtime FROM trace_sources;

CREATE VIEW records AS
SELECT
    id AS record_id,
    source_id,
    seq AS source_position,
    json_object('start', byte_offset, 'end', byte_offset + byte_length) AS content_range,
    lower(hex(raw_hash)) AS fingerprint,
    occurred_at
FROM trace_records;

-- Where the link of a source leads, if its target is there and is another session.
CREATE VIEW private_parents AS
SELECT
    supported.session_id,
    parent.kind,
    json_object(
        'session_id', coalesce(by_id.id, by_path.session_id), 'record_id', parent.record_id
    ) AS link,
    parent.source_id
FROM session_parents AS parent
JOIN session_sources AS supported ON supported.source_id = parent.source_id
JOIN domain_sessions AS session ON session.id = supported.session_id
LEFT JOIN domain_sessions AS by_id
    ON by_id.runtime = session.runtime AND by_id.native_id = parent.target_native_id
LEFT JOIN trace_sources AS target
    ON target.path IN (parent.target_locator, parent.target_locator || '.zst')
    AND target.runtime = session.runtime
LEFT JOIN session_sources AS by_path ON by_path.source_id = target.id
WHERE coalesce(by_id.id, by_path.session_id, session.id) <> session.id;

CREATE VIEW sessions AS
SELECT
    id AS session_id,
    runtime,
    native_id,
    (
        SELECT identity_record_id FROM session_sources
        WHERE session_id = s.id ORDER BY source_id LIMIT 1
    ) AS identity_record_id,
    (SELECT min(created_at) FROM session_sources WHERE session_id = s.id) AS created_at,
    (
        SELECT name FROM session_sources
        WHERE session_id = s.id AND name IS NOT NULL ORDER BY source_id LIMIT 1
    ) AS name,
    (
        SELECT working_directory FROM session_sources
        WHERE session_id = s.id AND working_directory IS NOT NULL ORDER BY source_id LIMIT 1
    ) AS working_directory,
    (
        SELECT json_group_array(source_id) FROM (
            SELECT source_id FROM session_sources WHERE session_id = s.id ORDER BY source_id
        )
    ) AS source_ids,
    (
        SELECT link FROM private_parents
        WHERE session_id = s.id AND kind = 'forked' ORDER BY source_id LIMIT 1
    ) AS forked_from,
    (
        SELECT link FROM private_parents
        WHERE session_id = s.id AND kind = 'delegated' ORDER BY source_id LIMIT 1
    ) AS delegated_from
FROM domain_sessions AS s;

CREATE VIEW loops AS
SELECT
    id AS loop_id,
    session_id,
    session_position,
    native_id,
    start_record_id,
    CASE
        WHEN end_record_id IS NULL THEN NULL
        WHEN outcome IS NULL THEN json_object('record_id', end_record_id)
        ELSE json_object('record_id', end_record_id, 'outcome', outcome)
    END AS "end",
    CASE
        WHEN model_id IS NULL THEN NULL
        ELSE json_patch(
            json_object('id', model_id),
            json_object('effort', effort, 'context_window', context_window)
        )
    END AS model,
    usage
FROM domain_loops;

CREATE VIEW items AS
SELECT
    id AS item_id,
    session_id,
    loop_id,
    loop_position,
    occurred_at,
    (
        SELECT json_group_array(record_id) FROM item_records WHERE item_id = i.id
    ) AS record_ids,
    semantic
FROM domain_items AS i;

CREATE VIEW blobs AS
SELECT id AS blob_id, text, full_bytes, estimated_tokens FROM content_blobs;
