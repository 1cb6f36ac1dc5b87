"""The lease of a store, which lets one process at a time spend from it."""
