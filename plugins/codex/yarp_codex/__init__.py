"""YARP for Codex."""
