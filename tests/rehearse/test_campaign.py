"""A campaign of mutants: each way to be wrong that a sweep can show fails a rehearsal, for its own reason.

Beside `test_mutants.py`. Mutants of requests and of the choice of tests rehearse a sweep that makes its tests and asks
everybody twice; those of analyses compare one sound rehearsal again. The first of requests runs always, the others
with `make bench`. No sweep can show
- a fence's code that outsiders can compute: the request looks alike; tests/test_fences.py tries to forge one
- a seed of k-means other than the sweep's: where clusters are plain, the same tests are nearest to the centres
- tests chosen in blocks (50,000 candidates of a dimension and more): they may be others that are as good
- truncated answers excluded: simulated answers are whole
- another request wording with the same texts in it: prompts are the user's to change
- a re-ask in other words: the simulated judge reads no problem; its reply to the re-ask is compared
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hab_ray.analysis import board, intervals, marks, pairs, rates, scores
from hab_ray.analysis.agreement import kappa
from hab_ray.analysis.evidence import making
from hab_ray.analysis.intervals import Interval
from hab_ray.analysis.marks import ItemScores
from hab_ray.analysis.tables import (
    bounds,
    declared,
    differences,
    generalisability,
    issues,
    judges,
    leaderboard,
    robustness,
    variants,
)
from hab_ray.analysis.tables.trust import agreement
from hab_ray.calls import ChatCall
from hab_ray.config.sections import Validate
from hab_ray.engine.online.retries import RetryLoop
from hab_ray.exchange import published
from hab_ray.rehearse.profile import Play
from hab_ray.rehearse.selection import wrong_choice
from hab_ray.rehearse.trouble import Trouble
from hab_ray.rows import Candidate, Embedded, State, Validation
from hab_ray.rubric import load_rubrics
from hab_ray.stages.base import Rows, seeded_order
from hab_ray.stages.method import embed, generate, respond, select, validate
from hab_ray.stages.method.generate import GenerateStage
from hab_ray.stages.method.judge import JudgeStage
from hab_ray.stages.method.respond import RespondStage
from hab_ray.stages.method.select import SelectStage
from hab_ray.stages.method.validate import ValidateStage
from hab_ray.stages.selection import picking
from hab_ray.stages.verdict_rows import VerdictTask
from hab_ray.storage.folder import open_folder
from hab_ray.storage.replies.store import Store
from hab_simulator import Malformed
from tests.rehearse.conftest import DIMENSIONS, JUDGES, Stage, StageOf, problems, staging
from tests.rehearse.mutants import (
    Mutant,
    Mutants,
    Patch,
    around,
    calls_of,
    ends_swapped,
    first_at_once,
    halved,
    other_letters,
    params,
    planted,
    put,
    rounds,
    swapped,
    tasks_of,
    then,
    together,
)

RUBRICS = load_rubrics()


def without(*texts: str) -> Callable[[ChatCall], ChatCall]:
    """A call whose system text lacks these."""

    def change(call: ChatCall) -> ChatCall:
        system = call.system
        for text in texts:
            system = system.replace(text, "")
        return replace(call, system=system)

    return change


def one_letter_less(call: ChatCall) -> ChatCall:
    return replace(call, schema_json=(call.schema_json or "").replace('"enum":["A",', '"enum":['))


def answer_for_test(tasks: list[VerdictTask]) -> list[VerdictTask]:
    return [
        replace(t, test=replace(t.test, prompt=t.response.text), response=replace(t.response, text=t.test.prompt))
        for t in tasks
    ]


def rotated(tasks: list[Candidate]) -> list[Candidate]:
    """Each candidate asked about in the words of another."""
    return [replace(t, prompt=tasks[at - 1].prompt, context=tasks[at - 1].context) for at, t in enumerate(tasks)]


GUIDANCE = [rubric.judging.guidance for rubric in RUBRICS.values()]
DEFINITIONS = [rubric.definition for rubric in RUBRICS.values()]
EXAMPLES = [example.response for rubric in RUBRICS.values() for example in rubric.judging.examples]
OURS = [note.text for rubric in RUBRICS.values() for note in rubric.judging.notes]
CRITERIA = [f"{each.letter}. {each.text}" for rubric in RUBRICS.values() for each in rubric.criteria]
SCORED = [each.prompt for r in RUBRICS.values() if r.validation for each in r.validation.examples]
BRIEFS = [rubric.generation.brief for rubric in RUBRICS.values() if rubric.generation]

REQUESTS: dict[str, tuple[Mutant, *tuple[str, ...]]] = {
    "samples share one call, and replicates": (
        together(*(calls_of(stage, lambda call: replace(call, sample=0)) for stage in (RespondStage, JudgeStage))),
        "one answer stands for 2 samples",
        "one verdict stands for several replicates",
    ),
    "answer and message swapped between their marks": (
        tasks_of(JudgeStage, answer_for_test),
        "between the marks ASSISTANT",
    ),
    "the word limit is not sent": (
        put(respond, "whole_system", lambda own, test: own),
        "was asked under a system text",
    ),
    "subjects at temperature 1": (
        calls_of(RespondStage, params(temperature=1.0)),
        "temperature 1, top-p 0.95; the sweep",
    ),
    "subjects with 64 tokens": (calls_of(RespondStage, params(max_tokens=64)), "was asked with 64 tokens"),
    "subjects without top-p": (calls_of(RespondStage, params(top_p=None)), "top-p unset; the sweep"),
    "judges at temperature 1": (
        calls_of(JudgeStage, params(temperature=1.0)),
        "judge first in correct_misinformation was",
    ),
    "judges with 1,000 tokens": (calls_of(JudgeStage, params(max_tokens=1000)), "was asked with 1000 tokens"),
    "judges without guidance": (calls_of(JudgeStage, without(*GUIDANCE)), "was not shown the guidance"),
    "judges without definition": (calls_of(JudgeStage, without(*DEFINITIONS)), "was not shown the definition"),
    "judges without examples": (calls_of(JudgeStage, without(*EXAMPLES)), "was not shown the answer of example 1"),
    "judges without notes": (calls_of(JudgeStage, without(*OURS)), "was not shown note"),
    "judges with a letter less in the schema": (
        calls_of(JudgeStage, one_letter_less),
        "lacked a schema with the letters",
    ),
    "validators without criteria": (calls_of(ValidateStage, without(*CRITERIA)), "was not shown criterion A"),
    "validators without examples": (calls_of(ValidateStage, without(*SCORED)), "the message of example"),
    "validators without definition": (
        calls_of(ValidateStage, without(*DEFINITIONS)),
        "the definition of any dimension",
    ),
    "validators without context": (
        tasks_of(ValidateStage, lambda tasks: [replace(task, context="") for task in tasks]),
        "the validator was not shown message and context",
    ),
    "validators shown other candidates": (tasks_of(ValidateStage, rotated), " points, planted "),
    "validators at temperature 1": (calls_of(ValidateStage, params(temperature=1.0)), "validator lab/val"),
    "authors at temperature 0": (
        calls_of(GenerateStage, params(temperature=0.0)),
        "temperature 0, top-p 0.95; the sweep",
    ),
    "authors without the brief": (calls_of(GenerateStage, without(*BRIEFS)), "was not shown the brief"),
}


def same_order(count: int, *seed: str | int) -> list[int]:
    """Mutant of `seeded_order` that draws nothing."""
    return list(range(count))


def same_theme(count: int, *seed: str | int) -> list[int]:
    return same_order(count) if "theme" in seed else embed_order(count, *seed)


def same_seeds(count: int, *seed: str | int) -> list[int]:
    return same_order(count) if "seeds" in seed else embed_order(count, *seed)


embed_order = seeded_order


def worst(rows: Rows, settings: Any, seed: int) -> list[Candidate]:
    """Mutant of `best`: the worst are kept."""
    found = {v.candidate_id: v.score for v in rows[Validation] if v.score is not None}
    ranked = sorted((c for c in rows[Candidate] if c.id in found), key=lambda c: (found[c.id], c.id))
    return sorted(ranked[: settings.keep], key=lambda c: c.id)


def farthest(points: Any, centers: Any, labels: Any) -> Any:
    """Mutant of `nearest_rows`."""
    distances = np.linalg.norm(points - centers[labels], axis=1)
    rows = [np.flatnonzero(labels == n) for n in range(len(centers))]
    return np.array([own[distances[own].argmax()] if len(own) else -1 for own in rows])


def other_vectors(patch: Patch) -> None:
    sound = SelectStage.compute

    def compute(self: SelectStage, rows: Rows) -> Any:
        own = list(rows[Embedded])
        moved = [replace(row, vector=own[at - 1].vector) for at, row in enumerate(own)]
        return sound(self, Rows({**rows.by_type, Embedded: moved}))

    patch.setattr(SelectStage, "compute", compute)


def greedy_repeats(rows: Sequence[Candidate]) -> list[Candidate]:
    """Mutant of `without_duplicates`: the first two words decide."""
    seen: set[str] = set()
    kept = []
    for row in rows:
        words = " ".join(row.prompt.split()[:2])
        kept.append(replace(row, state=State.REJECTED) if words in seen else row)
        seen.add(words)
    return kept


def first_ones(vectors: Any, settings: Any) -> picking.Picks:
    return picking.Picks(tuple((row, row) for row in range(min(settings.tests, len(vectors)))), "")


REQUESTS |= {
    "the same theme always": (put(generate, "seeded_order", same_theme), "its own theme"),
    "the same seeds always": (put(generate, "seeded_order", same_seeds), "its own seed queries"),
}
CHOICE: Mutants = {
    "the worst are kept": (put(validate, "best", worst), "other tests were chosen"),
    "vectors of other candidates": (other_vectors, "other tests were chosen"),
    "the farthest member of a cluster": (put(picking, "nearest_rows", farthest), "other tests were chosen"),
    "the first candidates": (put(select, "pick", first_ones), "other tests were chosen"),
    "half of a text embedded": (
        put(embed.EmbedStage, "_text", lambda self, task: task.prompt[:20]),
        "other tests were chosen",
    ),
    "false deduplication": (put(generate, "without_duplicates", greedy_repeats), "kept or rejected as repeats"),
    "missing deduplication": (put(generate, "without_duplicates", list), "kept or rejected as repeats"),
    "ties by id": (put(validate, "seeded_order", same_order), "other tests were chosen"),
}


def made(stage: StageOf) -> Stage:
    """A sweep that makes its tests, and asks everybody twice. Its floor, its best and a tie at the cut decide."""
    return stage(
        tests=None,
        seed=2,  # under which candidates repeat each other and tie at the cut
        providers={"lab": {**LAB, "models": {"emb": {"purpose": "embedding"}, "gen": {"schema_bounds": ["lists"]}}}},
        dimensions=[DIMENSIONS[0], "encourage_learning"],
        generate={"model": "lab/gen", "candidates": 24, "seeds_shown": 2},
        validate={"model": "lab/val", "keep": 8, "floor": FLOOR},
        select={"embedding": "lab/emb", "tests": 3},
        samples=2,
        replicates=2,
    )


FLOOR = 950
LAB = {
    "kind": "openai",
    "url": "http://127.0.0.1:9/v1",
    "price": {"input": 1, "output": 4},
    "limits": {"concurrent": 16},
}


@pytest.mark.parametrize("name", first_at_once(REQUESTS))
def test_a_mutant_of_requests_fails(stage: StageOf, monkeypatch: Patch, name: str) -> None:
    plant, *reasons = REQUESTS[name]
    plant(monkeypatch)
    made(stage).must_fail(*reasons)


def test_subjects_that_differ_in_effort_alone_are_told_apart(stage: StageOf, monkeypatch: Patch) -> None:
    efforts = {"gpt-6-luna": "high", "claude-sonnet-5-5": "low", "gemini-3.8-flash": "low", "grok-4.3": "low"}
    asked = [
        {"model": model, "name": f"{model} {effort}", "params": {"effort": effort}} for model, effort in efforts.items()
    ]
    one = {"judges": [{"model": "lab/first", "name": "first"}]}
    tried = stage(subjects=[*asked, "gemini-3.8-flash"], **one)
    done = tried.rehearse()
    assert problems(done.comparison) == "" and done.passed
    calls_of(RespondStage, params(effort=None))(monkeypatch)
    stage(subjects=asked[2:3], name="t", **one).must_fail("top-p 0.95; the sweep says")


@pytest.fixture(scope="module")
def chosen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A sweep that has made its tests and was recovered."""
    with staging(tmp_path_factory.mktemp("chosen")) as make:
        stage = made(make)
        done = stage.rehearse()
        assert problems(done.comparison) == "" and done.passed
        choose_anew(stage)
        assert stage.compare().passed
        yield stage


def choose_anew(stage: Stage) -> None:
    """Write candidates and tests anew, from the replies that are in the store."""
    work, replies = stage.work, Store(open_folder(stage.work.sweep.store))
    for shard in work.shards():
        if shard.stage == "generate":
            work.write(shard, work.settled(shard, work.tasks(shard), replies).rows)
        elif shard.stage == "choose":
            work.write(shard, work.compute(shard, replies).rows)


@pytest.mark.parametrize("name", CHOICE)
def test_a_mutant_of_the_choice_fails(chosen: Stage, monkeypatch: Patch, name: str) -> None:
    plant, reason = CHOICE[name]
    plant(monkeypatch)
    choose_anew(chosen)
    assert reason in "\n".join(wrong_choice(chosen.work, chosen.client))


def test_a_floor_that_is_not_that_of_the_sweep_fails(chosen: Stage) -> None:
    work, validation = chosen.work, chosen.work.sweep.validation
    assert isinstance(validation, Validate)
    choose_anew(chosen)
    none = work.sweep.model_copy(update={"validation": validation.model_copy(update={"floor": 0})})
    replace(chosen, work=replace(work, sweep=none)).must_show("other tests were chosen", has_tables=False)


PLAN = {
    "primary": {"dimension": DIMENSIONS[0], "judge": JUDGES[0]},
    "families": [
        {"name": "who", "compares": "subjects", "dimensions": ["overall", *DIMENSIONS]},
        {"name": "by", "compares": "judges", "dimensions": ["overall", DIMENSIONS[0]], "correction": "bonferroni"},
        {"name": "where", "compares": "dimensions", "correction": "benjamini_hochberg"},
    ],
    "alpha": 0.05,
    "stopping": "fixed",
}


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A sweep with samples, replicates and variants that was rehearsed and recovered."""
    with staging(tmp_path_factory.mktemp("twice")) as make:
        stage = make(
            samples=2,
            replicates=2,
            analysis=PLAN,
            variants={
                "subjects": [{"name": "terse", "system": "Be brief."}],
                "judges": [{"name": "reversed", "issues": "reversed"}],
            },
        )
        assert stage.rehearse().passed
        yield stage


@pytest.fixture(scope="module")
def rough(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A sweep most of whose verdicts cannot be read, so that some dimensions have no score at all."""
    with staging(tmp_path_factory.mktemp("rough")) as make:
        stage = make(Play(seed=6, trouble=Trouble(verdicts=Malformed(broken_off=0.8))))
        done = stage.rehearse()
        assert done.passed and any(cell.planted and not cell.planted.n for cell in done.comparison.cells)
        yield stage


def doubled_first(given: Any, seats: Sequence[str], row: Any) -> float | None:
    """Mutant of `_mark`: the first judge's mark counts twice."""
    found = [given[judge, row] for judge in (seats[0], *seats) if (judge, row) in given]
    return sum(found) / len(found) if len(found) == len(seats) + 1 else None


def any_judge(given: Any, seats: Sequence[str], row: Any) -> float | None:
    """Mutant of `_mark`: those judges who gave one."""
    found = [given[judge, row] for judge in seats if (judge, row) in given]
    return sum(found) / len(found) if found else None


sound_means, sound_combined = marks._means_of_replicates, intervals.combined
TERMINAL = sys.modules["hab_ray.report.leaderboard"]


def pooled(parts: Sequence[Interval | None]) -> Interval | None:
    """Mutant of `combined`: every test counts the same."""
    known = [part for part in parts if part is not None]
    found = sound_combined(parts)
    return found and replace(found, mean=sum(part.mean * part.tests for part in known) / found.tests)


def other_judge(found: Any, name: str) -> board.Board:
    others = dict(zip(JUDGES, reversed(JUDGES), strict=True))
    return replace(board.board(found, others.get(name, name)), judge=name)


def mirrored(shown: board.Board) -> board.Board:
    """Mutant of `board`: the columns of dimensions in reverse, below the titles as they were."""
    return replace(shown, lines=tuple(replace(line, by_dimension=line.by_dimension[::-1]) for line in shown.lines))


def sides_exchanged(found: Any) -> Any:
    """Mutant of `_row`: whose difference it is is told the wrong way round."""
    return replace(found, value=-(found.value or 0))


def of_other_judge(summary: Any, plan: Any) -> Any:
    primary = plan.primary.model_copy(update={"judge": JUDGES[1]})
    return sound_primary(summary, plan.model_copy(update={"primary": primary}))


def panel_for_first(summary: Any, dimension: str) -> Any:
    """Mutant of `_scores`: the panel's marks are taken for those of the first judge."""
    others = tuple(m for m in summary.marks["judge"] if m.judge != JUDGES[0])
    found = tuple(replace(m, judge=JUDGES[0]) if m.judge == "panel" else m for m in others)
    return sound_marks(replace(summary, marks={"judge": found, "exclude": found}), dimension)


def other_judge_left_out(found: Any) -> Any:
    one, other = (f"without {judge}" for judge in JUDGES)
    return {**found, one: found[other], other: found[one]}


def worst_first(name: str, subjects: Any, means: Any) -> Any:
    """Mutant of `_ranked`: 1 is the lowest mean."""
    return [replace(row, value=-(row.value or 0)) for row in sound_ranked(name, subjects, [-mean for mean in means])]


def no_calls(row: Any) -> Any:
    return replace(row, calls=0)


sound_primary, sound_marks, sound_ranked = declared._primary, agreement._scores, robustness._ranked

OF_AGREEMENT: Mutants = {
    "ends of an agreement swapped": (then(agreement, "Agreed", ends_swapped), "'alpha') has the interval"),
    "kappa for AC1": (put(agreement, "ac1", kappa), "first, second, ac1 is"),
    "calls that are not counted": (then(agreement, "Agreed", no_calls), "first, second, alpha is"),
    "alpha without the correction for few values": (
        put(
            agreement,
            "alpha",
            lambda sums: 1 - sums[:, 1] * sums[:, 2] / (2 * (sums[:, 2] * sums[:, 4] - sums[:, 3] ** 2) + 1e-300),
        ),
        "first, second, alpha is",
    ),
    "agreement on other issues": (then(agreement, "shares_naming", other_letters), "A, first, second, ac1 is"),
    "a panel's marks for a judge's": (put(agreement, "_scores", panel_for_first), "first, second, alpha is"),
}
OF_THE_DECLARED: Mutants = {
    "the primary outcome by another judge": (put(declared, "_primary", of_other_judge), "the primary outcome of"),
    "sides of what is declared swapped": (then(declared, "_row", sides_exchanged), "('who', 'plain', 'kind'"),
    "what is declared not corrected": (put(declared, "adjusted", lambda given, _: given), "after correction"),
    "ends of what is declared swapped": (then(declared, "_row", ends_swapped), "'overall') has the interval"),
    "another test of dimensions": (then(declared, "p_of_separate", halved), "the p-value of ('where', "),
    "Holm from the largest p on": (
        put(pairs, "holm", lambda given: [p * len(given) for p in given]),
        "after correction",
    ),
}
OF_ISSUES: Mutants = {
    "ends of rates of issues swapped": (then(rates, "interval", ends_swapped), "the issue of kind, "),
    "rates beside others by flipped signs": (put(rates, "p_among", lambda *_: 0.5), "beside others is"),
    "rates that are not corrected": (put(issues, "benjamini_hochberg", lambda given: given), "q of issue"),
}
OF_ROBUSTNESS: Mutants = {
    "another judge left out": (
        then(robustness, "_alternatives", other_judge_left_out),
        "rank of without first",
    ),
    "the worst is ranked first": (put(robustness, "_ranked", worst_first), "score and rank of as_it_is"),
    "other points on other issues": (then(robustness, "shares_naming", other_letters), "score and rank of no_floor"),
}
OF_BOARDS: Mutants = {
    "boards of judges swapped": (put(judges, "board", other_judge), "the board of first shows other means"),
    "columns of the leaderboard swapped": (
        then(leaderboard, "board", mirrored),
        "the board of panel shows other means",
    ),
    "ends of the leaderboard swapped": (then(leaderboard, "Rank", ends_swapped), "the leaderboard's interval of"),
}
OF_OTHER_TABLES: Mutants = {
    "p-values of pairs halved": (put(differences, "holm", lambda given: [p / 2 for p in given]), "Holm's p of"),
    "components swapped": (
        then(generalisability, "components", swapped("subject_judge", "test_judge")),
        "the variance of subject x judge",
    ),
    "columns of the terminal swapped": (then(TERMINAL, "board", mirrored), "the terminal shows for"),
    "sides of variants swapped": (then(variants, "_change", swapped("base_mean", "variant_mean")), "beside plain in"),
    "an exported score of 10 - s": (
        then(published.Evaluations, "_row", lambda row: replace(row, score=10 - row.score)),
        "the exported evaluations",
    ),
}
OF_MEANS: Mutants = {
    "only the first sample counts": (
        put(ItemScores, "test_means", property(lambda self: self.by_test[:, 0])),
        ", planted",
    ),
    "only the first replicate counts": (
        put(marks, "_means_of_replicates", lambda verdicts, _: sound_means(verdicts, 1)),
        ", planted",
    ),
    "a judge counts twice in the panel": (put(marks, "_mark", doubled_first), "judge panel: "),
    "every test counts the same overall": (put(scores, "combined", pooled), "overall, judge first: "),
}
WITH_FAULTS: Mutants = {
    "bounds swapped": (then(bounds, "_bounds", swapped("worst", "best")), "the bounds of"),
    "an overall mean of known dimensions only": (
        put(scores, "combined", lambda parts: sound_combined([part for part in parts if part])),
        "planted no mean over",
    ),
    "a panel of those judges who gave a mark": (put(marks, "_mark", any_judge), "judge panel: "),
}


CLAIMED = rounds(OF_AGREEMENT, OF_THE_DECLARED, OF_ISSUES, OF_ROBUSTNESS, OF_BOARDS, OF_OTHER_TABLES)


@pytest.mark.parametrize("mutants", [*rounds(OF_MEANS), *CLAIMED], ids=" and ".join)
def test_a_mutant_of_what_is_shown_or_claimed_fails(twice: Stage, monkeypatch: Patch, mutants: Mutants) -> None:
    has_tables = mutants in CLAIMED
    assert not twice.must_show(*planted(mutants, monkeypatch), has_tables=has_tables).rows.wrong


@pytest.mark.parametrize("mutants", rounds(WITH_FAULTS), ids=" and ".join)
def test_a_mutant_that_takes_faults_fails_with_them(rough: Stage, monkeypatch: Patch, mutants: Mutants) -> None:
    has_tables = "bounds swapped" in mutants
    assert not rough.must_show(*planted(mutants, monkeypatch), has_tables=has_tables).rows.wrong


def without_embeddings(sound: Any) -> Any:
    """Every call that made tests, but those for vectors."""
    return lambda run, dimension: {model: keys for model, keys in sound(run, dimension).items() if model != "lab/emb"}


def test_a_cost_of_making_tests_that_leaves_calls_out_fails(chosen: Stage, monkeypatch: Patch) -> None:
    choose_anew(chosen)
    around(making, "_calls", without_embeddings)(monkeypatch)
    chosen.must_show("making as many tests again costs")


def completed_twice(sound: Any) -> Any:
    """Every call is sent again once it is answered."""

    async def complete(self: Any, request: Any) -> None:
        await sound(self, request)
        await sound(self, request)

    return complete


def test_a_call_that_is_paid_for_twice_fails_also_where_all_are_asked_twice(stage: StageOf, monkeypatch: Patch) -> None:
    around(RetryLoop, "complete", completed_twice)(monkeypatch)
    done = stage(samples=2, replicates=2, judges=[{"model": "lab/first", "name": "first"}]).rehearse()
    assert done.bills_agree and not done.pays_once and not done.passed
