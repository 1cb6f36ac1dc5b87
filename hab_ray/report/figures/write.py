"""Writes a run's figures as SVG, PNG and CSV; equal tables and the same matplotlib give equal bytes."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hab_ray.analysis.files import to_csv
from hab_ray.errors import ConfigError, installing
from hab_ray.results import Run
from hab_ray.rows import to_table
from hab_ray.storage.folder import Folder
from hab_ray.storage.simulated import simulated_notice

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 300
# Text is outlines in the SVG, so that it looks the same without the font; "$" in a subject's name starts no formula.
_SETTINGS: dict[Any, Any] = {"svg.fonttype": "path", "svg.hashsalt": "hab", "text.parse_math": False}
_METADATA = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}
_KINDS = (*_METADATA, "csv")


@dataclass(frozen=True)
class Written:
    """A figure's file names and description; no files if the run has nothing to draw.

    `missing` are the characters that the font lacks; the figure shows boxes in their place.
    """

    name: str
    files: tuple[str, ...]
    shows: str
    missing: str = ""


def write_figures(run: Run, folder: Folder) -> list[Written]:
    """Write every figure for which a run has data into a folder; remove earlier drawings of the others.

    Raises:
        ConfigError: matplotlib is not installed, or the run has no tables yet.
    """
    try:
        import matplotlib

        from hab_ray.report.figures.drawing import DRAWINGS, put_notice
    except ImportError:
        raise ConfigError(
            f"hab figures: matplotlib is not installed; {installing('figures')} (or uv tool install '.[figures]', if "
            "you installed it with uv)"
        ) from None
    notice, written = simulated_notice(run.location), []
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **_SETTINGS}):
        for name, drawing in DRAWINGS.items():
            rows, files, missing = drawing.data(run), {}, ""
            if rows:
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    figure = drawing.draw(rows)
                    if notice:
                        put_notice(figure, notice)
                    files = _files(name, rows, figure)
                missing = _missing(caught)
            for file in (f"{name}.{kind}" for kind in _KINDS):
                if file in files:
                    folder.put(file, files[file])
                else:
                    folder.delete(file)
            written.append(Written(name, tuple(files), drawing.shows, missing))
    return written


def _missing(caught: Iterable[warnings.WarningMessage]) -> str:
    """Return the characters that matplotlib's warnings say the font lacks; repeat its other warnings."""
    missing: dict[str, None] = {}
    for each in caught:
        if glyph := re.match(r"Glyph (\d+) ", str(each.message)):
            missing[chr(int(glyph[1]))] = None
        else:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    return "".join(missing)


def _files(name: str, rows: Sequence[Any], figure: Figure) -> dict[str, bytes]:
    images = {kind: io.BytesIO() for kind in _METADATA}
    for kind, out in images.items():
        figure.savefig(out, format=kind, dpi=DPI, bbox_inches="tight", metadata=_METADATA[kind])
    drawn = {f"{name}.{kind}": out.getvalue() for kind, out in images.items()}
    return {**drawn, f"{name}.csv": to_csv(to_table(type(rows[0]), list(rows)))}
