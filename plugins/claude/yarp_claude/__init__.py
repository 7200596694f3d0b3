"""YARP for Claude Code."""
