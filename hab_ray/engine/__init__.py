"""Calls in, replies out, each paid for once. Knows nothing of dimensions or rubrics; runs without Ray."""
