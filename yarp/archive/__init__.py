"""The archive: one private SQLite file of every call, its input and its results (seed 000)."""
