"""How an analysis makes itself known.

An analysis is a module in `hab_ray.analysis.tables` with one function under `@analysis`, and beside it a template of
the same name. The function gets the run's `Summary` and returns what the template shows as `table`: rows, or a frozen
dataclass of rows. If that is empty or None, the report leaves the section out. Nothing else names an analysis: the
modules are found by listing the package.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Generic, TypeVar

from hab_ray.analysis.summary import Summary

T = TypeVar("T", covariant=True)


@dataclass(frozen=True)
class Analysis(Generic[T]):
    """A function that computes a table from a run, and how the report shows it.

    `order` places its section in the report, `link` names it in the list of sections, `heading` stands above it.
    """

    compute: Callable[[Summary], T]
    order: int
    link: str
    heading: str

    def __call__(self, summary: Summary) -> T:
        """The table of a run."""
        return self.compute(summary)

    @property
    def module(self) -> str:
        """The module it is defined in."""
        return self.compute.__module__

    @property
    def name(self) -> str:
        """The name of its file, and of its section."""
        return self.module.rpartition(".")[2]

    @property
    def template(self) -> str:
        """The text of its template."""
        file = sys.modules[self.module].__file__
        assert file is not None
        return Path(file).with_suffix(".html.j2").read_text(encoding="utf-8")


def analysis(*, order: int, link: str, heading: str) -> Callable[[Callable[[Summary], T]], Analysis[T]]:
    """Make a function an analysis; see `Analysis` for the arguments."""
    return lambda compute: Analysis(compute, order, link, heading)


def discover(package: ModuleType) -> list[Analysis[object]]:
    """The analyses in a package's modules, in the order of their sections."""
    found: list[Analysis[object]] = []
    for _, name, _ in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        values = vars(importlib.import_module(name)).values()
        found += [value for value in values if isinstance(value, Analysis) and value.module == name]
    return sorted(found, key=lambda each: (each.order, each.name))
