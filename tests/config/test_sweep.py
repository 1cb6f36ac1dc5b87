"""The sweep file: what it may say, and one clear message for each thing that is wrong."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from hab_ray.calls import Params
from hab_ray.catalog.base import UsdPrice
from hab_ray.config.sections import ParamOverrides, Subject, Validate
from hab_ray.config.sweep import Sweep, load_sweep
from hab_ray.errors import ConfigError, Exit
from hab_ray.location import Location

GOOD: dict[str, Any] = {
    "name": "demo",
    "generate": {"model": "lab/writer", "candidates": 30},
    "validate": {"model": "lab/checker", "keep": 20},
    "select": {"embedding": "lab/emb", "tests": 10},
    "providers": {"lab": {"kind": "openai", "url": "http://lab/v1", "models": {"emb": {"purpose": "embedding"}}}},
    "subjects": ["lab/a", {"model": "lab/a", "name": "a-kind", "system": "Be kind.", "params": {"max_tokens": 50}}],
    "judges": ["lab/j", {"model": "lab/j", "name": "j2", "params": {"effort": "low"}}],
}
Load = Callable[..., Sweep]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "my.yaml"


@pytest.fixture
def load(path: Path) -> Load:
    """Reads the good sweep with top-level keys changed; None takes one away."""

    def read(**changes: Any) -> Sweep:
        path.write_text(yaml.safe_dump({k: v for k, v in {**GOOD, **changes}.items() if v is not None}))
        return load_sweep(path)

    return read


def problems(load: Load, path: Path, **changes: Any) -> list[str]:
    """What is said about a sweep, a line each; every line names the file and nothing has another exit status."""
    with pytest.raises(ConfigError) as told:
        load(**changes)
    assert told.value.exit is Exit.CONFIGURATION
    lines = str(told.value).splitlines()
    assert all(line.startswith(f"{path}: ") for line in lines)
    return [line.removeprefix(f"{path}: ") for line in lines]


def test_a_good_sweep_is_read_with_the_papers_settings_where_it_says_nothing(load: Load) -> None:
    sweep = load()
    assert sweep.generate and sweep.select and isinstance(sweep.validation, Validate)
    assert (sweep.generate.per_call, sweep.generate.seeds_shown) == (3, 3)
    assert (sweep.generate.temperature, sweep.generate.top_p, sweep.generate.max_tokens) == (1.4, 0.95, 1500)
    assert (sweep.select.components, sweep.select.seed, sweep.validation.floor) == (50, 42, 0)
    assert (sweep.seed, sweep.samples, sweep.deduplicate, sweep.truncated) == (0, 1, "exact", "judge")
    assert [(s.name, s.model, s.system) for s in sweep.subjects] == [
        ("lab/a", "lab/a", ""),
        ("a-kind", "lab/a", "Be kind."),
    ]
    assert [j.name for j in sweep.judges] == ["lab/j", "j2"]
    assert sweep.run_folder == Location("runs/demo")
    assert load(run="elsewhere/r1").run_folder == Location("elsewhere/r1")


def test_the_models_a_sweep_calls_are_named_once_in_the_order_of_the_stages(load: Load) -> None:
    assert load().model_names() == ["lab/writer", "lab/checker", "lab/emb", "lab/a", "lab/j"]
    assert load(validate="off").model_names() == ["lab/writer", "lab/emb", "lab/a", "lab/j"]
    assert load(tests="seeds").model_names() == ["lab/a", "lab/j"]
    assert load(generate=None, select=None, validate=None, tests="seeds").model_names() == ["lab/a", "lab/j"]


def test_off_is_off_as_yaml_reads_it(path: Path) -> None:
    text = yaml.safe_dump({k: v for k, v in GOOD.items() if k != "validate"})
    path.write_text(f"{text}\nvalidate: off\ndeduplicate: off\n")
    sweep = load_sweep(path)
    assert (sweep.validation, sweep.deduplicate) == ("off", "off")


def test_the_command_lines_changes_go_before_the_file(load: Load, path: Path) -> None:
    load()
    assert load_sweep(path, {"seed": 7, "store": "other"}).store == Location("other")
    with pytest.raises(ConfigError, match="sed: unknown key; did you mean 'seed'"):
        load_sweep(path, {"sed": 7})


def test_the_record_of_a_run_is_not_taken_for_a_sweep_file(tmp_path: Path) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_text("id: 9b\nsweep: {name: demo}\nas_of: {}\nversions: {python: 3.12.1}\n")
    with pytest.raises(ConfigError, match=r"sweep\.yaml: is the record that a run keeps of itself, not a sweep file"):
        load_sweep(path)


SMALL = "small letters, digits and . _ -"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sead": 1}, ["sead: unknown key; did you mean 'seed'?"]),
        ({"budget": {"usd": 5, "rsk": 0.1}}, ["budget.rsk: unknown key; did you mean 'risk'?"]),
        ({"validation": "off"}, ["validation: unknown key; did you mean 'validate'?"]),
        ({"zzz": 1}, ["zzz: unknown key; remove it, or see docs/sweep.md for the keys of a sweep file"]),
        (
            {"subjects": [{"model": "lab/b", "params": {"temprature": 1}}]},
            ["subjects.0.params.temprature: unknown key; did you mean 'temperature'?"],
        ),
        (
            {"providers": {"lab": {"kind": "openai", "models": {"m": {"jsn_schema": True}}}}},
            ["providers.lab.models.m.jsn_schema: unknown key; did you mean 'json_schema'?"],
        ),
        ({"name": 2024}, ["name: must be text; put it in quotes"]),
        (
            {"name": "First Sweep"},
            [f"name: takes at most 64 {SMALL} and begins with a letter or digit, such as first-sweep"],
        ),
        *(
            (
                {"deadline": given},
                ["deadline: takes a number with m, h or d for minutes, hours or days, such as 90m, 6h or 2d"],
            )
            for given in ("soon", 6)
        ),
        ({"budget": 1}, ["budget: takes a mapping; for a hard limit write `budget_usd: 1`"]),
        ({"judges": "lab/j"}, ["judges: takes a list; write [lab/j]"]),
        ({"subjects": "lab/a, lab/b"}, ["subjects: takes a list; write [lab/a, lab/b]"]),
        ({"dimensions": "encourage_learning"}, ["dimensions: takes a list, or `all`; write [encourage_learning]"]),
        ({"dimensions": 3}, ["dimensions: takes a list, or `all`"]),
        ({"judges": ""}, ["judges: takes a list"]),
        ({"judges": []}, ["judges: must have 1 or more entries, and has 0"]),
        ({"subjects": [{}]}, ["subjects.0.model: is missing"]),
        ({"validate": 5}, ["validate: must be a section, such as {key: value}, or `off`"]),
        ({"seed": "x"}, ["seed: must be a whole number"]),
        ({"seed": 1e30}, ["seed: is too large; give a smaller whole number"]),
        *(
            (
                {"providers": {"lab": {"kind": "openai", "models": {"m": {"lifecycle": {"ends": ends, "why": "w"}}}}}},
                ["providers.lab.models.m.lifecycle.ends: must be a date, such as 2027-03-31"],
            )
            for ends in ("soon", "2027-03-31-12", 0.3, True)
        ),
        ({"rubrics": ""}, ["rubrics: is empty; write a path, or . for the current folder"]),
        ({"run": 7}, ["run: is not a path; write one as text, in quotes if it looks like a number"]),
        ({"samples": 0}, ["samples: must be more than 0"]),
        ({"truncated": "no"}, ["truncated: must be 'judge' or 'exclude'"]),
        ({"accept_substitutes": "x"}, ["accept_substitutes: must be true or false"]),
    ],
)
def test_wrong_keys_and_forms_get_a_hint(changes: dict[str, Any], said: list[str], load: Load, path: Path) -> None:
    assert problems(load, path, **changes) == said


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"judges": None}, "judges"),
        ({"subjects": ["lab/a", {"name": "x"}]}, "subjects.1.model"),
        ({"subjects": [{"model": "lab/a", "params": {"temperature": 3}}]}, "subjects.0.params.temperature"),
        ({"generate": {"model": "lab/w"}}, "generate.candidates"),
        ({"validate": {"model": "lab/w", "keep": 2, "floor": 1001}}, "validate.floor"),
        ({"validate": {"model": "lab/w", "keep": 2, "mode": "x"}}, "validate.mode"),
        ({"validate": "of"}, "validate"),
        ({"dimensions": ["encourage_learning", 7]}, "dimensions.1"),
        ({"providers": {"lab": {"kind": "opena", "models": {"emb": {"purpose": "embedding"}}}}}, "providers.lab.kind"),
        ({"lease": {"take_s": float("inf")}}, "lease.take_s"),
        ({"budget_usd": 1e308}, "budget_usd"),
        ({"deadline": "6w"}, "deadline"),
        ({"deadline": "9" * 400 + "h"}, "deadline"),
    ],
)
def test_a_wrong_value_is_said_under_its_key_alone(changes: dict[str, Any], key: str, load: Load, path: Path) -> None:
    assert {line.partition(": ")[0] for line in problems(load, path, **changes)} == {key}


def test_a_misspelt_dimension_is_named_with_the_nearest(load: Load, path: Path) -> None:
    (line,) = problems(load, path, dimensions=["encourage_lerning"])
    assert line.startswith("dimensions: there is no rubric encourage_lerning.yaml in the built-in rubrics; did you")
    assert "did you mean 'encourage_learning'? There are ask" in line


def test_a_dimension_may_be_defined_in_a_folder_of_the_users(load: Load, path: Path) -> None:
    rubrics = path.parent / "mine"
    rubrics.mkdir()
    (rubrics / "mental_security.yaml").touch()
    assert load(dimensions=["mental_security", "encourage_learning"], rubrics=str(rubrics))
    (line,) = problems(load, path, dimensions=["mental_securities"], rubrics=str(rubrics))
    assert f"no rubric mental_securities.yaml in {rubrics} or the built-in" in line
    assert "mean 'mental_security'?" in line


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("jobs/smal.yaml", "jobs/small.yaml"),
        ("small", "jobs/small.yaml"),
        ("studies/frist.yaml", "studies/first.yaml"),
        ("mine.yml", "mine.yaml"),
        ("zzzzzz", None),
        ("nope.yaml", None),
    ],
)
def test_a_near_path_is_named(wrong: str, near: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "studies").mkdir()
    (tmp_path / "studies/first.yaml").touch()
    (tmp_path / "mine.yaml").touch()
    remedy = f"did you mean {near}?" if near else "check the path"
    with pytest.raises(ConfigError) as told:
        load_sweep(Path(wrong))
    assert str(told.value) == f"{wrong}: there is no such file; {remedy}"


@pytest.mark.parametrize("tests", [30, True, ["a.csv"], {"extend": 3}])
def test_a_number_of_tests_is_pointed_to_its_key(tests: object, load: Load, path: Path) -> None:
    (line,) = problems(load, path, tests=tests)
    assert line.startswith("tests: takes the path of a file of tests, or `seeds`")
    assert line.endswith("`select: {embedding: text-embedding-3-small, tests: 30}`")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"subjects": ["lab/a", {"model": "lab/a", "system": "x"}]}, "subjects: 'lab/a' appears 2 times"),
        ({"judges": ["lab/j", "lab/j", "lab/j"]}, "judges: 'lab/j' appears 3 times"),
        ({"rubrics": "nowhere"}, "rubrics: there is no folder /"),
        ({"tests": "nowhere.jsonl"}, "tests: there is no file /"),
        ({"generate": None}, "generate, select: both are needed"),
        ({"select": None}, "generate, select: both are needed"),
        ({"lease": {"renew_s": 20}}, "lease: renew_s (20) must be below lost_s (20), and that below take_s (40)"),
        ({"lease": {"lost_s": 60}}, "lease: renew_s (10) must be below lost_s (60), and that below take_s (40)"),
        ({"subjects": ["lab/a", "gpt-99"]}, "subjects.1.model: unknown model '"),
        ({"judges": [{"model": "nowhere/x"}]}, "judges.0.model: unknown model '"),
        ({"generate": {"model": "gpt-99", "candidates": 3}}, "generate.model: unknown model '"),
        ({"validate": {"model": "gpt-99", "keep": 3}}, "validate.model: unknown model '"),
        ({"select": {"embedding": "gpt-99", "tests": 3}}, "select.embedding: unknown model '"),
    ],
)
def test_what_does_not_fit_together_is_said(changes: dict[str, Any], said: str, load: Load, path: Path) -> None:
    (line,) = problems(load, path, **changes)
    assert line.startswith(said)
    assert len(line) > len(said)


def test_everything_wrong_is_said_at_once(load: Load, path: Path) -> None:
    said = problems(load, path, sead=1, samples=0, subjects=[{"model": "lab/a", "sytem": "x"}, {"name": "x"}])
    assert {line.partition(": ")[0] for line in said} == {"sead", "samples", "subjects.0.sytem", "subjects.1.model"}
    said = problems(load, path, subjects=["gpt-98", "gpt-99"], judges=["lab/j", "lab/j"], rubrics="nowhere")
    assert len(said) == 4


def test_overrides_go_over_the_stages_own_settings() -> None:
    base = Params(1000, 0.0, 0.95)
    assert ParamOverrides().over(base) == base
    assert ParamOverrides(temperature=0.7, effort="low").over(base) == Params(1000, 0.7, 0.95, "low")
    assert ParamOverrides(max_tokens=5, top_p=1.0).over(base) == Params(5, 0.0, 1.0)


def test_a_sweep_on_other_weights_replaces_what_hab_serves_and_nothing_else(load: Load) -> None:
    sweep = load(
        name="demo",
        generate={"model": "smollm2-135m", "candidates": 3},
        validate={"model": "local/smollm2-135m", "keep": 3},
        select={"embedding": "wordllama", "tests": 2},
        subjects=[Subject.model_validate("smollm2-135m").model_dump(), "lab/a"],
        judges=["smollm2-135m"],
        run="runs/first",
    )
    other = sweep.on_local_weights(Path("/data/Qwen 3.gguf"))
    assert other.model_names() == ["local//data/Qwen 3.gguf", "wordllama", "lab/a"]
    assert [(s.name, s.model) for s in other.subjects] == [("Qwen 3", "local//data/Qwen 3.gguf"), ("lab/a", "lab/a")]
    assert [(j.name, j.model) for j in other.judges] == [("Qwen 3", "local//data/Qwen 3.gguf")]
    assert str(other.run_folder) == f"runs/{other.name}"
    assert other.run_folder != sweep.run_folder
    assert other.run_folder.name == other.name
    entry = other.catalog.find(other.model_names()[0])
    assert (entry.weights, entry.wire, entry.price) == ("/data/Qwen 3.gguf", "Qwen 3", UsdPrice(input=0))
    third = sweep.on_local_weights(Path("/data/other.gguf"))
    assert third.run_folder != other.run_folder and other.store == Location("store")
    own = load(judges=["smollm2-135m"], store="runs/demo/store").on_local_weights(Path("/data/other.gguf"))
    assert own.store == own.run_folder / "store" != Location("runs/demo/store")
    assert Sweep.model_validate(other.model_dump(mode="json", by_alias=True)) == other


def test_names_that_were_given_stay_on_other_weights_and_none_is_doubled(load: Load) -> None:
    named = {"model": "smollm2-135m", "name": "small", "system": "Be kind."}
    sweep = load(subjects=["smollm2-135m", named, "local/tiny", "lab/a"], judges=["lab/j"])
    other = sweep.on_local_weights(Path("x.gguf"))
    assert [s.name for s in other.subjects] == ["x for smollm2-135m", "small", "x for local/tiny", "lab/a"]
    assert len({s.model for s in other.subjects[:3]}) == 1
    assert [j.name for j in other.judges] == ["lab/j"]


@pytest.mark.parametrize("value", ["!!int ''", "!!int _", "!!float ''"])
def test_a_number_without_digits_is_named_with_its_line(value: str, path: Path) -> None:
    path.write_text(f"name: demo\nsamples: {value}\n")
    with pytest.raises(ConfigError, match=r"not valid YAML: line 2, column 10: '_?' is no (int|float)"):
        load_sweep(path)


@pytest.mark.parametrize(
    ("text", "key", "line"),
    [
        ("name: demo\nseed: 1\nsubjects: [lab/a]\nseed: 2\n", "seed", 4),
        ("providers:\n  lab: {kind: openai}\n  lab: {kind: google}\n", "lab", 3),
    ],
)
def test_a_key_that_stands_twice_is_named_with_its_line(text: str, key: str, line: int, path: Path) -> None:
    path.write_text(text)
    with pytest.raises(ConfigError) as told:
        load_sweep(path)
    assert str(told.value).startswith(f"{path}: not valid YAML: line {line}, column ")
    assert f"the key {key!r} appears twice" in str(told.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("subjects:\n\t- a\n", "line 2, column 1: found character that cannot start any token: it is a tab; "),
        ("generate:\n  model: a\n\tmode: b\n", "it is a tab; indent with spaces"),
        ("name: a\n---\nname: b\n", "line 2, column 1: a second document begins here; keep one"),
        ("name: [a\n", "; correct the YAML there"),
        ("subjects:\n", "subjects: is empty; write its value, or remove the key"),
        ("subjects: [a]\ndimensions:\n", "dimensions: is empty; write its value, or remove the key"),
    ],
)
def test_what_is_no_yaml_is_said_in_plain_words(text: str, said: str, path: Path) -> None:
    path.write_text(text)
    with pytest.raises(ConfigError) as told:
        load_sweep(path)
    assert said in str(told.value)


def test_a_sweep_on_other_weights_needs_no_validation(load: Load) -> None:
    given = load(tests="seeds", generate=None, validate=None, select=None, judges=["smollm2-135m"])
    assert given.on_local_weights(Path("x.gguf")).model_names() == ["lab/a", "local/x.gguf"]
    off = load(validate="off", judges=["smollm2-135m"])
    assert off.on_local_weights(Path("x.gguf")).validation == "off"


def test_a_mode_holds_for_all_that_name_none_and_batch_needs_a_batch_api(load: Load, path: Path) -> None:
    told = problems(load, path, mode="batch", judges=[{"model": "lab/j", "mode": "online"}])
    assert [line.partition(":")[0] for line in told] == [
        "generate.model",
        "validate.model",
        "select.embedding",
        "subjects.0.model",
        "subjects.1.model",
    ]
    assert all("no batch API" in line for line in told)
    assert all("its own `url:`" in line and "providers.lab.batch: {discount: 0.5}" in line for line in told)
    lab = {**GOOD["providers"]["lab"], "batch": {"discount": 0.5}}
    sweep = load(mode="batch", providers={"lab": lab}, judges=[{"model": "lab/j", "mode": "online"}])
    assert {key: mode for key, _, mode in sweep.modes_by_key() if mode != "batch"} == {"judges.0.model": "online"}


@pytest.mark.parametrize(("given", "minutes"), [("90m", 90), ("6h", 360), ("2d", 2880), ("0.5h", 30)])
def test_a_deadline_is_a_span_of_time(load: Load, given: str, minutes: int) -> None:
    limit = load(deadline=given).time_limit
    assert limit is not None and limit.total_seconds() == 60 * minutes


GATEWAY = {"like": "openai", "url": "https://gateway.example.org/v1"}


@pytest.mark.parametrize(
    ("providers", "problem"),
    [
        ({"gw": {**GATEWAY, "like": "opnai"}}, "providers.gw.like: the catalogue has no vendor 'opnai'; did you mean"),
        ({"gw": {**GATEWAY, "like": "nobody"}}, "providers.gw.like: the catalogue has no vendor 'nobody'; It has open"),
        ({"gw": {**GATEWAY, "like": "local"}}, "providers.gw.like: the catalogue has no vendor 'local'; "),
        ({"gw": {**GATEWAY, "like": 3}}, "providers.gw.like: must be text; put it in quotes"),
        ({"gw": {**GATEWAY, "kind": "google"}}, "providers.gw.kind: openai is of kind 'openai', not 'google'"),
        ({"gw": {**GATEWAY, "batch": "yes please"}}, "providers.gw.batch: "),
        ({"xai": GATEWAY}, "providers.xai.like: xai is a vendor itself, and these replies would be stored as its own"),
        ({"gw": {"kind": "openai", "url": GATEWAY["url"], "batch": True}}, "providers.gw.batch: `true` needs `like:`"),
    ],
)
def test_wrong_endpoints_like_vendors(load: Load, path: Path, providers: dict[str, Any], problem: str) -> None:
    told = problems(load, path, providers={**GOOD["providers"], **providers})
    assert any(line.startswith(problem) for line in told), told


def test_a_gateway_is_asked_by_batch_only_where_it_says_so(load: Load, path: Path) -> None:
    asked: dict[str, Any] = {"subjects": [{"model": "gw/gpt-6-luna", "mode": "batch"}]}
    (told,) = problems(load, path, **asked, providers={**GOOD["providers"], "gw": GATEWAY})
    assert "subjects.0.model: gw/gpt-6-luna has no batch API" in told and "`providers.gw.batch: true`, else" in told
    load(**asked, providers={**GOOD["providers"], "gw": {**GATEWAY, "batch": True}})
