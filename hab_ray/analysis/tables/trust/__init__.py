"""Analyses that say whether the scores can be trusted: findings, and what judges and people say of each other."""
