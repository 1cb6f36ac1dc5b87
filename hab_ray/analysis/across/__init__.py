"""Comparison of two runs: different settings, shared tests and replies, differences between their subjects' scores."""
