"""How an analysis makes itself known.

An analysis is a module in `hab_ray.analysis.tables`, or in a package there, with one function under
`@analysis(Row, ...)`, and beside it a template of the same name. The function gets the run's `Summary` and returns rows
of a flat, frozen dataclass: these are written into `analysis/` of the run, read by `open_run(...).analysis(name)`,
exported, and shown by the template as `table`, arranged by `layout` where one is given. A module that describes a run
and claims nothing is a `@section`: it has a template and no file. If what is shown is empty or None, the report leaves
the section out. Nothing else names an analysis: the modules are found by listing the package.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

from hab_ray.analysis.summary import Summary
from hab_ray.rows import R

T = TypeVar("T", covariant=True)


@dataclass(frozen=True)
class Section(Generic[T]):
    """A function of a run, and how the report shows what it finds.

    `order` places it in the report, `link` names it in the list of sections, `heading` stands above it.
    """

    compute: Callable[[Summary], T]
    order: int
    link: str
    heading: str

    def __call__(self, summary: Summary) -> T:
        """What it finds in a run."""
        return self.compute(summary)

    def shown(self, summary: Summary) -> object:
        """What its template gets as `table`."""
        return self(summary)

    @property
    def module(self) -> str:
        """The module it is defined in."""
        return self.compute.__module__

    @property
    def name(self) -> str:
        """The name of its file, and of its section."""
        return self.module.rpartition(".")[2]

    @property
    def source(self) -> Path:
        """The file it is defined in."""
        file = sys.modules[self.module].__file__
        assert file is not None
        return Path(file)

    @property
    def template(self) -> str:
        """The text of its template."""
        return self.source.with_suffix(".html.j2").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Analysis(Section[Sequence[R]]):
    """A section whose rows are a table of type `row`; `layout` arranges them for the template. Computed once."""

    row: type[R]
    layout: Callable[[Summary, Sequence[R]], object] | None = None

    def __call__(self, summary: Summary) -> Sequence[R]:
        """The rows of its table."""
        if self.module not in summary.tables:
            summary.tables[self.module] = self.compute(summary)
        found: Sequence[R] = summary.tables[self.module]
        return found

    def shown(self, summary: Summary) -> object:
        """The rows as its template gets them."""
        rows = self(summary)
        return self.layout(summary, rows) if self.layout else rows


def section(*, order: int, link: str, heading: str) -> Callable[[Callable[[Summary], T]], Section[T]]:
    """Make a function a section without a table of its own; see `Section` for the arguments."""
    return lambda compute: Section(compute, order, link, heading)


def analysis(
    row: type[R],
    *,
    order: int,
    link: str,
    heading: str,
    layout: Callable[[Summary, Sequence[R]], object] | None = None,
) -> Callable[[Callable[[Summary], Sequence[R]]], Analysis[R]]:
    """Make a function an analysis; see `Analysis` for the arguments."""
    return lambda compute: Analysis(compute, order, link, heading, row, layout)


def discover(package: ModuleType) -> list[Section[Any]]:
    """The sections in a package's modules, in their order."""
    found: list[Section[Any]] = []
    for _, name, _ in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        values = vars(importlib.import_module(name)).values()
        found += [value for value in values if isinstance(value, Section) and value.module == name]
    return sorted(found, key=lambda each: (each.order, each.name))
