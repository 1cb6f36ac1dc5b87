"""Registration of analyses.

An analysis is a module in `hab_ray.analysis.tables`, or in a package there, with one function decorated by
`@analysis(Row, ...)` and a template of the same name. The function takes the run's `Summary` and returns rows of a
flat, frozen dataclass. They are written into `analysis/` of the run, read by `open_run(...).analysis(name)`, exported,
and passed to the template as `table`, through `layout` if one is given. A module that only describes a run is a
`@section`: it has a template but no file. The report omits a section whose `table` is empty or None. Analyses are
discovered by listing the package; they are named nowhere else.
"""

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
    """A function of a run and how the report shows its result.

    `order` is its position in the report, `heading` its title there and in the list of sections.
    """

    compute: Callable[[Summary], T]
    order: int
    heading: str

    def __call__(self, summary: Summary) -> T:
        return self.compute(summary)

    def shown(self, summary: Summary) -> object:
        """Return the `table` of its template."""
        return self(summary)

    @property
    def module(self) -> str:
        """The name of the module that defines it."""
        return self.compute.__module__

    @property
    def name(self) -> str:
        """The name of its file and section."""
        return self.module.rpartition(".")[2]

    @property
    def source(self) -> Path:
        """The file that defines it."""
        file = sys.modules[self.module].__file__
        assert file is not None
        return Path(file)

    @property
    def template(self) -> str:
        """The text of its template."""
        return self.source.with_suffix(".html.j2").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Analysis(Section[Sequence[R]]):
    """A section whose result is a table of `row`s, computed once; `layout` arranges them for the template."""

    row: type[R]
    layout: Callable[[Summary, Sequence[R]], object] | None = None

    def __call__(self, summary: Summary) -> Sequence[R]:
        if self.module not in summary.tables:
            summary.tables[self.module] = self.compute(summary)
        return summary.tables[self.module]

    def shown(self, summary: Summary) -> object:
        rows = self(summary)
        return self.layout(summary, rows) if self.layout else rows


def section(*, order: int, heading: str) -> Callable[[Callable[[Summary], T]], Section[T]]:
    """Register a function as a section without a table; see `Section` for the arguments."""
    return lambda compute: Section(compute, order, heading)


def analysis(
    row: type[R],
    *,
    order: int,
    heading: str,
    layout: Callable[[Summary, Sequence[R]], object] | None = None,
) -> Callable[[Callable[[Summary], Sequence[R]]], Analysis[R]]:
    """Register a function as an analysis; see `Analysis` for the arguments."""
    return lambda compute: Analysis(compute, order, heading, row, layout)


def discover(package: ModuleType) -> list[Section[Any]]:
    """Return the sections defined in a package's modules, in the report's order."""
    found: list[Section[Any]] = []
    for _, name, _ in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        values = vars(importlib.import_module(name)).values()
        found += [value for value in values if isinstance(value, Section) and value.module == name]
    return sorted(found, key=lambda each: (each.order, each.name))
