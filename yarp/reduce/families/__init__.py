"""One parser a family of outputs: what must survive, in order of worth."""
