"""Scores, the leaderboard on the terminal, and the report as one HTML file."""

from hab_ray.report.build import write_report, write_scores
from hab_ray.report.gather import Gathered, gather
from hab_ray.report.leaderboard import leaderboard

__all__ = ["Gathered", "gather", "leaderboard", "write_report", "write_scores"]
