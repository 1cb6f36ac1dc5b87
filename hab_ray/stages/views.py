"""Paths of views, relative to the run folder."""

from hab_ray.catalog.models import folder_name


def candidates_file(dimension: str) -> str:
    """Return the path of a dimension's candidates."""
    return f"candidates/{dimension}.parquet"


def validations_file(dimension: str) -> str:
    """Return the path of a dimension's validations."""
    return f"validations/{dimension}.parquet"


def tests_file(dimension: str) -> str:
    """Return the path of a dimension's tests, generated or given."""
    return f"tests/{dimension}.parquet"


def responses_file(subject: str, dimension: str) -> str:
    """Return the path of a subject's responses."""
    return f"responses/{folder_name(subject)}/{dimension}.parquet"


def verdicts_file(judge: str, subject: str, dimension: str) -> str:
    """Return the path of a judge's verdicts on a subject."""
    return f"verdicts/{folder_name(judge)}/{folder_name(subject)}/{dimension}.parquet"


def rejudged_file(judge: str, subject: str, dimension: str) -> str:
    """Return the path of a judge's repeated verdicts on a subject."""
    return f"rejudged/{folder_name(judge)}/{folder_name(subject)}/{dimension}.parquet"
