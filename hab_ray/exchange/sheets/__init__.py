"""Sheets on which people rate a blinded sample of a run's answers, written as CSV tables and HTML forms."""

from hab_ray.exchange.sheets.drawing import SheetPlan, draw_sheet
from hab_ray.exchange.sheets.writing import write_sheet

__all__ = ["SheetPlan", "draw_sheet", "write_sheet"]
