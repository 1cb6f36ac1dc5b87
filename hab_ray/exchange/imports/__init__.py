"""The published benchmark's wording and data, made into files that sweeps read.

Of a checkout, only files with the published digests are executed (others if a user says so), in a process of their own.
"""
