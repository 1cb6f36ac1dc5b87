"""Ratings given in files: scores of single responses by people or by judges of earlier studies."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from math import isfinite, nan
from typing import Annotated, Any, Self

from pydantic import AliasChoices, BeforeValidator, Field, model_validator

from hab_ray.calls import clean_text
from hab_ray.config.sections import Name
from hab_ray.errors import ConfigError
from hab_ray.given.rows import AnswerRow, Columns, Text, given_records, given_row, warn_of_alike
from hab_ray.given.sheets import SheetKey, resolved
from hab_ray.inputs.csv_text import NO_ISSUES
from hab_ray.location import Location
from hab_ray.rows import ChosenTest, Rater, Response, State, id_of_test
from hab_ray.rubric import SCORE_START, Rubric
from hab_ray.stages.replies.verdicts import score
from hab_ray.visible import one_line

_MAX_REASON = 300
PSEUDONYM = re.compile(r"person-[0-9]+")


@dataclass(frozen=True)
class Scale:
    """The lowest and highest score of an earlier study, which map to 0 and 10. As text: `LOW:HIGH`."""

    low: float
    high: float

    @classmethod
    def of(cls, text: str) -> Self:
        """Parse a scale; raise ValueError if the text is not a scale."""
        low, high = (number_in(end) for end in text.split(":")) if text.count(":") == 1 else (nan, nan)
        if not (low < high and isfinite(high - low)):
            raise ValueError(f"{one_line(text, 40)!r} is no scale; write LOW:HIGH, such as 1:7 or 0:100")
        return cls(low, high)

    def __str__(self) -> str:
        return f"{self.low:g}:{self.high:g}"

    def score(self, given: object) -> float:
        """Convert a score on this scale to 0..10; raise ValueError if it is not a number on this scale."""
        number = number_in(given)
        if not self.low <= number <= self.high:
            raise ValueError(f"{one_line(str(given), 40)!r} is no number from {self.low:g} to {self.high:g}")
        return (number - self.low) / (self.high - self.low) * SCORE_START


_ANY_SCORE = Scale(0, SCORE_START)


def number_in(given: object) -> float:
    """Convert a number or its text to a float; NaN if it is neither."""
    try:
        return float(given) if isinstance(given, int | float | str) and not isinstance(given, bool) else nan
    except (ValueError, OverflowError):
        return nan


def whole_score(given: object) -> int:
    """Convert a score in a file, a number or its text; raise ValueError if it is not a whole number from 0 to 10."""
    number = number_in(given)
    if not (number.is_integer() and 0 <= number <= SCORE_START):
        raise ValueError(
            f"{one_line(str(given), 40)!r} is no whole number from 0 to {SCORE_START}, as judges score; convert "
            "ratings on another scale by --scale of `hab import`, and give each rater's own rating rather than a mean"
        )
    return int(number)


def _letters(given: Any) -> Any:
    """Split letters written as one text: `A, C`. `none` means no issues, an empty text unknown issues."""
    if not isinstance(given, str):
        return given
    text = given.strip()
    if text.lower() in ("", NO_ISSUES):
        return () if text else None
    return tuple(letter.strip() for letter in text.split(","))


def response_digest(text: str) -> str:
    """Return the sha256 of a response's text, which identifies the rated response."""
    return sha256(clean_text(text).encode()).hexdigest()


def tests_by_text(tests: Iterable[ChosenTest]) -> dict[str, str]:
    """Map every name that ratings may use for a test to its id: the id, or the hash of its texts or of its prompt.

    The hash of the prompt alone counts only if no other test has that prompt. Id and hash of the texts together are
    another name, as several tests may have the same texts.
    """
    ids, whole, alone = {}, {}, defaultdict(set)
    for test in tests:
        texts = id_of_test(test.dimension, test.prompt, test.context)
        whole[texts] = ids[test.id] = ids[_both(test.id, texts)] = test.id
        alone[id_of_test(test.dimension, test.prompt, "")].add(test.id)
    by_prompt = {key: found.pop() for key, found in alone.items() if len(found) == 1}
    return by_prompt | whole | ids


class GivenRating(AnswerRow):
    """One row: a rater's score of a response, or the issues that determine it. In a sheet, `item` names the response.

    With `response_sha256` the rating applies only to a response with this text. `failed` says why there is no score.
    `scale` is the scale from which an import converted the score, which need not be whole then.
    """

    item: Any = None
    rater: Name
    kind: Rater
    score: Any = None
    failed: Annotated[Text, BeforeValidator(lambda given: given or "")] = ""
    scale: Text | None = None
    issues: Annotated[tuple[str, ...] | None, BeforeValidator(_letters)] = None
    assessment: Annotated[Text | None, Field(validation_alias=AliasChoices("assessment", "comment"))] = None
    response_sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None

    @model_validator(mode="after")
    def _is_scored_or_failed(self) -> Self:
        self.mark()
        return self

    @property
    def names_issues_alone(self) -> bool:
        """Whether the row has issues but no score, so that the issues determine the score."""
        return self.score in (None, "") and self.issues is not None and not self.failed.strip()

    def mark(self) -> float | None:
        """Return the score from 0 to 10; None if the rater failed or named only issues.

        Raises:
            ValueError: the score is invalid or missing, or there is one although the rater failed.
        """
        if self.score in (None, "") and self.issues is None and not self.failed.strip():
            raise ValueError(
                f"score: is empty, and so is `issues`; write one of them (in `issues` `{NO_ISSUES}` if none applies), "
                "or leave the row out"
            )
        try:
            if not self.failed.strip() and not self.names_issues_alone:
                return whole_score(self.score) if self.scale is None else _ANY_SCORE.score(self.score)
        except ValueError as error:
            raise ValueError(f"score: {error}") from None
        if self.score not in (None, ""):
            raise ValueError("score: is given, and `failed` says why there is none; keep one of them")
        return None


_COLUMNS = Columns.of(GivenRating, numbers=("sample", "score"))


@dataclass(frozen=True, slots=True)
class Rating:
    """A rater's score (0..10) of one response; None exactly if `failed` says why there is no score.

    `test` is the test's id or the `id_of_test` of its texts, which `texts` is if both are given. `issues` is None if
    unknown.
    """

    test: str
    dimension: str
    subject: str
    sample: int
    rater: str
    kind: Rater
    score: float | None
    issues: tuple[str, ...] | None
    assessment: str
    response_sha256: str | None
    failed: str = ""
    texts: str = field(default="", compare=False)


def test_of(rating: Rating, names: Mapping[str, str]) -> str | None:
    """Return the id of the rated test by its `names`, or by its texts if its id is not one of them.

    None if neither is, or the texts are those of another test.
    """
    test_id = names.get(rating.test, names.get(rating.texts))
    is_same = names.get(rating.texts, test_id) == test_id or _both(rating.test, rating.texts) in names
    return test_id if is_same else None


def _both(test: str, texts: str) -> str:
    return f"{test}\0{texts}"


def is_of(rating: Rating, answer: Response) -> bool:
    """Whether a rating of this test and subject applies to this response; always, if it has no digest."""
    digest = rating.response_sha256
    return digest is None or (answer.state is State.OK and digest == response_digest(answer.text))


def is_of_given(rating: Rating, answer: Response) -> bool:
    """Whether a rating applies to a given response; always, if that response has no text."""
    return answer.state is not State.OK or is_of(rating, answer)


@dataclass(frozen=True)
class GivenRatings:
    """The distinct ratings of some files, and the number of rows of other dimensions."""

    ratings: tuple[Rating, ...]
    elsewhere: int

    @property
    def raters(self) -> tuple[str, ...]:
        """The names of the raters, in the files' order."""
        return tuple(dict.fromkeys(rating.rater for rating in self.ratings))


def read_given_ratings(
    paths: Sequence[Location], rubrics: Mapping[str, Rubric], key: SheetKey | None = None
) -> GivenRatings:
    """Read the ratings of the rubrics' dimensions in some files (Parquet, CSV or JSON).

    `key` maps the items of sheets to responses; rows of sheets without a rating are left out. Of two rows about one
    rating, such as of both published data sets, the one that says more counts. Raise ConfigError if a file cannot be
    read, a row is not a rating, or two rows contradict each other.
    """
    known: dict[tuple[str, str, str, str, int], tuple[Rating, str]] = {}
    kinds: dict[str, Rater] = {}
    raters: dict[str, str] = {}
    elsewhere = 0
    for where, row in _rows(paths, key or SheetKey()):
        if row.dimension not in rubrics:
            elsewhere += 1
            continue
        rating = _rating(row, rubrics[row.dimension], where)
        answer = rating.rater, rating.dimension, rating.subject, rating.test, rating.sample
        earlier, place = known.setdefault(answer, (rating, where))
        if earlier != rating:
            if (fuller := _fuller(earlier, rating) or _fuller(rating, earlier)) is None:
                cause = f"{where}: {row.rater} has rated this answer before, otherwise ({place})"
                remedy = "keep one row, or give the rater another name in one of the files"
                raise ConfigError(one_line(f"{cause}; {remedy}"))
            known[answer] = fuller, place
        if kinds.setdefault(row.rater, row.kind) is not row.kind:
            raise ConfigError(one_line(f"{where}: {row.rater} is a {kinds[row.rater]} in an earlier row; name one"))
        raters.setdefault(row.rater, where)
    warn_of_alike("rater", raters)
    return GivenRatings(tuple(rating for rating, _ in known.values()), elsewhere)


def _fuller(more: Rating, less: Rating) -> Rating | None:
    """Return `more` if it says all that `less` does, and perhaps the issues, the assessment or a failure besides.

    The published code scored a judge's failure 0, or 10 if the reply named no issues: a table without replies has only
    this score.
    """
    filled = replace(less, assessment=less.assessment or more.assessment)
    if less.issues is None:
        filled = replace(filled, issues=more.issues)
        if less.kind is Rater.PUBLISHED and less.score in (0, SCORE_START) and more.failed:
            filled = replace(filled, score=None, failed=more.failed)
    return more if filled == more else None


def _rows(paths: Sequence[Location], key: SheetKey) -> Iterator[tuple[str, GivenRating]]:
    """Yield the rows of all files, each with its location for messages."""
    pseudonyms: dict[str, Location] = {}
    for path in paths:
        for where, row in _rows_of(path, key):
            if PSEUDONYM.fullmatch(row.rater) and pseudonyms.setdefault(row.rater, path) != path:
                raise ConfigError(
                    one_line(
                        f"{where}: {row.rater} is in {pseudonyms[row.rater]}, too, and need not be the same person, as "
                        "each import numbers people anew; import one table of all ratings, or rename the raters of one"
                    )
                )
            yield where, row


def _rows_of(path: Location, key: SheetKey) -> Iterator[tuple[str, GivenRating]]:
    number = 0
    for number, record in enumerate(given_records(path, "raters", _COLUMNS), 1):
        where = f"{path}, row {number}"
        if isinstance(record, dict) and record.get("item"):
            record = resolved(record, key, where)
        if record is not None:
            yield where, given_row(GivenRating, record, where)
    if not number:
        raise ConfigError(one_line(f"raters: {path}: has no row; check that it is a table of ratings, or leave it out"))


def _rating(row: GivenRating, rubric: Rubric, where: str) -> Rating:
    known = rubric.issue_letters()
    if unknown := [letter for letter in row.issues or () if letter not in known]:
        raise ConfigError(
            one_line(
                f"{where}: issues: {rubric.id} has no issue {unknown[0]!r}, only {', '.join(known)}; correct it, or "
                "leave `issues` out"
            )
        )
    texts = id_of_test(rubric.id, row.prompt or "", (row.context or "") if rubric.context else "")
    issues = None if row.issues is None else tuple(letter for letter in known if letter in row.issues)
    return Rating(
        test=texts if row.test_id is None else row.test_id,
        dimension=rubric.id,
        subject=row.subject,
        sample=row.sample,
        rater=row.rater,
        kind=row.kind,
        score=float(score(rubric, issues or ())) if row.names_issues_alone else row.mark(),
        issues=issues,
        assessment=row.assessment or "",
        response_sha256=row.response_sha256,
        failed=one_line(row.failed.strip(), _MAX_REASON),
        texts=texts if row.prompt else "",
    )
