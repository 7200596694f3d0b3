"""Stream spooling: the one reader of a child's pipes (seed 004)."""
