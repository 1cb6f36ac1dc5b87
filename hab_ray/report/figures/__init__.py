"""Figures of a run for papers: the leaderboard, why points are lost, agreement and pairs, each with its data."""

from hab_ray.report.figures.write import Written, write_figures

__all__ = ["Written", "write_figures"]
