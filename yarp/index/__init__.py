"""The trace index: past sessions of any runtime as SQL. Source: seed 002."""
