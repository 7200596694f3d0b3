"""Registered under pytest11: makes the conformance suites and their fixtures available."""
