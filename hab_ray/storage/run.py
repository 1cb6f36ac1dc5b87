"""The run folder: views of the store as Parquet, the resolved sweep, progress and the report."""

import os
from dataclasses import dataclass
from difflib import SequenceMatcher
from hashlib import sha256

from hab_ray.errors import ConfigError, DamagedFile
from hab_ray.location import Location, folders_with
from hab_ray.rows import R, from_table, to_table
from hab_ray.storage.folder import open_folder
from hab_ray.storage.replies.parts import part_metadata
from hab_ray.storage.replies.records import read_table, to_parquet
from hab_ray.visible import one_line

SWEEP = "sweep.yaml"
UNANSWERED = "log/unanswered.jsonl"
FAILED = "log/failed.jsonl"
SCORES = "scores.parquet"
SHIFTS, ISSUE_SHIFTS, SCORE_MAPS = "bridge/shifts.parquet", "bridge/issues.parquet", "bridge/maps.parquet"
RATERS = "raters.parquet"
TEXTS = "texts"
ANALYSIS = "analysis"
FIGURES = "figures"
SHEETS = "sheets"
REPORT = "report/index.html"
PENDING = "pending"
VIEWS = ("candidates", "validations", "tests", "responses", "verdicts", "rejudged")
MARKER, BY_SIMULATOR, PEOPLE = "SIMULATED.txt", "SIMULATOR.txt", "people.jsonl"
OF_A_RUN = (
    *(SCORES, RATERS, PEOPLE, BY_SIMULATOR, *VIEWS, TEXTS, ANALYSIS, FIGURES, SHEETS),
    *("bridge", "report", "log", "cells", PENDING),
)
_MAX_NAMED = 5
_DERIVATION = b"derivation_sha256"


def rehearsal_of(run: Location) -> Location:
    """Return the folder of a run's rehearsal unless another is named: beside it."""
    return run.sibling(f"rehearsal-{run.name}")


@dataclass(frozen=True)
class ViewFooter:
    """The number of rows of a view, and the digest of its derivation; None in views of versions that wrote none."""

    rows: int
    derivation: str | None


class RunFolder:
    """The files of one run. Views are replaced atomically."""

    def __init__(self, location: Location) -> None:
        self.location = location
        self.folder = open_folder(location)

    def exists(self) -> bool:
        """Return whether a run was ever started here."""
        return self.folder.exists(SWEEP)

    def has_begun(self) -> bool:
        """Return whether the run has rows or a log, and may thus have spent money."""
        return any(self.folder.list(part) for part in ("log", *VIEWS))

    def has(self, name: str) -> bool:
        """Return whether the run has this view."""
        return self.folder.exists(name)

    def count(self, name: str) -> int | None:
        """Return the number of rows of a view; None if it is missing or damaged, so that it is derived again."""
        footer = self.footer(name)
        return footer.rows if footer else None

    def footer(self, name: str) -> ViewFooter | None:
        """Read the footer of a view; None if it is missing or damaged, so that it is derived again."""
        try:
            metadata = part_metadata(self.folder, name)
        except (FileNotFoundError, DamagedFile):
            return None
        digest = (metadata.metadata or {}).get(_DERIVATION)
        return ViewFooter(int(metadata.num_rows), digest and digest.decode("ascii", "replace"))

    def read(self, row_type: type[R], name: str) -> list[R]:
        """Return the rows of a view; none if it does not exist."""
        if not self.has(name):
            return []
        return from_table(row_type, read_table(name, self.folder.get(name)))

    def write(self, row_type: type[R], name: str, rows: list[R], derivation: str | None = None) -> None:
        """Replace a view; `derivation` is the digest of its derivation, if it was derived from the store."""
        table = to_table(row_type, rows)
        if derivation is not None:
            table = table.replace_schema_metadata({_DERIVATION: derivation.encode()})
        self.folder.put(name, to_parquet(table))

    def text(self, digest: str) -> bytes | None:
        """Return the user's own text with this digest, as the run has used it; None if the run does not hold it."""
        name = f"{TEXTS}/{digest}"
        if not digest.isalnum() or not self.has(name):
            return None
        text = self.folder.get(name)
        return text if sha256(text).hexdigest() == digest else None

    def remove(self) -> list[str]:
        """Remove the run's files and return the names of all others in the folder.

        The record goes last, so that an interrupted removal can be repeated.
        """
        for name in (*OF_A_RUN, MARKER):
            self.folder.clear(name)
            self.folder.delete(name)
        self.folder.delete(SWEEP)
        return list(self.folder.list())

    def require(self) -> None:
        """Check that this folder holds a run; raise ConfigError if it does not."""
        if not self.exists():
            runs = self._runs_near() if self.location.is_local else []
            more = ", ..." if len(runs) > _MAX_NAMED else ""
            found = f"; there are runs at {', '.join(runs[:_MAX_NAMED])}{more}" if runs else ""
            raise ConfigError(
                one_line(f"{self.location}: there is no run here (no {SWEEP}){found}; start one with")
                + " `hab run SWEEP.yaml`"
            )

    def _runs_near(self) -> list[str]:
        """Return the runs in the same folder on disk, and in runs/ below it, the most similar path first."""
        place = self.location.parent
        runs = {run for folder in (place, place / "runs") for run in folders_with(SWEEP, folder)}
        return sorted(runs, key=lambda run: (-SequenceMatcher(None, run, str(self.location)).ratio(), run))


def runs_below(place: Location) -> list[Location]:
    """Return the runs directly below a folder or prefix, also those that links lead to, by name.

    A folder that this user may not enter is taken for a run.
    """
    if place.is_local:
        closed = (str(folder) for folder in place.path.glob("*/") if not os.access(folder, os.X_OK))
        return [Location(run) for run in sorted({*folders_with(SWEEP, place.absolute()), *closed})]
    found = (name.rpartition("/") for name in open_folder(place).list())
    return [place / above for above, _, file in found if file == SWEEP and above and "/" not in above]
