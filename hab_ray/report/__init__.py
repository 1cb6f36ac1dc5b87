"""The leaderboard on the terminal, scores.parquet, and the HTML report of all analyses."""

from hab_ray.report.build import write_report, write_scores
from hab_ray.report.leaderboard import leaderboard

__all__ = ["leaderboard", "write_report", "write_scores"]
