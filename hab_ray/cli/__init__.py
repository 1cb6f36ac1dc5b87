"""The command `hab`."""
