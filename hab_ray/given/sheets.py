"""The key to raters' sheets: which response each item is. It stays in the run folder."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from hab_ray.errors import ConfigError
from hab_ray.location import Location
from hab_ray.storage.run import SHEETS, RunFolder, rehearsal_of
from hab_ray.visible import one_line

SHEET_RATER = re.compile(r"R[0-9]+")


@dataclass(frozen=True, slots=True)
class SheetItem:
    """A response on a sheet, and the `item` by which raters know it.

    `raters` are those assigned to it, `seed` is the seed of the sheet's draw, `response_sha256` the hash of the text.
    """

    sheet: str
    item: str
    dimension: str
    test_id: str
    subject: str
    sample: int
    response_sha256: str
    raters: tuple[str, ...]
    seed: int


@dataclass(frozen=True)
class SheetKey:
    """The items of all sheets of a run, by item; of none without a run."""

    run: Location | None = None
    items: Mapping[str, SheetItem] = field(default_factory=dict)

    def find(self, name: str, where: str) -> SheetItem:
        """Return an item.

        Raises:
            ConfigError: no sheet of the run has it; the message says if its rehearsal's has it.
        """
        if name in self.items:
            return self.items[name]
        looked = f" ({self.run / SHEETS} was searched)" if self.run is not None else ""
        raise ConfigError(one_line(f"{where}: item: no sheet of this run has {name!r}{looked}; {self._remedy(name)}"))

    def _remedy(self, name: str) -> str:
        rehearsed = None if self.run is None else rehearsal_of(self.run)
        if rehearsed is not None and name in key_of_run(rehearsed).items:
            return (
                f"{rehearsed / SHEETS} has it, so it rates simulated answers: `hab rehearse` reads it; for the run "
                "itself, take the file out of `raters:`"
            )
        return (
            "name the file in the sweep of the run that the sheet was drawn from, copy `sheets/` of that run's folder "
            "into this one's, or draw it again with the same `hab annotate sheet`"
        )


def key_of_run(run: Location) -> SheetKey:
    """Read the key to all sheets of a run; empty if there is no run or sheet.

    Raises:
        DamagedFile: a key cannot be read.
    """
    folder = RunFolder(run)
    names = [name for name in folder.folder.list(SHEETS) if name.endswith(".parquet")]
    return SheetKey(run, {row.item: row for name in names for row in folder.read(SheetItem, name)})


def resolved(record: Mapping[str, object], key: SheetKey, where: str) -> dict[str, object] | None:
    """Convert a row of a sheet to a rating of its item's response; None if it is not rated yet.

    Raises:
        ConfigError: no sheet of the run has the item.
    """
    item = key.find(str(record["item"]), where)
    if not any(record.get(column) not in (None, "") for column in ("score", "issues", "failed")):
        return None
    return {
        **{column: value for column, value in record.items() if column not in ("prompt", "context", "subject_model")},
        "dimension": item.dimension,
        "test_id": item.test_id,
        "subject": item.subject,
        "sample": item.sample,
        "response_sha256": item.response_sha256,
    }
