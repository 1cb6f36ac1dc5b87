"""Reads what models wrote, strictly."""
