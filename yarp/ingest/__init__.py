"""The session-scoped child that a host's extension speaks to over frames (seed 001)."""
