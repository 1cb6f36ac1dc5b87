"""What is said before a run starts, and the sweeps that ship."""

import json
import socket
import sys
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from hab_ray.catalog.models import Limits, load_catalog
from hab_ray.catalog.prices import Mode, Price, rate
from hab_ray.config.sections import JudgeVariant, SubjectVariant, Variants
from hab_ray.config.sweep import Sweep, load_sweep
from hab_ray.errors import ConfigError
from hab_ray.planning.models import unheeded_settings
from hab_ray.planning.preflight import available_only, left_out, preflight
from hab_ray.planning.problems import Problem, Severity, refuse_errors
from hab_ray.resolve import resolve, write_record
from hab_ray.resources import RAY_JOB, bundled
from hab_ray.rows import Response, Verdict
from hab_ray.stages.views import responses_file, verdicts_file
from hab_ray.storage.record import amend_record, read_record
from hab_ray.work import Work, given_tests, wants_batch
from tests.small_runs import Shape, work_of, write_run

JOBS = Path(__file__).resolve().parents[2] / "jobs"
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
KEYS = {entry.key_env: "set" for entry in load_catalog().providers.values() if entry.key_env}
RETIRED = {
    "o3-mini-2025-01-31",
    "o4-mini-2025-04-16",
    "claude-3-7-sonnet-20250219",
    "claude-3-5-sonnet-20240620",
    "claude-3-5-sonnet-20241022",
    "claude-3-5-haiku-20241022",
    "claude-3-opus-20240229",
    "claude-3-haiku-20240307",
    "gemini-1.5-flash",
    "gemini-2.0-flash",
    "grok-3",
}


def shipped(name: str, tmp_path: Path) -> Work:
    sweep = load_sweep(JOBS / name, {"run": str(tmp_path / "run"), "store": str(tmp_path / "store")})
    return resolve(sweep, NOW)


def errors(problems: list[Problem]) -> set[str]:
    return {name for p in problems if p.severity is Severity.ERROR for name in p.models}


@pytest.mark.parametrize("name", ["filter-ablation", "filter-ablation-off", "human-check", "seventh-dimension"])
def test_an_experiment_can_be_called_and_paid_for_today(name: str, tmp_path: Path) -> None:
    work = shipped(f"experiments/{name}.yaml", tmp_path)
    assert preflight(work, KEYS, NOW.date()) == [] and work.sweep.budget_usd


def test_the_frontier_sweep_can_be_called_and_paid_for_today(tmp_path: Path) -> None:
    work = shipped("frontier.yaml", tmp_path)
    assert preflight(work, KEYS, NOW.date()) == []
    assert len(work.sweep.subjects) == 20
    assert len({work.models[s.model].entry.provider for s in work.sweep.subjects}) >= 5
    assert len({work.models[j.model].entry.provider for j in work.sweep.judges}) == len(work.sweep.judges) == 3
    for model in work.models.values():
        assert rate(model.entry, Mode.ONLINE) != Price(0, 0, 0, 0)
        assert rate(model.entry, Mode.BATCH).output <= rate(model.entry, Mode.ONLINE).output


def test_the_papers_sweep_names_exactly_the_retired_ones(tmp_path: Path) -> None:
    work = shipped("paper.yaml", tmp_path)
    found = preflight(work, KEYS, NOW.date())
    assert errors(found) == RETIRED
    assert len(work.sweep.subjects) == 20
    assert [j.model for j in work.sweep.judges] == ["o3-2025-04-16"]
    assert work.sweep.deduplicate == "off"
    gone = next(str(p) for p in found if p.models == ("claude-3-opus-20240229",))
    assert "2026-01-05" in gone and "Anthropic" in gone and "--available-only" in gone
    left = available_only(work.sweep, found)
    assert {s.model for s in work.sweep.subjects} - {s.model for s in left.subjects} == RETIRED
    assert errors(preflight(resolve(left, NOW), KEYS, NOW.date())) == set()


def test_a_model_that_ends_soon_is_a_warning_until_it_has_ended(tmp_path: Path) -> None:
    work = shipped("paper.yaml", tmp_path)
    soon = {n for p in preflight(work, KEYS, NOW.date()) if p.severity is Severity.WARNING for n in p.models}
    assert soon == {"o3-2025-04-16", "gemini-2.5-pro", "gemini-2.5-flash"}
    assert "gemini-2.5-pro" not in errors(preflight(work, KEYS, date(2026, 11, 30)))
    assert "gemini-2.5-pro" in errors(preflight(work, KEYS, date(2026, 12, 1)))
    assert "gpt-4.1" not in str(preflight(work, KEYS, date(2026, 12, 14)))
    assert "gpt-4.1 ends on 2027-01-14, in 30 days" in " ".join(map(str, preflight(work, KEYS, date(2026, 12, 15))))


def test_a_model_that_soon_costs_more_is_a_warning_before_that_day(tmp_path: Path) -> None:
    def rise_of(name: str, now: datetime) -> list[str]:
        work = resolve(small(tmp_path, subjects=[name]), now)
        return [str(p) for p in preflight(work, KEYS, now.date()) if " costs " in p.cause]

    (said,) = rise_of("gemini-4-argon", NOW)
    assert said == (
        "warning: subjects.0.model: gemini-4-argon costs $2 and $10 per million tokens of input and output, and $4 and "
        "$20 from 2026-12-01 on, in 10 days; finish before that day, or give a budget for it: calls reserve that from "
        "2026-11-28 on"
    )
    assert not rise_of("gemini-4-argon", NOW + timedelta(days=10)) and not rise_of("gemini-3.8-flash", NOW)
    assert not rise_of("gemini-2.5-flash", NOW)


@pytest.mark.parametrize(
    ("provider", "key", "remedy"),
    [
        ({"openai": {"like": "openai"}}, "gpt-5.5", None),
        ({"openai": {"like": "openai"}}, "gpt-5.5-2026-04-23", None),
        ({"openai": {"like": "openai"}}, "no-such", "write a model's wire name, as `provider/model` has it"),
        ({"openai": {"like": "openai"}}, "gpt-6-lunar", "write gpt-6-luna"),
        ({"openai": {"kind": "openai", "url": "http://x/v1"}}, "gpt-5.5", "write gpt-5.5-2026-04-23"),
        ({"house": {"kind": "openai", "url": "http://x/v1"}}, "vicuna", None),
        ({"house": {"kind": "openai", "url": "http://x/v1"}}, "another-of-ours", None),
        ({"house": {"kind": "openai", "url": "http://x/v1"}}, "Vicuna", "write vicuna"),
    ],
)
def test_an_override_of_no_model_is_a_warning_with_the_name_to_write(
    tmp_path: Path, provider: dict[str, dict[str, object]], key: str, remedy: str | None
) -> None:
    ((name, entry),) = provider.items()
    house = {"house": {"kind": "openai", "url": "http://x/v1"}}
    providers = house | {name: {**entry, "models": {key: {"price": {"input": 1}}}}}
    sweep = small(tmp_path, providers=providers, subjects=["gpt-5.5", "gpt-6-luna", "house/vicuna"])
    found = [p for p in preflight(resolve(sweep, NOW), KEYS, NOW.date()) if "wire name" in p.cause]
    said = f"providers.{name}.models.{key}: {name} has no model of this wire name, so this has no effect"
    assert [(p.severity, p.cause, p.remedy) for p in found] == ([(Severity.WARNING, said, remedy)] if remedy else [])


def test_the_quick_sweep_needs_one_key_only(tmp_path: Path) -> None:
    work = shipped("quick.yaml", tmp_path)
    assert preflight(work, {"OPENAI_API_KEY": "set"}, NOW.date()) == []
    assert sum(len(tests) for tests in given_tests(work).values()) >= 60


def small(tmp_path: Path, **changes: object) -> Sweep:
    return Sweep.model_validate(
        {
            "name": "small",
            "run": str(tmp_path / "run"),
            "store": str(tmp_path / "store"),
            "tests": "seeds",
            "providers": {"house": {"kind": "openai", "url": "http://localhost:1/v1", "key_env": "HOUSE_KEY"}},
            "subjects": ["gpt-6-luna", "claude-haiku-5-5", "house/vicuna", "grok-3"],
            "judges": ["gpt-6-luna"],
            **changes,
        }
    )


def test_all_problems_are_said_at_once_each_with_a_remedy(tmp_path: Path) -> None:
    sweep = small(tmp_path)
    found = preflight(resolve(sweep, NOW), {"OPENAI_API_KEY": "x", "ANTHROPIC_API_KEY": " "}, NOW.date())
    said = [str(p) for p in found]
    assert len(said) == 5
    for part in (
        "ANTHROPIC_API_KEY is not set, and claude-haiku-5-5",
        "HOUSE_KEY is not set, and house/vicuna",
        "XAI_API_KEY is not set, and grok-3",
        "subjects.3.model: grok-3 was retired on 2026-05-15",
        "providers.house.models.vicuna.price: no price is known",
    ):
        assert sum(part in line for line in said) == 1, part
    assert all("; " in line for line in said)
    for part in ("`export HOUSE_KEY=...`, or put HOUSE_KEY=... into .env", "without a key: `hab rehearse FILE`"):
        assert any(part in line for line in said)
    in_job = {"OPENAI_API_KEY": "x", RAY_JOB: "{}"}
    (house,) = (p for p in preflight(resolve(sweep, NOW), in_job, NOW.date()) if "HOUSE_KEY" in p.cause)
    assert "that `ray start` gets on each node" in house.remedy and "HOUSE_KEY_FILE=PATH" in house.remedy
    assert socket.gethostname() in house.remedy and ".env" not in house.remedy.replace("runtime_env", "")
    with pytest.raises(ConfigError) as refused:
        refuse_errors(found)
    assert str(refused.value).count("\n") == 4
    assert [s.model for s in available_only(sweep, found).subjects] == ["gpt-6-luna"]


@pytest.mark.parametrize("value", ["schl\u00fcssel", "two\nlines"])
def test_a_key_that_no_header_can_hold_is_found_before_the_run(value: str, tmp_path: Path) -> None:
    work = resolve(small(tmp_path, subjects=["gpt-6-luna"]), NOW)
    (found,) = preflight(work, {"OPENAI_API_KEY": value}, NOW.date())
    assert found.severity is Severity.ERROR and "OPENAI_API_KEY" in found.cause and value not in str(found)
    assert "characters that no header may have, and gpt-6-luna cannot be called" in found.cause


def test_available_only_says_so_when_nothing_is_left(tmp_path: Path) -> None:
    sweep = small(tmp_path)
    found = preflight(resolve(sweep, NOW), {}, NOW.date())
    with pytest.raises(ConfigError, match="subjects: none of them can be called"):
        available_only(sweep, found)


def test_available_only_needs_no_subjects_where_answers_are_given(tmp_path: Path) -> None:
    answer = {"dimension": "encourage_learning", "subject": "earlier", "prompt": "Hi?", "text": "Hello."}
    (tmp_path / "answers.jsonl").write_text(json.dumps(answer) + "\n")
    asked = {"providers": {}, "subjects": [], "judges": ["gpt-6-luna", "grok-4.3"]}
    sweep = small(tmp_path, tests=None, responses=str(tmp_path / "answers.jsonl"), **asked)
    found = preflight(resolve(sweep, NOW), {"OPENAI_API_KEY": "x"}, NOW.date())
    assert "--available-only" in str(found[0])
    assert [judge.model for judge in available_only(sweep, found).judges] == ["gpt-6-luna"]
    told = left_out(found)
    assert [(p.severity, p.models) for p in told] == [(Severity.WARNING, ("grok-4.3",))] and "left out" in str(told[0])


def test_a_models_limits_change_those_of_its_account_and_only_what_a_model_can_have(tmp_path: Path) -> None:
    limits = {"enqueued_tokens": 5, "timeout_s": 3000}
    house = {"kind": "openai", "url": "http://localhost:1/v1", "price": {"input": 1, "output": 1}}
    house |= {"limits": {"concurrent": 4, "tokens_per_minute": 1000}, "models": {"vicuna": {"limits": limits}}}
    work = resolve(small(tmp_path, providers={"house": house}, subjects=["house/vicuna"]), NOW)
    found = preflight(work, {"OPENAI_API_KEY": "x"}, NOW.date())
    assert [(p.severity, p.cause.partition(":")[0]) for p in found] == [
        (Severity.WARNING, "providers.house.models.vicuna.limits.timeout_s")
    ]
    assert work.models["house/vicuna"].entry.limits == Limits(concurrent=4, tokens_per_minute=1000, enqueued_tokens=5)


def test_two_files_of_one_name_are_not_served_as_one_model(tmp_path: Path) -> None:
    files = [tmp_path / folder / "model-q4.gguf" for folder in ("base", "tuned")]
    for file in files:
        file.parent.mkdir()
        file.write_bytes(b"GGUF" + file.parent.name.encode())
    names = [f"local/{file}" for file in files]
    found = preflight(resolve(small(tmp_path, subjects=names), NOW), {"OPENAI_API_KEY": "x"}, NOW.date())
    told = [p for p in found if "model-q4" in p.cause and p.severity is Severity.ERROR]
    assert [p.models for p in told] == [tuple(names)], found
    assert not preflight(resolve(small(tmp_path, subjects=names[:1]), NOW), {"OPENAI_API_KEY": "x"}, NOW.date())


def test_a_local_model_without_the_package_that_runs_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    file = tmp_path / "own.gguf"
    file.write_bytes(b"GGUF")
    (missing,) = preflight(
        resolve(small(tmp_path, subjects=[f"local/{file}"]), NOW), {"OPENAI_API_KEY": "x"}, NOW.date()
    )
    assert missing.severity is Severity.ERROR
    assert str(missing).endswith(
        "xllamacpp, which runs local models, is not installed; in your clone: pip install '.[local]'"
    )


def test_a_missing_embedding_package_is_named_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wordllama", None)
    generate = {"model": "house/writer", "candidates": 3}
    sweep = small(tmp_path, tests=None, generate=generate, select={"embedding": "wordllama", "tests": 2})
    with pytest.raises(ConfigError, match=r"^model wordllama: the package wordllama is not installed; in your clone"):
        resolve(sweep, NOW)


@pytest.mark.parametrize(("key", "offered"), [("OPENAI_API_KEY", True), ("ANTHROPIC_API_KEY", False)])
def test_running_without_a_key_is_offered_only_if_subjects_and_judges_are_left(
    tmp_path: Path, key: str, offered: bool
) -> None:
    sweep = small(tmp_path, providers={}, subjects=["gpt-6-luna", "claude-haiku-5-5"])
    (missing,) = preflight(resolve(sweep, NOW), {key: "x"}, NOW.date())
    assert ("--available-only" in str(missing)) == offered


def test_what_makes_the_tests_cannot_be_left_out(tmp_path: Path) -> None:
    generate = {"model": "grok-3", "candidates": 3}
    select = {"embedding": "text-embedding-3-small", "tests": 2}
    sweep = small(tmp_path, tests=None, generate=generate, select=select)
    found = preflight(resolve(sweep, NOW), {**KEYS, "HOUSE_KEY": "x"}, NOW.date())
    with pytest.raises(ConfigError, match=r"tests cannot be made without generate\.model: grok-3"):
        available_only(sweep, found)


def problems(tmp_path: Path, **changes: object) -> list[Problem]:
    """What is said of a sweep of one subject and one judge whose keys are all set."""
    sweep = small(tmp_path, providers={}, **{"subjects": ["gpt-6-luna"], **changes})
    return preflight(resolve(sweep, NOW), KEYS, NOW.date())


def refused(tmp_path: Path, **changes: object) -> list[str]:
    return [str(p) for p in problems(tmp_path, **changes) if p.severity is Severity.ERROR]


@pytest.mark.parametrize(
    ("subject", "said"),
    [
        (
            {"model": "claude-haiku-4-5", "params": {"temperature": 1.4}},
            "subjects.0.params.temperature: 1.4 is more than claude-haiku-4-5 accepts (0 to 1); give at most 1",
        ),
        (
            {"model": "gpt-6-luna", "params": {"effort": "extreme"}},
            "subjects.0.params.effort: gpt-6-luna has no effort level 'extreme'; give one of none, low",
        ),
        (
            {"model": "gpt-6.1-sol", "params": {"effort": "none"}},
            "gpt-6.1-sol has no effort level 'none'; give one of low, medium, high, xhigh, max, or leave it out",
        ),
        (
            {"model": "gemini-2.5-flash", "params": {"effort": "24576"}},
            "subjects.0.params.effort: 24576 tokens of thinking are more than the 8192 reserved for it on gemini-2.5-"
            "flash; give at most 8192, or set providers.google.models.gemini-2.5-flash.thinking_reserve: 24576",
        ),
        (
            {"model": "gpt-4.1", "params": {"max_tokens": 40000}},
            "subjects.0.params.max_tokens: 40000 is more than gpt-4.1 writes (32768 tokens); give at most 32768",
        ),
        (
            {"model": "gemini-3.8-flash", "params": {"max_tokens": 60000}},
            "60000 and 8192 for thinking is more than gemini-3.8-flash writes (65536 tokens); give at most 57344",
        ),
    ],
)
def test_a_setting_that_the_model_refuses_is_an_error_before_anything_is_sent(
    tmp_path: Path, subject: dict[str, object], said: str
) -> None:
    (problem,) = refused(tmp_path, subjects=[{"name": "s", **subject}])
    assert said in problem


def test_settings_that_are_never_sent_are_no_errors(tmp_path: Path) -> None:
    given = [
        {"model": "claude-haiku-4-5", "params": {"temperature": 1.0}},
        {"model": "claude-opus-4-8", "params": {"temperature": 2.0}},
        {"model": "claude-haiku-4-5", "name": "no effort", "params": {"effort": "any"}},
        {"model": "gemini-3.6-flash", "params": {"effort": "XHIGH"}},
        {"model": "gemini-2.5-flash", "params": {"effort": "2048"}},
    ]
    assert refused(tmp_path, subjects=given) == []


@pytest.mark.parametrize(
    ("key", "entry", "said"),
    [
        ("subjects", {"model": "gpt-4.1", "params": {"effort": "high"}}, "effort: high is not sent on gpt-4.1 (the"),
        (
            "subjects",
            {"model": "grok-4.20-reasoning", "params": {"effort": "low"}},
            "effort: low is not sent on grok-4.20-reasoning (the vendor refuses every level)",
        ),
        (
            "judges",
            {"model": "gemini-3.8-flash", "params": {"temperature": 0}},
            "temperature: 0 is sent and has no effect on gemini-3.8-flash (the vendor ignores it)",
        ),
        ("judges", {"model": "gpt-6-luna", "params": {"temperature": 0.5}}, "temperature: 0.5 is not sent on gpt-6"),
    ],
)
def test_a_setting_that_the_file_names_in_vain_is_a_warning(
    tmp_path: Path, key: str, entry: dict[str, object], said: str
) -> None:
    (problem,) = problems(tmp_path, **{key: [{"name": "it", **entry}]})
    assert problem.severity is Severity.WARNING and str(problem).startswith(f"warning: {key}.0.params.{said}")
    assert problem.remedy == "leave it out, or choose another model"


def test_the_stages_own_settings_that_have_no_effect_are_listed_with_those_who_are_asked_so(tmp_path: Path) -> None:
    sweep = small(
        tmp_path, providers={}, subjects=["gpt-4.1", "gpt-6-luna"], judges=["gemini-3.8-flash", "o3-2025-04-16"]
    )
    found = unheeded_settings(resolve(sweep, NOW))
    assert {(str(setting), setting.sent): asked for setting, asked in found.items()} == {
        ("temperature 0", False): ["gpt-6-luna", "judge o3-2025-04-16"],
        ("top_p 0.95", False): ["gpt-6-luna"],
        ("temperature 0", True): ["judge gemini-3.8-flash"],
    }


def test_the_generators_own_temperature_is_checked_too(tmp_path: Path) -> None:
    making = {
        "tests": None,
        "generate": {"model": "claude-sonnet-4-6", "candidates": 3},
        "select": {"embedding": "text-embedding-3-small", "tests": 2},
    }
    (problem,) = refused(tmp_path, **making)
    assert "generate.temperature: 1.4 is more than claude-sonnet-4-6 accepts (0 to 1); give at most 1" in problem


@pytest.mark.parametrize("model", ["grok-4.7", "grok-4.6", "grok-4.5"])
def test_a_model_whose_batches_are_refused_is_an_error_in_mode_batch_and_costs_the_online_price(
    tmp_path: Path, model: str
) -> None:
    sweep = tmp_path / "sweep.yaml"
    sweep.write_text(f"{{name: s, mode: batch, tests: seeds, subjects: [{model}], judges: [gpt-6-luna]}}")
    with pytest.raises(ConfigError, match=rf"subjects\.0\.model: {model} has no batch API .* `mode: online`"):
        load_sweep(sweep)
    work = resolve(load_sweep(sweep, {"mode": "auto", "store": str(tmp_path), "run": str(tmp_path / "run")}), NOW)
    entry = work.models[model].entry
    assert rate(entry, Mode.BATCH) == rate(entry, Mode.ONLINE) != Price(0, 0, 0, 0)
    assert not any(wants_batch(work, shard, 10_000) for shard in work.shards() if shard.name == model)


def test_batches_of_a_model_nobody_knows_are_a_warning(tmp_path: Path) -> None:
    said = problems(tmp_path, mode="batch", subjects=["openai/gpt-7"])
    assert [str(p) for p in said if p.severity is Severity.WARNING] == [
        "warning: subjects.0.model: it is not known whether openai accepts batches for openai/gpt-7; if it refuses "
        "them the rows stay open; `mode: auto` would send them online"
    ]


@pytest.mark.parametrize(
    ("model", "near"),
    [
        ("openai/gpt-6-lunaa", "did you mean gpt-6-luna or gpt-5.6-luna?"),
        ("anthropic/claude-opus-4-6", "claude-opus-4-6 is not in the catalogue; did you mean claude-opus-4-8 or"),
        ("openai/gpt-4.1-2025-04-14", None),
        ("openai/o9", None),
    ],
)
def test_a_name_at_a_provider_that_is_nearly_one_of_the_catalogues_is_told_so(
    tmp_path: Path, model: str, near: str | None
) -> None:
    said = [str(p) for p in problems(tmp_path, subjects=[model]) if "did you mean" in str(p)]
    assert len(said) == (near is not None) and (near or "") in "".join(said)


@pytest.mark.parametrize(
    ("model", "other"), [("gemini-3.7-flash", "gemini-3.8-flash"), ("gemini-3.5-flash", "gemini-3.6-flash")]
)
def test_a_name_that_another_model_answers_to_costs_nothing_unless_substitutes_are_wanted(
    tmp_path: Path, model: str, other: str
) -> None:
    (problem,) = refused(tmp_path, subjects=[model])
    assert f"{model} is answered by {other} since 2026-10-08" in problem
    assert f"paid for and excluded as substituted; name {other}, or set `accept_substitutes: true`" in problem
    assert refused(tmp_path, subjects=[model], accept_substitutes=True) == []


def test_a_name_that_will_be_rerouted_is_a_warning_that_says_what_it_would_cost(tmp_path: Path) -> None:
    work = resolve(small(tmp_path, providers={}, subjects=["gemini-2.5-pro"]), NOW)
    (problem,) = preflight(work, KEYS, NOW.date())
    assert problem.severity is Severity.WARNING
    assert "gemini-2.5-pro is answered by gemini-3.8-flash from 2026-12-01 on, in 10 days" in problem.cause
    assert problem.remedy.startswith("finish before that day, or name gemini-3.8-flash")
    assert [p.severity for p in preflight(work, KEYS, date(2026, 12, 1))] == [Severity.ERROR]
    assert preflight(work, KEYS, date(2026, 10, 31)) == []


def test_a_model_of_the_catalogue_under_another_name_is_a_warning(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, subjects=["google/gemini-2.5-pro"])
    assert str(problem) == (
        "warning: subjects.0.model: of google/gemini-2.5-pro nothing is known but its price: not what it takes, "
        "reports or when it ends; name gemini-2.5-pro, under which the catalogue has it"
    )


def test_whoever_takes_substitutes_is_told_whose_replies_they_are(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, subjects=["gemini-3.7-flash"], accept_substitutes=True)
    assert problem.severity is Severity.WARNING
    assert "its replies are taken for gemini-3.7-flash's" in problem.cause and "gemini-3.8-flash" in problem.remedy


@pytest.mark.parametrize("key", ["run", "store"])
@pytest.mark.parametrize("place", ["/proc/self/none/x", "/dev/null/x", "{}/file/x"])
def test_a_place_that_is_no_folder_is_told_before_the_run(key: str, place: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    places = {"run": str(tmp_path / "run"), "store": str(tmp_path / "store"), key: place.format(tmp_path)}
    work = resolve(load_sweep(JOBS / "experiments/human-check.yaml", places), NOW)
    (problem,) = preflight(work, KEYS, NOW.date())
    assert problem.severity is Severity.ERROR and problem.cause.startswith(f"{key}: {place.format(tmp_path)} cannot be")


LEARNING = "encourage_learning"
FULL = Shape(subjects=("alpha", "beta"), judges=("strict", "mild"))


def no_longer_named(folder: Path, now: Shape) -> list[Problem]:
    work = work_of(folder / "run", now)
    return [one for one in preflight(work, KEYS, NOW.date()) if "no longer names" in one.cause]


@pytest.mark.parametrize(
    ("now", "held"),
    [
        (replace(FULL, subjects=("alpha",)), "beta"),
        (replace(FULL, judges=("mild",)), "judge strict"),
        (replace(FULL, dimensions=FULL.dimensions[:1]), f"dimension {FULL.dimensions[1]}"),
        (replace(FULL, subjects=("beta",), judges=("mild",)), "alpha, judge strict"),
    ],
)
def test_what_a_sweep_no_longer_names_is_said_to_leave_the_report(tmp_path: Path, now: Shape, held: str) -> None:
    write_run(tmp_path / "run", FULL)
    (problem,) = no_longer_named(tmp_path, now)
    assert f"also holds {held}, which" in problem.cause and problem.severity is Severity.WARNING


def test_a_variant_that_a_sweep_no_longer_names_is_said_to_leave_the_report(tmp_path: Path) -> None:
    variants = Variants(
        subjects=(SubjectVariant(name="terse", system="Be brief."), SubjectVariant(name="kind", system="Be kind.")),
        judges=(JudgeVariant(name="reversed", issues="reversed"),),
    )
    run = write_run(tmp_path / "run", FULL).run
    record = read_record(run.location)
    assert record is not None
    amend_record(run.location, sweep=record.sweep.model_copy(update={"variants": variants}))
    assert no_longer_named(tmp_path, FULL) == []
    dimension = FULL.dimensions[0]
    answers = run.read(Response, responses_file("alpha", dimension))
    run.write(Response, responses_file("alpha (terse)", dimension), answers)
    verdicts = run.read(Verdict, verdicts_file("strict", "alpha", dimension))
    run.write(Verdict, verdicts_file("mild (reversed)", "beta", dimension), verdicts)
    (problem,) = no_longer_named(tmp_path, FULL)
    assert "also holds variant terse, judges' variant reversed, which" in problem.cause


@pytest.mark.parametrize("now", [replace(FULL, judges=("mild",)), replace(FULL, dimensions=FULL.dimensions[:1])])
def test_what_a_sweep_no_longer_names_is_said_once(tmp_path: Path, now: Shape) -> None:
    write_run(tmp_path / "run", FULL)
    write_record(work_of(tmp_path / "run", now), NOW)
    assert no_longer_named(tmp_path, now) == []


def test_what_a_sweep_no_longer_names_and_has_no_answers_goes_unsaid(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", FULL).run
    for folder in ("responses", "verdicts"):
        run.folder.clear(folder)
    now = Shape(subjects=("alpha",), judges=("mild",), dimensions=FULL.dimensions[:1])
    assert no_longer_named(tmp_path, now) == no_longer_named(tmp_path, FULL) == []


@pytest.fixture
def scanty(tmp_path: Path) -> Path:
    """A folder with a rubric whose last example has too short an assessment."""
    folder = tmp_path / "mine"
    folder.mkdir()
    rubric = yaml.safe_load(bundled("rubrics").joinpath(f"{LEARNING}.yaml").read_text(encoding="utf-8"))
    rubric["judging"]["examples"][2]["assessment"] = "It never asks."
    (folder / f"{LEARNING}.yaml").write_text(yaml.safe_dump(rubric))
    return folder


def spoilt(work: Work, folder: Path) -> list[tuple[Severity, str]]:
    """The problems that name a file of the folder: the severity, and the cause without the folder."""
    found = [p for p in preflight(work, KEYS, NOW.date()) if p.cause.startswith(str(folder))]
    return [(p.severity, p.cause.removeprefix(f"{folder}/")) for p in found]


def test_own_texts_that_spoil_verdicts_stop_a_new_run_and_not_one_that_has_started(
    tmp_path: Path, scanty: Path
) -> None:
    prompts = bundled("rubrics").joinpath("prompts.yaml").read_text(encoding="utf-8")
    (scanty / "prompts.yaml").write_text(prompts.replace('fence("ASSISTANT", response)', '"none"'))
    sweep = work_of(tmp_path / "run", Shape(dimensions=(LEARNING,))).sweep
    work = resolve(sweep.model_copy(update={"rubrics": scanty}), NOW)
    (first, rubric), (second, judge) = spoilt(work, scanty)
    assert rubric.startswith(f"{LEARNING}.yaml: judging.examples.2.assessment: has 3 words")
    assert judge.startswith("prompts.yaml: judge.user: does not always show `response`")
    assert (first, second) == (Severity.ERROR, Severity.ERROR)
    write_record(work, NOW)
    assert spoilt(work, scanty) == [(Severity.WARNING, rubric), (Severity.WARNING, judge)]


def test_the_reworded_rubrics_of_judges_are_looked_at_too(tmp_path: Path, scanty: Path) -> None:
    variants = Variants(
        judges=(JudgeVariant(name="reworded", rubrics=scanty), JudgeVariant(name="b", issues="reversed"))
    )
    sweep = work_of(tmp_path / "run", Shape(dimensions=(LEARNING,))).sweep.model_copy(update={"variants": variants})
    ((_, cause),) = spoilt(resolve(sweep, NOW), scanty)
    assert cause.startswith(f"{LEARNING}.yaml: judging.examples.2.assessment: has 3 words")


def test_a_family_that_compares_dimensions_names_them_in_among(tmp_path: Path) -> None:
    """`dimensions` says in which dimensions others are compared; a run that has started may go on with it."""

    def found(over: tuple[str, ...]) -> list[tuple[Severity, str, str]]:
        family = {"name": "apart", "compares": "dimensions", "dimensions": over}
        plan = {"primary": "overall", "families": [family], "alpha": 0.05, "stopping": "fixed"}
        sweep = small(tmp_path, dimensions=["encourage_learning", "correct_misinformation"], analysis=plan)
        problems = preflight(resolve(sweep, NOW), KEYS, NOW.date())
        return [(p.severity, p.cause, p.remedy) for p in problems if p.cause.startswith("analysis.")]

    cause = "analysis.families.0.dimensions: has no effect, as this family compares dimensions"
    remedy = "name those to compare in `among:`, and leave `dimensions:` out"
    assert found(("encourage_learning",)) == [(Severity.ERROR, cause, remedy)] and found(("overall",)) == []
    write_record(resolve(small(tmp_path), NOW), NOW)
    assert found(("encourage_learning",)) == [(Severity.WARNING, cause, remedy)]
