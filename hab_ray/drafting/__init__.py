"""Sweep files to begin with: written from a user's answers (`text`), or found among those that ship (`shipped`)."""
