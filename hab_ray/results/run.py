"""A run opened for reading."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from hab_ray.catalog.models import folder_name
from hab_ray.errors import ConfigError, DamagedFile
from hab_ray.location import Location
from hab_ray.results.settings import SENT_COLUMNS, Settings, sent
from hab_ray.results.transcripts import Transcript, Words, read_transcripts
from hab_ray.results.views import KeptTables, Views, refuse_text, rows_in
from hab_ray.rows import Candidate, ChosenTest, Rejudged, Response, Score, Verdict
from hab_ray.stages.views import candidates_file, rejudged_file, responses_file, tests_file, verdicts_file
from hab_ray.storage.record import Record, read_record
from hab_ray.storage.replies.records import read_table
from hab_ray.storage.run import ANALYSIS, SCORES, RunFolder
from hab_ray.visible import one_line

if TYPE_CHECKING:
    from hab_ray.progress import Progress
    from hab_ray.rubric import Rubric

Columns = Sequence[str] | None


@dataclass(frozen=True)
class Run:
    """The results of one run, finished or not, read from its folder on demand.

    Tables hold the rows written so far: rows without a reply are absent, failed rows have their state and reason.
    Methods that take a dimension, subject or judge accept the names in `dimensions`, `subjects` and `raters`, and raise
    ConfigError for any other. `columns` names the columns to read: without text columns, a large run's table is small.
    To hold one part of a run at a time, read each subject's dimensions one after the other. `kept` is what `steady`
    keeps.
    """

    location: Location
    record: Record = field(repr=False)
    kept: KeptTables | None = field(default=None, repr=False, compare=False)

    @property
    def name(self) -> str:
        """The sweep's name."""
        return self.record.sweep.name

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The ids of the dimensions, sorted."""
        return self.record.dimensions

    @property
    def subjects(self) -> tuple[str, ...]:
        """The names of the models under evaluation, in the sweep's order."""
        return self.record.sweep.subject_names

    @property
    def panel(self) -> tuple[str, ...]:
        """The names of the sweep's judges, in its order: the panel's score is the mean of theirs."""
        return tuple(judge.name for judge in self.record.sweep.judges)

    @property
    def raters(self) -> tuple[str, ...]:
        """The names of the panel, its variants, then any other raters with verdicts in the folder, sorted.

        A further rater, such as a person who read a sample, may have verdicts on a few answers only. They do not enter
        scores or change the panel. Judges that the sweep no longer names are not raters.
        """
        return (*asked_judges(self), *_views(self).raters_beside(_judges_so_far(self)))

    @property
    def rubrics(self) -> Mapping[str, Rubric]:
        """The rubrics by dimension, with the issues that a verdict's letters stand for.

        They are in the version that the run has used. Runs of versions that kept no copy of own rubrics read the
        present files.

        Raises:
            ConfigError: the sweep names a dimension whose rubric, or its folder, no longer exists, and the run has no
                copy.
        """
        from hab_ray.storage.own_texts import library_of_run

        known = library_of_run(self.location, self.record).rubrics(self.record.rubric_hashes)
        lacking = [dimension for dimension in self.dimensions if dimension not in known]
        if lacking and self.record.sweep.dimensions != "all":
            where = self.record.sweep.rubrics or "the built-in rubrics"
            raise ConfigError(
                f"{self.location}: the run's rubric of {', '.join(lacking)} is no longer in {where}; put it back, and "
                "work in the folder in which the run was started"
            )
        return {dimension: known[dimension] for dimension in self.dimensions if dimension in known}

    def tests(self, dimension: str | None = None, *, columns: Columns = None) -> pa.Table:
        """Return the tests.

        `id, dimension, prompt, context, system, cluster` (null for given tests), `call` (the generation call that the
        test comes from, null if unknown; tests with the same call are not independent).
        """
        names = [tests_file(each) for each in _chosen(self, "dimension", dimension, self.dimensions)]
        return _views(self).read(ChosenTest, names, columns)

    def responses(
        self, subject: str | None = None, dimension: str | None = None, *, columns: Columns = None
    ) -> pa.Table:
        """Return the subjects' answers, one row per test and sample; a varied subject's only if `subject` names it.

        `test_id, dimension, subject, sample` (from 0), `state` (see `hab_ray.rows.State`), `text, finish` (ok or
        truncated), `settings` (the parameters sent, as JSON), `model_reported, served_by, reason` (for a state other
        than ok), `reply_key`; the digests `rubric_sha256, prompts_sha256, settings_sha256` as in the run's sweep.yaml;
        and the call's usage, null if unknown: `input_tokens, output_tokens, cost_nanousd, latency_s`.
        """
        names = [responses_file(*part) for part in _parts(self, subject, dimension)]
        return _views(self).read(Response, names, columns)

    def verdicts(
        self,
        judge: str | None = None,
        subject: str | None = None,
        dimension: str | None = None,
        *,
        columns: Columns = None,
    ) -> pa.Table:
        """Return the panel's verdicts, one row per judge, answer and replicate; another rater's if `judge` names one.

        `test_id, dimension, subject, sample, judge`, its `kind` (model, person or published), `replicate` (from 0),
        `state, issues` (list of letters, null if unknown), `assessment, score` (0..10, null unless ok), `asks` (2 if
        the first reply could not be read), `reason, reply_key`; as for responses, `model_reported, rubric_sha256,
        prompts_sha256, settings_sha256, input_tokens, output_tokens, cost_nanousd, latency_s`; `at` is the time of the
        reply (UTC, ISO 8601). For imported wording `reading` says how replies were read, and `other_score` is the score
        of the first reply by the other reading.
        """
        if judge is None:
            judges = self.panel
        elif judge in asked_judges(self):  # others need a listing of the folder
            judges = (judge,)
        else:
            judges = _chosen(self, "judge", judge, self.raters)
        names = [verdicts_file(each, *part) for part in _parts(self, subject, dimension) for each in judges]
        return _views(self).read(Verdict, names, columns)

    def further_verdicts(self, *, columns: Columns = None) -> Iterator[tuple[str, str, pa.Table]]:
        """Yield subject, dimension and table of the verdicts of raters who are not and were not judges of the run.

        Tables have the columns of `verdicts`. Pairs of subject and dimension without such verdicts are omitted.
        """
        files = _views(self).verdicts_beside(_judges_so_far(self))
        for subject, dimension in _parts(self, None, None):
            if names := files.get((folder_name(subject), dimension)):
                yield subject, dimension, _views(self).read(Verdict, names, columns)

    def scores(self, subject: str | None = None, dimension: str | None = None, judge: str | None = None) -> pa.Table:
        """Return the scores written by the last `hab run` or `hab report`; no rows before.

        `subject, dimension` (or "overall"), `judge` (or "panel"), `mean` (0..1, null if nothing is scored), `low, high`
        (95 % interval, may be null), `n` (answers in the mean), `excluded` (answers not in it), `truncated` (answers in
        the mean although cut), `calls` (generation calls that the tests come from).
        """
        table = _views(self).read(Score, [SCORES])
        for column, wanted in (("subject", subject), ("dimension", dimension), ("judge", judge)):
            if wanted is not None and table.num_rows:
                _chosen(self, column, wanted, tuple(pc.unique(table.column(column)).to_pylist()))
                table = table.filter(pc.equal(table.column(column), wanted))
        return table

    def analysis(self, name: str) -> pa.Table:
        """Return the table of an analysis; its module in `hab_ray.analysis.tables` documents the columns.

        Raises:
            ConfigError: the run has no such table; the message lists those it has. `hab run` writes them at its end.
        """
        _chosen(self, "analysis", name, analyses_of(self))
        file = f"{ANALYSIS}/{name}.parquet"
        table = read_table(f"{self.location}/{file}", RunFolder(self.location).folder.get(file))
        return table.replace_schema_metadata(None)

    def settings(self) -> Settings:
        """Return the settings behind the results: the resolved sweep, and what each subject was sent."""
        record = self.record
        return Settings(
            sweep=record.sweep,
            subjects=sent(record.sweep, self.responses(columns=SENT_COLUMNS)),
            as_of=record.as_of,
            hashes=record.hashes_in_use,
            versions=record.versions,
            started=record.started,
        )

    def transcript(self, test_id: str, subject: str | None = None) -> Transcript:
        """Return a test with all answers and verdicts, or those of one subject; `print` it to read it.

        If tests of several dimensions share the id, it is the first one; `transcripts` takes the dimension.

        Raises:
            ConfigError: the run has no such test or subject.
        """
        for dimension in self.dimensions:
            if test_id in self.tests(dimension, columns=["id"]).column("id").to_pylist():
                found = next(self.transcripts(dimension, subject, test_ids=[test_id]))
                return replace(found, words=_words(self, dimension))
        raise ConfigError(one_line(f"{self.location}: there is no test {test_id!r}; `tests()` lists them"))

    def transcripts(
        self, dimension: str | None = None, subject: str | None = None, *, test_ids: Sequence[str] | None = None
    ) -> Iterator[Transcript]:
        """Yield the transcripts of all tests in order, or of those in `test_ids`; holds one dimension at a time.

        Raises:
            ConfigError: there is no such dimension, subject or test, or `test_ids` is a single text.
        """
        if test_ids is not None:
            refuse_text(test_ids, f"{self.location}: test_ids")
            known = set(self.tests(dimension, columns=["id"]).column("id").to_pylist())
            if unknown := sorted(set(test_ids) - known):
                where = f"the dimension {dimension}" if dimension else "the run"
                cause = f"{where} has no test {', '.join(map(repr, unknown))}; `tests()` lists them"
                raise ConfigError(one_line(f"{self.location}: {cause}"))
        asked = _chosen(self, "subject", subject, self.subjects), self.record.sweep.samples, self.raters
        return (
            transcript
            for each in _chosen(self, "dimension", dimension, self.dimensions)
            for transcript in read_transcripts(_views(self), each, test_ids, *asked)
        )


def analyses_of(run: Run) -> tuple[str, ...]:
    """Return the names of the analyses whose tables are in a run's folder."""
    names = RunFolder(run.location).folder.list(ANALYSIS)
    return tuple(Path(name).stem for name in names if name.endswith(".parquet"))


def tests_with_calls(run: Run, dimension: str) -> pa.Table:
    """Return a dimension's tests with their generation calls, also of tests from versions that did not keep `call`."""
    tests = run.tests(dimension)
    if not tests.column("call").null_count:
        return tests
    candidates = _views(run).read(Candidate, [candidates_file(dimension)], ["prompt", "context", "reply_key"])
    known = {(prompt, context): key for prompt, context, key in rows_in(candidates) if key}
    asked = rows_in(tests.select(["call", "prompt", "context"]))
    calls = [call or known.get((prompt, context)) for call, prompt, context in asked]
    at = tests.schema.get_field_index("call")
    return tests.set_column(at, tests.schema.field(at), pa.array(calls, pa.string()))


def rejudged(run: Run) -> pa.Table:
    """Return the repeated verdicts of the panel's judges on their sentinels; see `hab_ray.rows.Rejudged`."""
    parts = _parts(run, None, None)
    return _views(run).read(Rejudged, [rejudged_file(judge, *part) for part in parts for judge in run.panel])


def steady(run: Run) -> Run:
    """Return the run with what it has read of each file kept in memory, without texts, for many readers of all files.

    While the run is being written, these readers see the same rows of a file.
    """
    return replace(run, kept={})


def _views(run: Run) -> Views:
    return Views(RunFolder(run.location).folder, str(run.location), run.kept)


def _words(run: Run, dimension: str) -> Words:
    """Return the texts for printing a dimension's transcripts, without issues if its rubric no longer exists."""
    try:
        judging = run.rubrics[dimension].judging
    except (ConfigError, KeyError):
        issues = {}
    else:
        issues = {issue.letter: f"{issue.text} (-{issue.deduction})" for issue in judging.issues}
    return Words(issues, {subject.name: subject.system for subject in run.record.sweep.subjects if subject.system})


def asked_judges(run: Run) -> tuple[str, ...]:
    """Return the names of the panel and its variants."""
    return (*run.panel, *(judge.name for judge in run.record.sweep.varied_judges))


def _judges_so_far(run: Run) -> tuple[str, ...]:
    return (*asked_judges(run), *run.record.judges_so_far)


def _chosen(run: Run, what: str, name: str | None, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the name if given, else all; refuse an unknown name of a `what` with ConfigError."""
    if name is None:
        return names
    if name not in names:
        raise ConfigError(
            one_line(f"{run.location}: there is no {what} {name!r}; there are {', '.join(names) or 'none'}")
        )
    return (name,)


def _parts(run: Run, subject: str | None, dimension: str | None) -> Iterator[tuple[str, str]]:
    if subject in {varied.name for varied in run.record.sweep.varied_subjects}:
        subjects: tuple[str, ...] = (subject,)
    else:
        subjects = _chosen(run, "subject", subject, run.subjects)
    return product(subjects, _chosen(run, "dimension", dimension, run.dimensions))


def open_run(location: str | Path | Location) -> Run:
    """Open the folder of a run, finished or not, for reading; see `hab_ray.open_run`.

    Raises:
        ConfigError: there is no run, or its sweep.yaml is damaged or from a newer version.
    """
    try:
        path = Location.of(location).absolute()
    except ValueError as error:
        raise ConfigError(f"{one_line(repr(location))}: {error}; name the folder of a run") from None
    RunFolder(path).require()
    record = read_record(path)
    assert record is not None
    return Run(path, record)


def progress(run: Run) -> Progress | None:
    """Return a run's progress, with how its last process ended as `end`; None before the first report.

    Raises:
        DamagedFile: the progress file cannot be read.
    """
    from hab_ray.progress import PROGRESS, read_progress

    try:
        return read_progress(RunFolder(run.location).folder.get(PROGRESS))
    except FileNotFoundError:
        return None
    except ValueError:
        raise DamagedFile(f"{run.location / PROGRESS}: cannot be read; the next `hab run` replaces it") from None
