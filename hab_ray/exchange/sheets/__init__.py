"""Sheets on which people rate a blinded sample of a run's answers: drawn, written as CSV and as a form."""

from hab_ray.exchange.sheets.drawing import SheetPlan, draw_sheet
from hab_ray.exchange.sheets.writing import Written, write_sheet

__all__ = ["SheetPlan", "Written", "draw_sheet", "write_sheet"]
