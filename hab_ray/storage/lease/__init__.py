"""Who drives a store: one process at a time."""
