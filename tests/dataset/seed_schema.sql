CREATE TABLE schema_info (
version INTEGER PRIMARY KEY CHECK (version > 0)
);
CREATE TABLE import_runs (
run_key VARCHAR PRIMARY KEY,
unix_user VARCHAR NOT NULL,
agent VARCHAR NOT NULL,
started_at_ms BIGINT NOT NULL,
finished_at_ms BIGINT,
status VARCHAR NOT NULL CHECK (status IN ('running', 'complete', 'failed')),
CHECK (
(status = 'running' AND finished_at_ms IS NULL) OR
(status <> 'running' AND finished_at_ms >= started_at_ms)
)
);
CREATE TABLE source_roots (
source_root_key VARCHAR PRIMARY KEY,
unix_user VARCHAR NOT NULL,
agent VARCHAR NOT NULL,
source_kind VARCHAR NOT NULL,
root_path VARCHAR NOT NULL,
UNIQUE (unix_user, agent, source_kind, root_path)
);
CREATE TABLE source_items (
source_item_key VARCHAR PRIMARY KEY,
source_root_key VARCHAR NOT NULL REFERENCES source_roots(source_root_key),
relative_path VARCHAR NOT NULL,
adapter_version INTEGER NOT NULL CHECK (adapter_version > 0),
device_id UBIGINT,
inode UBIGINT,
size_bytes UBIGINT NOT NULL,
snapshot_mtime_ns BIGINT NOT NULL,
imported_byte_count UBIGINT,
prefix_sha256 BLOB CHECK (
prefix_sha256 IS NULL OR octet_length(prefix_sha256) = 32
),
last_run_key VARCHAR NOT NULL,
status VARCHAR NOT NULL CHECK (status IN ('complete', 'deferred', 'rejected')),
UNIQUE (source_root_key, relative_path),
CHECK ((device_id IS NULL) = (inode IS NULL)),
CHECK (imported_byte_count IS NULL OR imported_byte_count <= size_bytes)
);
CREATE TABLE sessions (
session_key VARCHAR PRIMARY KEY,
unix_user VARCHAR NOT NULL,
agent VARCHAR NOT NULL,
native_session_id VARCHAR NOT NULL,
started_at_ms BIGINT,
UNIQUE (unix_user, agent, native_session_id)
);
CREATE TABLE tool_calls (
call_key VARCHAR PRIMARY KEY,
session_key VARCHAR NOT NULL REFERENCES sessions(session_key),
native_call_id VARCHAR,
native_worker_id VARCHAR,
called_at_ms BIGINT,
provider VARCHAR,
model VARCHAR,
working_directory VARCHAR,
tool_name VARCHAR NOT NULL,
input_format VARCHAR NOT NULL CHECK (input_format IN ('json', 'text')),
input_text VARCHAR NOT NULL,
input_sha256 BLOB NOT NULL CHECK (octet_length(input_sha256) = 32)
);
CREATE TABLE tool_results (
result_key VARCHAR PRIMARY KEY,
call_key VARCHAR NOT NULL,
returned_at_ms BIGINT,
is_error BOOLEAN,
output_text VARCHAR,
output_json VARCHAR,
result_sha256 BLOB NOT NULL CHECK (octet_length(result_sha256) = 32),
UNIQUE (call_key, result_sha256),
CHECK (output_text IS NOT NULL OR output_json IS NOT NULL)
);
CREATE TABLE observations (
observation_key VARCHAR PRIMARY KEY,
source_item_key VARCHAR NOT NULL,
call_key VARCHAR,
result_key VARCHAR,
record_kind VARCHAR NOT NULL CHECK (
record_kind IN ('canonical', 'projection', 'validation')
),
native_record_kind VARCHAR NOT NULL,
sequence_number BIGINT,
native_branch_id VARCHAR,
is_current BOOLEAN,
line_number UBIGINT,
byte_offset UBIGINT,
sqlite_rowid BIGINT,
sqlite_blob_id VARCHAR,
content_index UINTEGER,
record_sha256 BLOB NOT NULL CHECK (octet_length(record_sha256) = 32),
CHECK ((call_key IS NULL) <> (result_key IS NULL))
);
CREATE TABLE import_issues (
issue_key VARCHAR PRIMARY KEY,
run_key VARCHAR NOT NULL,
source_item_key VARCHAR,
severity VARCHAR NOT NULL CHECK (severity IN ('warning', 'error')),
code VARCHAR NOT NULL,
line_number UBIGINT,
byte_offset UBIGINT,
sqlite_blob_id VARCHAR,
record_sha256 BLOB CHECK (
record_sha256 IS NULL OR octet_length(record_sha256) = 32
),
message VARCHAR NOT NULL,
occurrence_count UBIGINT NOT NULL
);
