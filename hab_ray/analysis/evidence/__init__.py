"""Measurements behind findings and preferences: texts of answers and verdicts, vendors of models, slopes."""
