"""YARP for Cursor."""
