"""Strict readers of models' replies."""
