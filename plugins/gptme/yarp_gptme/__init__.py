"""YARP for gptme."""
