"""Commands that run a sweep, show its progress, or remove a run."""
