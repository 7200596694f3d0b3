"""The dataset: every past tool call of the agents on this machine, in one private DuckDB file.

`database` opens it, `rows` makes keyed rows of what an importer says, `writer` commits them with
their checkpoints, `settle` brings copies together at the end, `doubt` has items read
again, `extract` runs an importer,
`framing` carries facts from one Unix user to another, `report` checks and counts.
Source: seed 003; spec "Dataset". Needs the extra `dataset`.
"""
