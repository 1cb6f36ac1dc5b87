"""What people said of answers beside what judges said: read from a run, and how far they agree."""
