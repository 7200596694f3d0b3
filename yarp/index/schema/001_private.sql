-- What the index keeps. Names and shapes of this file are no interface; 002_public.sql is.
-- Ids are handed out by `counters` and never reused, so that no answer ever means another thing.

CREATE TABLE counters (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE indexing_policy (
    singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
    max_indexed_record_bytes INTEGER NOT NULL CHECK (max_indexed_record_bytes > 0),
    max_published_text_bytes INTEGER NOT NULL CHECK (max_published_text_bytes > 0)
);

-- file_size and modified_ns are of the file as it was read; indexed_bytes ends behind the last
-- newline. tail_hash is of the last 64 KiB before that.
CREATE TABLE trace_sources (
    id INTEGER PRIMARY KEY,
    runtime TEXT NOT NULL,
    path TEXT NOT NULL UNIQUE,
    file_size INTEGER NOT NULL,
    modified_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    indexed_bytes INTEGER NOT NULL,
    indexed_lines INTEGER NOT NULL,
    tail_hash BLOB NOT NULL,
    malformed_records INTEGER NOT NULL,
    oversized_records INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('partial', 'complete')),
    updated_at INTEGER NOT NULL
);

-- Files that are no source, so that an unchanged one is not opened again by the same readers.
CREATE TABLE skipped_files (
    path TEXT PRIMARY KEY,
    file_size INTEGER NOT NULL,
    modified_ns INTEGER NOT NULL,
    readers TEXT NOT NULL,
    reason TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE projector_states (
    source_id INTEGER PRIMARY KEY REFERENCES trace_sources (id),
    reader_version INTEGER NOT NULL,
    state BLOB NOT NULL
);

CREATE TABLE trace_records (
    id INTEGER PRIMARY KEY,
    source_id INTEGER NOT NULL REFERENCES trace_sources (id),
    seq INTEGER NOT NULL,
    byte_offset INTEGER NOT NULL,
    byte_length INTEGER NOT NULL,
    raw_hash BLOB NOT NULL CHECK (length(raw_hash) = 32),
    occurred_at INTEGER,
    parse_status TEXT NOT NULL CHECK (parse_status IN ('ok', 'malformed', 'oversized')),
    parse_error TEXT,
    UNIQUE (source_id, seq)
);

CREATE TABLE domain_sessions (
    id INTEGER PRIMARY KEY,
    runtime TEXT NOT NULL,
    native_id TEXT NOT NULL,
    UNIQUE (runtime, native_id)
);

CREATE TABLE session_sources (
    source_id INTEGER PRIMARY KEY REFERENCES trace_sources (id),
    session_id INTEGER NOT NULL REFERENCES domain_sessions (id),
    identity_record_id INTEGER NOT NULL,
    created_at INTEGER,
    name TEXT,
    working_directory TEXT
);
CREATE INDEX sources_by_session ON session_sources (session_id, source_id);

CREATE TABLE session_parents (
    source_id INTEGER NOT NULL REFERENCES trace_sources (id),
    kind TEXT NOT NULL CHECK (kind IN ('forked', 'delegated')),
    target_native_id TEXT,
    target_locator TEXT,
    record_id INTEGER NOT NULL,
    PRIMARY KEY (source_id, kind),
    CHECK ((target_native_id IS NULL) <> (target_locator IS NULL))
) WITHOUT ROWID;

CREATE TABLE domain_loops (
    id INTEGER PRIMARY KEY,
    session_id INTEGER NOT NULL REFERENCES domain_sessions (id),
    source_id INTEGER NOT NULL REFERENCES trace_sources (id),
    key TEXT NOT NULL,
    session_position INTEGER NOT NULL,
    native_id TEXT,
    start_seq INTEGER NOT NULL,
    start_record_id INTEGER NOT NULL,
    end_record_id INTEGER,
    outcome TEXT CHECK (outcome IN ('completed', 'interrupted', 'failed')),
    model_id TEXT,
    effort TEXT,
    context_window INTEGER,
    usage TEXT,
    UNIQUE (source_id, key),
    CHECK (outcome IS NULL OR end_record_id IS NOT NULL)
);

-- sample NULL: an observation without identity.
CREATE TABLE usage_samples (
    id INTEGER PRIMARY KEY,
    source_id INTEGER NOT NULL REFERENCES trace_sources (id),
    sample TEXT,
    loop_key TEXT NOT NULL,
    rank INTEGER NOT NULL,
    input INTEGER NOT NULL,
    cached INTEGER,
    cache_write INTEGER,
    output INTEGER NOT NULL,
    reasoning INTEGER,
    UNIQUE (source_id, sample)
);
CREATE INDEX usage_by_loop ON usage_samples (source_id, loop_key);

CREATE TABLE content_blobs (
    id INTEGER PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE,
    text TEXT NOT NULL,
    full_bytes INTEGER NOT NULL,
    estimated_tokens INTEGER NOT NULL
);

-- first_seq orders the items of a loop that one was moved into.
CREATE TABLE domain_items (
    id INTEGER PRIMARY KEY,
    session_id INTEGER NOT NULL REFERENCES domain_sessions (id),
    source_id INTEGER NOT NULL REFERENCES trace_sources (id),
    key TEXT NOT NULL,
    first_seq INTEGER NOT NULL,
    loop_id INTEGER REFERENCES domain_loops (id),
    loop_position INTEGER,
    occurred_at INTEGER,
    semantic TEXT NOT NULL,
    UNIQUE (source_id, key),
    CHECK ((loop_id IS NULL) = (loop_position IS NULL))
);

CREATE TABLE item_records (
    item_id INTEGER NOT NULL REFERENCES domain_items (id),
    record_id INTEGER NOT NULL REFERENCES trace_records (id),
    PRIMARY KEY (item_id, record_id)
) WITHOUT ROWID;

-- Outputs whose call was not met yet.
CREATE TABLE item_calls (
    item_id INTEGER PRIMARY KEY REFERENCES domain_items (id),
    source_id INTEGER NOT NULL,
    call_key TEXT NOT NULL
);
CREATE INDEX calls_by_key ON item_calls (source_id, call_key);

CREATE TABLE item_session_links (
    item_id INTEGER PRIMARY KEY REFERENCES domain_items (id),
    runtime TEXT NOT NULL,
    native_id TEXT NOT NULL,
    member TEXT NOT NULL
);
CREATE INDEX session_links_by_target ON item_session_links (runtime, native_id);

-- A link's target may come into the index, or leave it, at any time.
CREATE TRIGGER session_appears AFTER INSERT ON domain_sessions BEGIN
    UPDATE domain_items
    SET semantic = json_set(semantic, '$.value.' || link.member, NEW.id)
    FROM item_session_links AS link
    WHERE link.runtime = NEW.runtime AND link.native_id = NEW.native_id
        AND domain_items.id = link.item_id;
END;
CREATE TRIGGER session_disappears AFTER DELETE ON domain_sessions BEGIN
    UPDATE domain_items
    SET semantic = json_remove(semantic, '$.value.' || link.member)
    FROM item_session_links AS link
    WHERE link.runtime = OLD.runtime AND link.native_id = OLD.native_id
        AND domain_items.id = link.item_id;
END;

CREATE VIRTUAL TABLE item_search USING fts5 (
    text, content = '', detail = none, tokenize = 'trigram'
);
