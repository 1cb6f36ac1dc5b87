"""Ratings by people compared with the judges' verdicts on the same answers."""
