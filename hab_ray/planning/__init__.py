"""What a sweep will ask, cost and take, before anything is spent.

`counting` finds the calls, with the stages' forecasts of what does not exist yet, `drafts` turns them into lines,
measured where replies tell, `figures` adds up, `make` puts it together; `probe` has a few calls answered first.
"""

from hab_ray.planning.figures import Figures, Plan, PlanLine, StageTime
from hab_ray.planning.make import make_plan

__all__ = ["Figures", "Plan", "PlanLine", "StageTime", "make_plan"]
