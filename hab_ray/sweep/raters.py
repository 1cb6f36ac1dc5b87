"""Joins the ratings that a sweep names under `raters:` to the run's answers, and keeps them as views of verdicts.

A rater's views lie beside those of the judges and are in no shard: they cost no call and enter no score.
`raters.parquet` lists them, so that they are replaced or removed when the files change, and no other view ever is.
People enter the run folder under pseudonyms, so that none of its readers can give their names away.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256
from itertools import count

from hab_ray.errors import ConfigError
from hab_ray.given.ratings import PSEUDONYM, GivenRatings, Rating, is_of, is_of_given, tests_by_text
from hab_ray.given.sheets import SHEET_RATER
from hab_ray.rows import ChosenTest, Rater, RaterView, Response, State, Verdict, to_table
from hab_ray.stages.views import responses_file, tests_file, verdicts_file
from hab_ray.storage.replies.records import to_parquet
from hab_ray.storage.run import RATERS, RunFolder
from hab_ray.visible import one_line
from hab_ray.work import Work, given_ratings


class PeopleAs(StrEnum):
    """What people who rated are called in a run. Judges and programs keep their names."""

    PSEUDONYMS = "pseudonyms"
    NAMES = "names"


class Unjoined(StrEnum):
    """Why a rating belongs to no answer of the run."""

    DIMENSION = "of other dimensions"
    SUBJECT = "of other subjects"
    TEST = "of other tests"
    NO_ANSWER = "of answers that this run does not have"
    OTHER_ANSWER = "of other answers to the same test"


@dataclass
class Joined:
    """Verdicts by the file of their view, and how many ratings belong to no answer, by reason."""

    views: dict[str, list[Verdict]] = field(default_factory=lambda: defaultdict(list))
    unjoined: Counter[Unjoined] = field(default_factory=Counter)


def place_raters(work: Work, people: PeopleAs = PeopleAs.PSEUDONYMS) -> list[str]:
    """Bring the views of raters up to date with the files and the answers that there are; what to say of it.

    Raises:
        ConfigError: a file cannot be read, or a view is there that does not come from such a file.
    """
    listed = {view.file: view for view in work.run.read(RaterView, RATERS)}
    if not work.sweep.raters and not listed:
        return []
    given = given_ratings(work)
    joined = join_ratings(work, given.ratings)
    if people is PeopleAs.PSEUDONYMS:
        joined.views = _renamed(joined.views, _pseudonyms(work, given))
    joined.unjoined[Unjoined.DIMENSION] += given.elsewhere
    _publish(work.run, joined.views, listed)
    return [_told(joined)] if work.sweep.raters else []


def _pseudonyms(work: Work, given: GivenRatings) -> dict[str, str]:
    """`rater-1` and so on for people, as they first come in the files; those of imports and sheets stay as they are."""
    named = dict.fromkeys(
        rating.rater
        for rating in given.ratings
        if rating.kind is Rater.PERSON
        and not (PSEUDONYM.fullmatch(rating.rater) or SHEET_RATER.fullmatch(rating.rater))
    )
    judges = {judge.name for judge in (*work.sweep.judges, *work.sweep.varied_judges)}
    taken = judges | (set(given.raters) - named.keys())
    free = (name for number in count(1) if (name := f"rater-{number}") not in taken)
    return dict(zip(named, free, strict=False))


def _renamed(views: Mapping[str, list[Verdict]], names: Mapping[str, str]) -> dict[str, list[Verdict]]:
    renamed = [[replace(row, judge=names.get(row.judge, row.judge)) for row in rows] for rows in views.values()]
    return {verdicts_file(rows[0].judge, rows[0].subject, rows[0].dimension): rows for rows in renamed}


def join_ratings(work: Work, ratings: Iterable[Rating]) -> Joined:
    """The ratings as verdicts on the answers of a run that they are of, in the order of its tests.

    Raises:
        ConfigError: a rater has rated an answer twice, naming its test in two ways.
    """
    found = Joined()
    by_part: dict[tuple[str, str], list[Rating]] = defaultdict(list)
    for rating in ratings:
        by_part[rating.dimension, rating.subject].append(rating)
    dimensions = {dimension for dimension, _ in by_part}
    tests = {dimension: work.run.read(ChosenTest, tests_file(dimension)) for dimension in dimensions}
    for (dimension, subject), those in sorted(by_part.items(), key=lambda part: part[0]):
        if subject in work.sweep.subject_names:
            _join_part(work, dimension, subject, tests[dimension], those, found)
        else:
            found.unjoined[Unjoined.SUBJECT] += len(those)
    return found


def _join_part(
    work: Work, dimension: str, subject: str, tests: Sequence[ChosenTest], ratings: Iterable[Rating], found: Joined
) -> None:
    """Join the ratings of one subject's answers in one dimension."""
    order, by_text = {test.id: place for place, test in enumerate(tests)}, tests_by_text(tests)
    responses = {(row.test_id, row.sample): row for row in work.run.read(Response, responses_file(subject, dimension))}
    given = work.sweep.responses
    is_same = is_of_given if given is not None and subject in given.subjects else is_of
    by_rater: dict[str, dict[tuple[int, int], Verdict]] = defaultdict(dict)
    for rating in ratings:
        test_id = by_text.get(rating.test)
        if test_id is None:
            found.unjoined[Unjoined.TEST] += 1
        elif (response := responses.get((test_id, rating.sample))) is None:
            found.unjoined[Unjoined.NO_ANSWER] += 1
        elif not is_same(rating, response):
            found.unjoined[Unjoined.OTHER_ANSWER] += 1
        else:
            verdict = _verdict(rating, test_id)
            if by_rater[rating.rater].setdefault((order[test_id], rating.sample), verdict) != verdict:
                raise ConfigError(
                    one_line(f"raters: {rating.rater} has rated {subject} on {test_id} twice; keep one row")
                )
    for rater, verdicts in by_rater.items():
        found.views[verdicts_file(rater, subject, dimension)] += [verdicts[place] for place in sorted(verdicts)]


def _verdict(rating: Rating, test_id: str) -> Verdict:
    return Verdict(
        test_id=test_id,
        dimension=rating.dimension,
        subject=rating.subject,
        sample=rating.sample,
        judge=rating.rater,
        state=State.FAILED if rating.failed else State.OK,
        issues=rating.issues,
        assessment=rating.assessment,
        score=rating.score,
        asks=0,
        reason=rating.failed,
        reply_key="",
        kind=rating.kind,
    )


def _publish(run: RunFolder, views: Mapping[str, list[Verdict]], listed: Mapping[str, RaterView]) -> None:
    """Replace the views that have changed and remove those that are no more.

    A view is listed before it is there and until it is gone: whatever a crash leaves is known to be a rater's.
    """
    there = set(run.folder.list("verdicts"))
    if foreign := sorted(file for file in views if file in there and file not in listed):
        raise ConfigError(
            one_line(
                f"raters: {run.location / foreign[0]} is there and does not come from `raters:`; name the rater "
                "otherwise, or move the file away"
            )
        )
    data = {file: to_parquet(to_table(Verdict, rows)) for file, rows in views.items()}
    wanted = {file: RaterView(file, views[file][0].judge, sha256(found).hexdigest()) for file, found in data.items()}
    changed = [file for file, view in wanted.items() if file not in there or listed.get(file) != view]
    if not changed and wanted.keys() == listed.keys():
        return
    unfinished = {file: RaterView(file, wanted[file].rater, "") for file in changed}
    _list(run, {**listed, **wanted, **unfinished})
    for file in changed:
        run.folder.put(file, data[file])
    for file in listed.keys() - wanted.keys():
        run.folder.delete(file)
    for gone in {*map(_rater_folder, listed)} - {*map(_rater_folder, wanted)}:
        run.folder.clear(gone)
    _list(run, wanted)


def _rater_folder(view: str) -> str:
    """The folder of all views of a rater: it has the rater's name."""
    return "/".join(view.split("/")[:2])


def _list(run: RunFolder, views: Mapping[str, RaterView]) -> None:
    run.write(RaterView, RATERS, [views[file] for file in sorted(views)])


def _told(joined: Joined) -> str:
    total = sum(map(len, joined.views.values()))
    raters = len({rows[0].judge for rows in joined.views.values()})
    told = f"raters: {total:,} ratings by {raters:,} raters stand beside the judges' verdicts"
    failed = sum(verdict.state is State.FAILED for rows in joined.views.values() for verdict in rows)
    told += f", {failed:,} of which failed" * bool(failed)
    missing = [f"{left:,} {reason}" for reason in Unjoined if (left := joined.unjoined[reason])]
    return f"{told}; left out: {', '.join(missing)}" if missing else told
