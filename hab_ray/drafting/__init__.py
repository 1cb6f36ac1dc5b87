"""Sweep files to start with: written from a user's answers (`text`), or included in the package (`shipped`)."""
