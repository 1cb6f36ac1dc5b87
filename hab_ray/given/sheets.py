"""The key to raters' sheets: which response each item is. It stays in the run folder."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from hab_ray.errors import ConfigError
from hab_ray.location import Location
from hab_ray.storage.run import SHEETS, RunFolder
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


def key_of_run(run: Location) -> Mapping[str, SheetItem]:
    """Read the items of all sheets of a run, by item; empty if there is no run or sheet.

    Raises:
        DamagedFile: a key cannot be read.
    """
    folder = RunFolder(run)
    names = [name for name in folder.folder.list(SHEETS) if name.endswith(".parquet")]
    return {row.item: row for name in names for row in folder.read(SheetItem, name)}


def resolved(record: Mapping[str, object], key: Mapping[str, SheetItem], where: str) -> dict[str, object] | None:
    """Convert a row of a sheet to a rating of its item's response; None if it is not rated yet.

    Raises:
        ConfigError: no sheet of the run has the item.
    """
    name = str(record["item"])
    if name not in key:
        raise ConfigError(
            one_line(
                f"{where}: item: no sheet of this run has {name!r}; name the file in the sweep of the run that the "
                "sheet was drawn from, copy `sheets/` of that run's folder into this one's, or draw it again with the "
                "same `hab annotate sheet`"
            )
        )
    if not any(record.get(column) not in (None, "") for column in ("score", "issues", "failed")):
        return None
    item = key[name]
    return {
        **{column: value for column, value in record.items() if column not in ("prompt", "context", "subject_model")},
        "dimension": item.dimension,
        "test_id": item.test_id,
        "subject": item.subject,
        "sample": item.sample,
        "response_sha256": item.response_sha256,
    }
