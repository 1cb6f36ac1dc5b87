"""Imports the published benchmark's wording and data as files that sweeps read.

Files of a checkout are executed only if their digests are the published ones, or the user allows it, and always in a
separate process.
"""
