"""Shell text: what a command line says, without ever running it."""
