"""Checks for signs of trouble in a run's own data; `tables.trust.findings` lists their findings."""
