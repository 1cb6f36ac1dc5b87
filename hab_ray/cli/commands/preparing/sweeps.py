"""`hab sweeps`: show the sweeps included with hab."""

import tempfile
import textwrap
from datetime import UTC, datetime
from typing import Annotated

import typer

from hab_ray.cli.ending import console, ends_with_status, say
from hab_ray.drafting.shipped import ShippedSweep, shipped_sweep, shipped_sweeps
from hab_ray.errors import Exit, HabError
from hab_ray.location import Location
from hab_ray.planning import make_plan
from hab_ray.resolve import resolve
from hab_ray.visible import one_line, usd

_MAX_SENTENCE = 240
_INDENT = 4


def _price(shipped: ShippedSweep, place: Location) -> str:
    """Return the price of a first run, planned in an empty folder `place`."""
    if shipped.is_free:
        return "free"
    if shipped.sweep is None or not shipped.is_priced_quickly:
        return "`hab plan`"
    sweep = shipped.sweep.model_copy(update={"run": place / "run", "store": place / "store"})
    try:
        plan = make_plan(resolve(sweep, datetime.now(UTC)))
    except HabError:
        return "`hab plan`"
    return usd(plan.as_sent)


@ends_with_status
def command(
    name: Annotated[str | None, typer.Argument(help="Print only the path of this sweep, e.g. compare.")] = None,
) -> Exit:
    """Show the sweeps included with hab: size, price, purpose."""
    if name is not None:
        say(str(shipped_sweep(name).path))
        return Exit.COMPLETE
    with tempfile.TemporaryDirectory() as folder:
        for each in shipped_sweeps():
            say(f"jobs/{each.name}.yaml: {each.size}, {_price(each, Location(folder))}")
            for line in textwrap.wrap(one_line(each.sentence, _MAX_SENTENCE), max(_INDENT, console.width - _INDENT)):
                say(f"{' ' * _INDENT}{line}")
    say("subjects x tests x dimensions, judges, price of a first run; `hab sweeps NAME` prints the path of the file")
    return Exit.COMPLETE
