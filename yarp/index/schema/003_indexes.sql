-- What queries need, and a first sync does without until its end.

CREATE INDEX IF NOT EXISTS query_parents_by_id
ON session_parents (target_native_id) WHERE target_native_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS query_parents_by_locator
ON session_parents (target_locator) WHERE target_locator IS NOT NULL;
CREATE INDEX IF NOT EXISTS query_loops_of_session
ON domain_loops (session_id, session_position);
CREATE INDEX IF NOT EXISTS query_loops_by_start ON domain_loops (start_record_id);
CREATE INDEX IF NOT EXISTS query_loops_by_end
ON domain_loops (end_record_id) WHERE end_record_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS query_items_of_session ON domain_items (session_id, occurred_at, id);
CREATE INDEX IF NOT EXISTS query_items_of_loop ON domain_items (loop_id, loop_position, id);
CREATE INDEX IF NOT EXISTS query_items_by_role
ON domain_items (json_extract(semantic, '$.role'), id);
CREATE INDEX IF NOT EXISTS query_items_by_call
ON domain_items (json_extract(semantic, '$.value.call_item_id'))
WHERE json_extract(semantic, '$.value.call_item_id') IS NOT NULL;
CREATE INDEX IF NOT EXISTS query_items_by_record ON item_records (record_id, item_id);
