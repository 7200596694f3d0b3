-- What the importer must remember beyond the public tables. Nothing here is for queries.
CREATE SCHEMA private;

-- What decided, at the last reading, that an item need not be read again.
CREATE TABLE private.checkpoints (
  source_item_key VARCHAR PRIMARY KEY,
  fingerprint BLOB NOT NULL,
  surroundings BLOB NOT NULL
);

-- Which items hold which call. `own_key` is the key that the item's own facts give; copies of a
-- call share a `group_key`. `owns`: the row in tool_calls was taken from here.
CREATE TABLE private.call_links (
  source_item_key VARCHAR NOT NULL,
  own_key VARCHAR NOT NULL,
  group_key BLOB,
  session_key VARCHAR,
  weight UTINYINT NOT NULL,
  owns BOOLEAN NOT NULL
);

-- Results that stand right behind a malformed record and have no call in their item.
CREATE TABLE private.suspects (
  source_item_key VARCHAR NOT NULL,
  result_key VARCHAR NOT NULL,
  call_key VARCHAR NOT NULL,
  line_number UBIGINT NOT NULL,
  byte_offset UBIGINT,
  record_sha256 BLOB NOT NULL
);

-- Whether items were committed that no end of a run has settled yet.
CREATE TABLE private.state (unsettled BOOLEAN NOT NULL);
INSERT INTO private.state VALUES (false);
