"""YARP keeps every tool call of a coding agent exactly and gives the model a short true answer."""

__version__ = "1.0.0"
