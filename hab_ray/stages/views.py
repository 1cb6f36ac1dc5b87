"""Where the views of candidates, tests, responses and verdicts are, below the run folder."""

from __future__ import annotations

from hab_ray.catalog.models import folder_name


def candidates_file(dimension: str) -> str:
    """A dimension's candidates, in a run that generates its tests."""
    return f"candidates/{dimension}.parquet"


def tests_file(dimension: str) -> str:
    """A dimension's tests; tests that a sweep gives are kept there, too."""
    return f"tests/{dimension}.parquet"


def responses_file(subject: str, dimension: str) -> str:
    """A subject's responses."""
    return f"responses/{folder_name(subject)}/{dimension}.parquet"


def verdicts_file(judge: str, subject: str, dimension: str) -> str:
    """A judge's verdicts on a subject."""
    return f"verdicts/{folder_name(judge)}/{folder_name(subject)}/{dimension}.parquet"


def rejudged_file(judge: str, subject: str, dimension: str) -> str:
    """What a judge said of some of a subject's answers when it was asked again."""
    return f"rejudged/{folder_name(judge)}/{folder_name(subject)}/{dimension}.parquet"
