"""YARP for Pi."""
