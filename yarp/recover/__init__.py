"""The way back: search and exact reads of what the archive holds."""
