"""`hab export`: writes a run's rows into a new folder in a chosen format.

A format is a module of `hab_ray.exchange.formats` with the format's name (_ for -), or an entry point of the group
`hab_ray.formats` in another distribution. Each has a function `write(run, sharing, folder)`, which writes files into
the folder and returns the number of rows in each. `hab_ray.exchange.tidy` provides the rows as tables.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from inspect import signature
from numbers import Integral
from pathlib import Path
from types import FunctionType

from hab_ray.exchange import formats
from hab_ray.exchange.card import CARD, card
from hab_ray.exchange.folders import new_folder, refuse_full
from hab_ray.exchange.sharing import Sharing
from hab_ray.resources import Extensions
from hab_ray.results import Run

FORMATS = Extensions(
    group="hab_ray.formats",
    word="export format",
    built_in={
        name.replace("_", "-"): f"{formats.__name__}.{name}:write"
        for _, name, _ in pkgutil.iter_modules(formats.__path__)
    },
    remedy="Name one of them, or install the package that adds this one",
)


def export(run: Run, form: str, folder: Path, licence: str, sharing: Sharing) -> list[Path]:
    """Write a run's rows and a card into a new folder; return the sorted files. The card states `licence`.

    Raises:
        ConfigError: the folder is not empty, the format does not exist, its package is broken, or one that it needs is
            missing.
        DamagedFile: a view of the run cannot be read.
    """
    entry, write = FORMATS.find(form), FORMATS.load(form, FunctionType)
    with FORMATS.blamed(entry):
        signature(write).bind(run, sharing, folder)
    refuse_full(folder)
    with new_folder(folder) as unfinished:
        rows = write(run, sharing, unfinished)
        with FORMATS.blamed(entry):
            if not isinstance(rows, Mapping) or not all(
                isinstance(n, str) and isinstance(rows[n], Integral) for n in rows
            ):
                raise TypeError(f"it has to return a dict of file names and numbers of rows, and returned {rows!r:.80}")
        (unfinished / CARD).write_text(card(run, rows, licence, sharing), encoding="utf-8")
    return sorted(path for path in folder.rglob("*") if path.is_file())
