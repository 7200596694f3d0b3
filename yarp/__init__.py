"""YARP keeps every tool call of a coding agent exactly and gives the model a short true answer."""
