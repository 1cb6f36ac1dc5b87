"""Plans a sweep before anything is spent: its calls, cost and time.

`counting` finds the calls, with the stages' forecasts of rows that do not exist yet. `drafts` turns them into lines,
with tokens measured from stored replies if possible. `figures` adds up, `make` builds the plan, `probe` sends a
few calls first to measure.
"""

from hab_ray.planning.figures import Figures, Plan, PlanLine, StageTime
from hab_ray.planning.make import make_plan

__all__ = ["Figures", "Plan", "PlanLine", "StageTime", "make_plan"]
