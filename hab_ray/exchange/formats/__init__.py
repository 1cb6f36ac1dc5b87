"""The formats of `hab export`."""
