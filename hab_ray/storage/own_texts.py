"""A run's copies of the user's own texts, by which it is read whatever became of their files."""

from hab_ray.location import Location
from hab_ray.rubric import KeptTexts, RubricLibrary, read_library_of_run
from hab_ray.storage.record import Record
from hab_ray.storage.run import RunFolder


def kept_texts(run: Location, record: Record) -> KeptTexts:
    """Return the copies that a run's folder holds."""
    return KeptTexts(RunFolder(run).text, record.hashes, record.sources or {})


def library_of_run(run: Location, record: Record) -> RubricLibrary:
    """Return the rubrics and themes for a run that is only looked at; see `read_library_of_run`."""
    return read_library_of_run(record.sweep.rubrics, kept_texts(run, record))
