"""A rehearsal without a run: the staged sweep, the profile, the comparison, and folders that must not mix."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml

from hab_ray.analysis.summary import summarise
from hab_ray.calls import ChatCall, Usage
from hab_ray.catalog.prices import Mode, rate
from hab_ray.config.sweep import Sweep, load_sweep
from hab_ray.errors import ConfigError, Exit
from hab_ray.location import Location
from hab_ray.planning.preflight import preflight
from hab_ray.progress import RunEnd
from hab_ray.rehearse.comparison import ComparedMean, Comparison
from hab_ray.rehearse.figures import Checked, Figures
from hab_ray.rehearse.perform import Rehearsal, perform, rehearsing
from hab_ray.rehearse.profile import PAPER, Play, deductions_of, played_as, profile_of
from hab_ray.rehearse.staging import SIMULATED, at, staged
from hab_ray.rehearse.trouble import Trouble, load_settings
from hab_ray.resolve import load_work, resolve, write_record
from hab_ray.results import open_run
from hab_ray.rows import ChosenTest
from hab_ray.rubric import Criterion, LiteralPrompts
from hab_ray.stages.base import Rows
from hab_ray.stages.method.respond import RespondStage
from hab_ray.stopping import Stop
from hab_ray.storage.folder import open_folder
from hab_ray.storage.run import MARKER
from hab_ray.storage.simulated import refuse_simulated
from hab_ray.sweep.options import Options
from hab_ray.work import Work, given_tests, wants_batch
from hab_simulator import Malformed, MeterReading, MissingEvidence
from tests.instant import work_of

JOBS = Path(__file__).parent.parent / "jobs"
NOW = datetime(2026, 11, 21, tzinfo=UTC)
URL = "http://127.0.0.1:4711"


def sweep(folder: Path, **changes: Any) -> Sweep:
    given = {"name": "s", "tests": "seeds", "subjects": ["gpt-6-luna"], "judges": ["claude-sonnet-5-5"], **changes}
    path = folder / "s.yaml"
    path.write_text(yaml.safe_dump(given))
    return load_sweep(path)


def place(folder: Path) -> Location:
    return Location.of(folder) / "runs/rehearsal-s"


def rehearsed(folder: Path, **changes: Any) -> Work:
    return staged(sweep(folder, **changes), place(folder), NOW)


def asked(work: Work) -> list[ChatCall]:
    """What the first subject is asked in the first dimension."""
    shard = next(s for s in work.shards() if s.stage == "respond")
    stage = work.stage(shard)
    assert isinstance(stage, RespondStage)
    return [call for _, call in stage.requests(stage.tasks(Rows({ChosenTest: given_tests(work)[shard.dimension]})))]


@pytest.mark.parametrize("job", ["frontier", "paper", "demo", "small"])
def test_every_provider_is_at_the_simulator_and_no_key_is_asked_for(tmp_path: Path, job: str) -> None:
    work = at(staged(load_sweep(JOBS / f"{job}.yaml"), place(tmp_path), NOW), URL)
    used = [work.catalog.providers[model.entry.provider] for model in work.models.values()]
    assert all(p.url and p.url.startswith(URL) and p.key_env is None and not p.serve for p in used)
    assert {model.as_of for model in work.models.values()} == {SIMULATED}
    assert preflight(work, {}, NOW.date()) == []
    assert not (tmp_path / "runs").exists()
    assert profile_of(work, Play()).planted.dimensions.keys() == work.rubrics.keys()


def test_the_same_sweep_asked_for_real_has_other_keys_and_the_same_words(tmp_path: Path) -> None:
    real, simulated = (asked(work) for work in (resolve(sweep(tmp_path), NOW), rehearsed(tmp_path)))
    assert not {call.key for call in real} & {call.key for call in simulated}
    assert [(c.system, c.messages, c.params) for c in real] == [(c.system, c.messages, c.params) for c in simulated]


def test_prices_are_the_catalogues_to_the_nano_dollar(tmp_path: Path) -> None:
    work = staged(load_sweep(JOBS / "frontier.yaml"), place(tmp_path), NOW)
    accounts = profile_of(work, Play()).accounts
    models = {wire: model for account in accounts.values() for wire, model in account.models.items()}
    assert len(models) == len(work.models)
    usage = Usage(input=12_347, cached=1_024, output=7_919)
    for model in work.models.values():
        theirs = models[model.entry.wire].price.nanousd(12_347 - 1_024, 1_024, 7_919)
        assert theirs == rate(model.entry, Mode.ONLINE).cost(usage) > 0


def test_a_model_is_played_as_the_catalogue_describes_it(tmp_path: Path) -> None:
    own = {
        "kind": "openai",
        "url": "https://llm.example.org/v1",
        "price": {"input": 1, "output": 2},
        "limits": {"requests_per_minute": 3, "concurrent": 5},
        "models": {"m": {"thinking": "always", "json_schema": False, "thinking_reserve": 100}},
    }
    work = rehearsed(
        tmp_path, subjects=["gpt-6-luna", "house/m"], judges=["claude-haiku-4-5"], providers={"house": own}
    )
    accounts = profile_of(work, Play()).accounts
    assert accounts.keys() == {"openai", "anthropic", "x/house"}
    luna, haiku = accounts["openai"].models["gpt-6-luna"], accounts["anthropic"].models["claude-haiku-4-5-20251001"]
    assert (luna.sampling, luna.thinking) == ("fixed", "always")
    assert (haiku.sampling, haiku.thinking) == ("temperature", "none")
    house = accounts["x/house"].models["m"]
    assert house.thinking == "optional" and house.thinking_tokens == (64, 100)
    limits = work.models["house/m"].entry.limits
    assert limits and limits.requests_per_minute is None and limits.concurrent == 5
    assert work.catalog.providers["house"].kind == "openai"


def test_the_truth_is_drawn_from_the_rubrics_and_the_seed(tmp_path: Path) -> None:
    work = rehearsed(tmp_path)
    first, again, other = (profile_of(work, Play(seed=seed)).planted for seed in (1, 1, 2))
    assert first == again != other
    for name, rubric in work.rubrics.items():
        issues = first.dimensions[name].issues
        assert [(i.letter, i.deduction) for i in issues] == [(i.letter, i.deduction) for i in rubric.judging.issues]
        assert [i.text for i in issues] == [i.text for i in rubric.judging.issues]
        assert all(0.1 <= i.probability <= 0.5 for i in issues)
        seed = rubric.seeds[0].prompt
        assert first.prompts[sha256(seed.encode()).hexdigest()] == name


def test_a_built_in_rubric_is_held_against_the_papers_letters_and_points(tmp_path: Path) -> None:
    work = rehearsed(tmp_path)
    assert deductions_of(work) == PAPER
    rubric = work.rubrics["encourage_learning"]
    first, *others = rubric.judging.issues

    def with_issues(*issues: Criterion) -> Work:
        judging = rubric.judging.model_copy(update={"issues": issues})
        changed = rubric.model_copy(update={"judging": judging})
        return replace(work, rubrics={**work.rubrics, "encourage_learning": changed})

    dearer = with_issues(first.model_copy(update={"deduction": 8}), *others)
    assert deductions_of(dearer)["encourage_learning"]["A"] == 7
    own = dearer.sweep.model_copy(update={"rubrics": tmp_path})
    assert deductions_of(replace(dearer, sweep=own))["encourage_learning"]["A"] == 8
    with pytest.raises(ConfigError, match=r"encourage_learning\.yaml: judging\.issues has the letters B, C, D, E, F"):
        profile_of(with_issues(*others), Play())


@pytest.mark.parametrize(
    ("wording", "refusal"),
    [
        ("judging", "the imported wording of encourage_learning shows its judge no test"),
        ("validation", "the prompts of encourage_learning that write and validate queries are imported"),
    ],
)
def test_imported_wording_that_no_simulated_model_knows_is_refused(wording: str, refusal: str, tmp_path: Path) -> None:
    work = rehearsed(tmp_path)
    rubric = work.rubrics["encourage_learning"]
    section = {"user": [{"value": "response" if wording == "judging" else "prompt"}]}
    literal = LiteralPrompts.model_validate({"origin": {"source": "a checkout"}, wording: section})
    rubrics = {**work.rubrics, rubric.id: rubric.model_copy(update={"literal": literal})}
    made = {"generate": {"model": "gpt-6-luna", "candidates": 3}, "select": {"embedding": "minilm", "tests": 2}}
    makes = Sweep.model_validate({**work.sweep.model_dump(by_alias=True), "tests": None, **made})
    with pytest.raises(ConfigError, match=f"rubrics: {refusal}"):
        perform(replace(work, rubrics=rubrics, sweep=makes), Play(), Options(), Stop(), print, NOW)
    assert not (tmp_path / "runs").exists()


def test_judges_of_one_model_cannot_be_told_apart_by_malformed_replies(tmp_path: Path) -> None:
    judges = [{"model": "gpt-6-luna", "name": name} for name in ("calm", "strict")]
    work = rehearsed(tmp_path, judges=judges)
    assert profile_of(work, Play()).planted.malformed == Malformed()
    with pytest.raises(ConfigError, match="calm and strict use the same model"):
        profile_of(work, Play(trouble=Trouble(verdicts=Malformed(prose=0.1))))


def test_variants_that_look_alike_to_a_vendor_share_one_truth(tmp_path: Path) -> None:
    variants = [
        {"model": "gpt-6-luna", "name": "plain"},
        {"model": "gpt-6-luna", "name": "short", "params": {"max_tokens": 200}},
        {"model": "gpt-6-luna", "name": "kind", "system": "Be kind.\n"},
    ]
    work = rehearsed(tmp_path, subjects=variants)
    assert played_as(work) == {"plain": "plain", "short": "plain", "kind": "kind"}
    planted = profile_of(work, Play()).planted.subjects
    assert [(s.name, s.model, s.system) for s in planted] == [
        ("plain", "gpt-6-luna", ""),
        ("kind", "gpt-6-luna", "Be kind."),
    ]


@pytest.mark.parametrize(
    ("tests", "word"),
    [
        ([{"prompt": "Why?"}, {"prompt": "Why?", "id": "twin"}], "same prompt, .* tells tests apart; leave one"),
        (
            [{"prompt": "Why?"}, {"prompt": "Why?", "dimension": "defer_important_decisions"}],
            r"same prompt, .* apart; rehearse their dimensions one at a time \(`dimensions:`\), or leave one of",
        ),
        ([{"prompt": "Why?"}, {"prompt": "How?", "system": "Be brief."}], "different `system`"),
    ],
)
def test_tests_that_cannot_be_told_apart_are_refused(tmp_path: Path, tests: list[dict[str, str]], word: str) -> None:
    file = tmp_path / "tests.jsonl"
    file.write_text("\n".join(json.dumps({"dimension": "encourage_learning", **test}) for test in tests))
    dimensions = sorted({test.get("dimension", "encourage_learning") for test in tests})
    work = rehearsed(tmp_path, tests=str(file), dimensions=dimensions)
    with pytest.raises(ConfigError, match=word):
        profile_of(work, Play())


def test_the_record_of_a_rehearsal_can_be_read_again(tmp_path: Path) -> None:
    work = rehearsed(tmp_path, subjects=["gpt-6-luna", "smollm2-135m"])
    write_record(at(work, URL), NOW)
    again = load_work(work.run_path, NOW)
    assert again.models == work.models
    assert URL not in work.run.folder.get("sweep.yaml").decode()


def hold(folder: Path, run: Location, store: Location) -> int:
    """Hold two folders for a moment, and give them back; the epoch."""
    work = work_of(folder, run=str(run), store=str(store))
    with rehearsing(work, Stop(), print) as session:
        return session.lease.epoch


def test_a_run_and_a_rehearsal_do_not_share_a_folder(tmp_path: Path) -> None:
    real = sweep(tmp_path, run=str(tmp_path / "runs/s"), store=str(tmp_path / "store"))
    new, store = Location.of(tmp_path / "new"), Location.of(tmp_path / "store")
    open_folder(store).put("replies/m/part-000001.000000.parquet", b"paid for")
    for folders in ((new, store), (store, new)):
        with pytest.raises(ConfigError, match="not empty"):
            hold(tmp_path, *folders)
        assert not (tmp_path / "store" / MARKER).exists()
    refuse_simulated(real)
    mine = place(tmp_path)
    hold(tmp_path, mine, mine / "store")
    for key, folder in (("store", mine / "store"), ("run", mine)):
        with pytest.raises(ConfigError, match=f"{key}: .*simulated"):
            refuse_simulated(real.model_copy(update={key: folder}))


def test_a_rehearsal_begins_with_nothing_and_leaves_strangers_alone(tmp_path: Path) -> None:
    run, store = place(tmp_path), place(tmp_path) / "store"
    hold(tmp_path, run, store)
    for folder, name in ((store, "replies/m/part-000001.000000.parquet"), (run, "tests/d.parquet")):
        open_folder(folder).put(name, b"old")
        open_folder(folder).put("notes.txt", b"my own")
    assert hold(tmp_path, run, store) == 2
    assert open_folder(store).list("replies") == open_folder(run).list("tests") == []
    assert open_folder(store).exists("notes.txt") and open_folder(run).exists("notes.txt")


SCORE = Figures(0.5, 0.4, 0.6, 3)


@pytest.mark.parametrize("change", [{"mean": 0.1}, {"mean": None, "n": 0}, {"n": 2}, {"low": 0.1}, {"high": 0.5999}])
def test_a_single_wrong_score_is_found(change: dict[str, Any]) -> None:
    assert not ComparedMean("s1", "d1", "j1", 1, replace(SCORE, **change), SCORE).recovered


@pytest.mark.parametrize(
    ("ours", "lost", "agree"), [(10, 0, True), (9, 0, False), (9, 1, True), (10, 1, False), (8, 1, False)]
)
def test_bills_agree_to_the_nano_dollar_but_for_replies_that_were_lost(
    tmp_path: Path, ours: int, lost: int, agree: bool
) -> None:
    batches = ("created", "failed", "expired", "cancelled", "lines_received", "lines_billed", "nanousd")
    meter = MeterReading.model_validate(
        {
            "received": 1,
            "billed": 1,
            "lost_after_billing": lost,
            "lost_nanousd": lost,
            "nanousd": 10,
            "billed_more_than_once": {"bodies": 0},
            "models": [],
            "batch": {**dict.fromkeys(batches, 0), "models": []},
        }
    )
    end = RunEnd(Exit.COMPLETE, (), {}, (), 1, ours)
    work = rehearsed(tmp_path)
    write_record(work, NOW)
    recovered = ComparedMean("s1", "d1", "j1", 1, SCORE, SCORE)
    comparison = Comparison((recovered,), (), Checked(1), ())
    done = Rehearsal(end, 1.0, summarise(open_run(work.run_path)), comparison, meter, stored_nanousd=ours)
    assert done.bills_agree is agree and done.passed is agree
    assert not replace(done, stored_nanousd=ours - 1).passed
    assert not replace(done, end=replace(end, exit=Exit.UNANSWERED)).passed
    assert not replace(done, comparison=replace(comparison, cells=())).passed
    lacking = MissingEvidence(judge="j1", dimension="d1", what="the test", requests=3)
    for change in (
        {"missing": (lacking,)},
        {"findings": ("It was not asked.",)},
        {"rows": Checked(1, ("s1, d1, test t: no answer: failed",))},
        {"overall": (replace(recovered, times=0),)},
    ):
        assert not replace(done, comparison=replace(comparison, **change)).passed


def test_the_rehearsal_at_the_papers_size_can_be_staged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole runs in benchmarks/batch_sweep.py."""
    monkeypatch.chdir(JOBS.parent)
    work = staged(load_sweep(JOBS / "rehearsal.yaml"), place(tmp_path), NOW)
    tests = given_tests(work)
    assert {len(of_dimension) for of_dimension in tests.values()} == {500} and len(tests) == 6
    assert len(work.sweep.subjects) == 20
    assert {work.models[s.model].entry.provider for s in work.sweep.subjects} == {"openai", "anthropic", "google"}
    assert all(wants_batch(work, shard, together=1) for shard in work.shards())
    trouble = load_settings(Trouble, "--faults", JOBS / "nightmare.yaml")
    profile = profile_of(work, Play(trouble=trouble))
    assert profile.batch_faults == trouble.batches and profile.batch.lines.failed == 0.03
    assert profile.accounts["openai"].models["gpt-6-luna"].batch_queue_tokens == 400_000
