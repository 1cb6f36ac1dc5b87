"""How a command holds its sweep's store, and what it says while it waits for it."""

from __future__ import annotations

from rich.console import Console

from hab_ray.storage.takeover import LeaseTerms
from hab_ray.visible import one_line
from hab_ray.work import Work


def lease_terms(work: Work, console: Console) -> LeaseTerms:
    """The lease's terms as the sweep file has them."""

    def say(text: str) -> None:
        console.print(one_line(text), style="yellow", markup=False, soft_wrap=True)

    return LeaseTerms(work.sweep.lease, work.sweep.shared_filesystem, say)
