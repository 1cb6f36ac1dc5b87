"""Joins the ratings named under `raters:` to the run's answers and writes them as views of verdicts.

A rater's views lie beside the judges' views but belong to no shard: they cost no call and enter no score.
`raters.parquet` lists them; only listed views are replaced or removed when the rating files change. The run folder
names people by pseudonyms, so that sharing it does not reveal their names.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256
from itertools import count

from hab_ray.errors import ConfigError
from hab_ray.given.ratings import PSEUDONYM, GivenRatings, Rating, is_of, is_of_given, test_of, tests_by_text
from hab_ray.given.sheets import SHEET_RATER
from hab_ray.rows import ChosenTest, Rater, RaterView, Response, State, Verdict, to_table
from hab_ray.stages.views import responses_file, tests_file, verdicts_file
from hab_ray.storage.replies.records import to_parquet
from hab_ray.storage.run import RATERS, RunFolder
from hab_ray.visible import counted, one_line
from hab_ray.work import Work, given_ratings


class Unjoined(StrEnum):
    """Why a rating matches no answer of the run."""

    DIMENSION = "of other dimensions"
    SUBJECT = "of other subjects"
    TEST = "of other tests"
    NO_ANSWER = "of answers that this run does not have"
    OTHER_ANSWER = "of other answers to the same test"


@dataclass
class Joined:
    """Verdicts by the file of their view, and counts of unmatched ratings by reason."""

    views: dict[str, list[Verdict]] = field(default_factory=lambda: defaultdict(list))
    unjoined: Counter[Unjoined] = field(default_factory=Counter)


def place_raters(work: Work, with_names: bool = False) -> list[str]:
    """Update the raters' views from the rating files and the present answers; return messages for the user.

    People get pseudonyms unless `with_names`; judges and programs keep their names. Raise ConfigError if a file cannot
    be read, or a view of that name exists that no rating file wrote.
    """
    listed = {view.file: view for view in work.run.read(RaterView, RATERS)}
    if not work.sweep.raters and not listed:
        return []
    given = given_ratings(work)
    joined = join_ratings(work, given.ratings)
    if not with_names:
        joined.views = _renamed(joined.views, _pseudonyms(work, given))
    joined.unjoined[Unjoined.DIMENSION] += given.elsewhere
    _publish(work.run, joined.views, listed)
    return [_summary(joined)] if work.sweep.raters else []


def _pseudonyms(work: Work, given: GivenRatings) -> dict[str, str]:
    """Name people `rater-1`, `rater-2`, ... in file order; keep pseudonyms that imports and sheets gave already."""
    people = dict.fromkeys(
        rating.rater
        for rating in given.ratings
        if rating.kind is Rater.PERSON
        and not (PSEUDONYM.fullmatch(rating.rater) or SHEET_RATER.fullmatch(rating.rater))
    )
    judges = {judge.name for judge in (*work.sweep.judges, *work.sweep.varied_judges)}
    taken = judges | (set(given.raters) - people.keys())
    free = (name for number in count(1) if (name := f"rater-{number}") not in taken)
    return dict(zip(people, free, strict=False))


def _renamed(views: Mapping[str, list[Verdict]], names: Mapping[str, str]) -> dict[str, list[Verdict]]:
    renamed = [[replace(row, judge=names.get(row.judge, row.judge)) for row in rows] for rows in views.values()]
    return {verdicts_file(rows[0].judge, rows[0].subject, rows[0].dimension): rows for rows in renamed}


def join_ratings(work: Work, ratings: Iterable[Rating]) -> Joined:
    """Match ratings to the answers of a run and return them as verdicts, in the order of its tests.

    Raises:
        ConfigError: a rater rated an answer twice, naming its test in two ways.
    """
    joined = Joined()
    by_part: dict[tuple[str, str], list[Rating]] = defaultdict(list)
    for rating in ratings:
        by_part[rating.dimension, rating.subject].append(rating)
    dimensions = {dimension for dimension, _ in by_part}
    tests = {dimension: work.run.read(ChosenTest, tests_file(dimension)) for dimension in dimensions}
    for (dimension, subject), part in sorted(by_part.items(), key=lambda item: item[0]):
        if subject in work.sweep.subject_names:
            _join_part(work, dimension, subject, tests[dimension], part, joined)
        else:
            joined.unjoined[Unjoined.SUBJECT] += len(part)
    return joined


def _join_part(
    work: Work, dimension: str, subject: str, tests: Sequence[ChosenTest], ratings: Iterable[Rating], joined: Joined
) -> None:
    order, by_text = {test.id: place for place, test in enumerate(tests)}, tests_by_text(tests)
    responses = {(row.test_id, row.sample): row for row in work.run.read(Response, responses_file(subject, dimension))}
    given = work.sweep.responses
    is_same = is_of_given if given is not None and subject in given.subjects else is_of
    by_rater: dict[str, dict[tuple[int, int], Verdict]] = defaultdict(dict)
    for rating in ratings:
        test_id = test_of(rating, by_text)
        if test_id is None:
            joined.unjoined[Unjoined.TEST] += 1
        elif (response := responses.get((test_id, rating.sample))) is None:
            joined.unjoined[Unjoined.NO_ANSWER] += 1
        elif not is_same(rating, response):
            joined.unjoined[Unjoined.OTHER_ANSWER] += 1
        else:
            verdict = _verdict(rating, test_id)
            if by_rater[rating.rater].setdefault((order[test_id], rating.sample), verdict) != verdict:
                raise ConfigError(
                    one_line(f"raters: {rating.rater} has rated {subject} on {test_id} twice; keep one row")
                )
    for rater, verdicts in by_rater.items():
        joined.views[verdicts_file(rater, subject, dimension)] += [verdicts[place] for place in sorted(verdicts)]


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
    """Write the views that changed and remove those no longer wanted.

    A view is listed before it is written and until after it is deleted, so that a crash leaves no unlisted view.
    """
    present = set(run.folder.list("verdicts"))
    if foreign := sorted(file for file in views if file in present and file not in listed):
        raise ConfigError(
            one_line(
                f"raters: {run.location / foreign[0]} exists and does not come from `raters:`; rename the rater, or "
                "move the file away"
            )
        )
    data = {file: to_parquet(to_table(Verdict, rows)) for file, rows in views.items()}
    wanted = {file: RaterView(file, views[file][0].judge, sha256(view).hexdigest()) for file, view in data.items()}
    changed = [file for file, view in wanted.items() if file not in present or listed.get(file) != view]
    if not changed and wanted.keys() == listed.keys():
        return
    unfinished = {file: RaterView(file, wanted[file].rater, "") for file in changed}
    _list(run, {**listed, **wanted, **unfinished})
    for file in changed:
        run.folder.put(file, data[file])
    for file in listed.keys() - wanted.keys():
        run.folder.delete(file)
    for emptied in {*map(_rater_folder, listed)} - {*map(_rater_folder, wanted)}:
        run.folder.clear(emptied)
    _list(run, wanted)


def _rater_folder(view: str) -> str:
    return "/".join(view.split("/")[:2])


def _list(run: RunFolder, views: Mapping[str, RaterView]) -> None:
    run.write(RaterView, RATERS, [views[file] for file in sorted(views)])


def _summary(joined: Joined) -> str:
    total = sum(map(len, joined.views.values()))
    raters = len({rows[0].judge for rows in joined.views.values()})
    ratings = f"{counted(total, 'rating')} by {counted(raters, 'rater')} {'is' if total == 1 else 'are'}"
    summary = f"raters: {ratings} shown beside the judges' verdicts"
    failed = sum(verdict.state is State.FAILED for rows in joined.views.values() for verdict in rows)
    summary += f", {failed:,} of which failed" * bool(failed)
    left_out = [f"{number:,} {reason}" for reason in Unjoined if (number := joined.unjoined[reason])]
    return f"{summary}; left out: {', '.join(left_out)}" if left_out else summary
