"""Published for plugin authors: a pytest plugin and the conformance suites."""
