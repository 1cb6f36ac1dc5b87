"""Commands that drive a run, show how far it is, or remove it."""
