"""Analyses that say whether the scores can be trusted."""
