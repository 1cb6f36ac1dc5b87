"""What a run is pinned to, and what must not change under it."""

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from hab_ray.catalog.base import UsdPrice
from hab_ray.catalog.models import Thinking, folder_name
from hab_ray.config.sweep import Sweep
from hab_ray.errors import ConfigError
from hab_ray.inputs.origin import Origin
from hab_ray.location import Location
from hab_ray.planning.preflight import preflight
from hab_ray.resolve import hashes, load_work, resolve, write_record
from hab_ray.results import open_run
from hab_ray.rows import RaterView
from hab_ray.rubric import Rubric
from hab_ray.stages.method.respond import RespondStage, ResponseTask
from hab_ray.stages.prompts.wording import load_prompts
from hab_ray.storage.folder import open_folder
from hab_ray.storage.lease.lease import Holder
from hab_ray.storage.record import amend_record, read_record
from hab_ray.storage.run import RATERS, SWEEP, TEXTS
from hab_ray.sweep.run import keep_own_texts
from hab_ray.work import Work, given_tests
from tests.published_rows import write_wording

NOW = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
LATER = datetime(2027, 1, 5, 9, 0, tzinfo=UTC)
RUBRICS = Path(__file__).parents[1] / "rubrics"
DIMENSION = "encourage_learning"
THEMES_1 = "cdfdbb5f1e614176882789c7a5cb226a06debba10699bf56dde8d9087ca6d4cb"
Resolve = Callable[..., Work]


def provider(**changes: Any) -> dict[str, Any]:
    models = {"alias": {"alias": "moving"}}
    return {"kind": "openai", "url": "http://lab:1/v1", "price": {"input": 0}, "models": models, **changes}


@pytest.fixture
def rubrics(tmp_path: Path) -> Path:
    """A folder with a rubric of its own, which a test may change."""
    folder = tmp_path / "rubrics"
    folder.mkdir()
    shutil.copy(RUBRICS / f"{DIMENSION}.yaml", folder)
    return folder


def rewrite(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the rubric in a folder."""
    file = folder / f"{DIMENSION}.yaml"
    content = yaml.safe_load(file.read_text())
    change(content)
    file.write_text(yaml.safe_dump(content))


@pytest.fixture
def resolved(tmp_path: Path, rubrics: Path) -> Resolve:
    """Resolves a sweep with top-level keys changed, in the same run folder each time."""

    def make(now: datetime = NOW, **changes: Any) -> Work:
        given = {
            "name": "demo",
            "run": tmp_path / "run",
            "rubrics": rubrics,
            "dimensions": [DIMENSION],
            "tests": "seeds",
            "providers": {"lab": provider()},
            "subjects": ["lab/a", {"model": "lab/alias", "name": "moving"}],
            "judges": ["lab/j"],
        }
        return resolve(Sweep.model_validate({**given, **changes}), now)

    return make


@pytest.fixture
def started(resolved: Resolve) -> Work:
    """A run that was started."""
    work = resolved()
    write_record(work, NOW)
    return work


def refused(resolved: Resolve, **changes: Any) -> str:
    with pytest.raises(ConfigError) as told:
        resolved(**changes)
    assert SWEEP in str(told.value)
    assert "another `run:`" in str(told.value)
    return str(told.value)


def test_resolving_writes_nothing(resolved: Resolve, tmp_path: Path) -> None:
    work = resolved()
    assert not (tmp_path / "run").exists()
    assert read_record(work.run_path) is None


def test_a_run_is_recorded_with_what_it_depends_on(started: Work) -> None:
    record = read_record(started.run_path)
    assert record
    assert record.sweep == started.sweep
    assert (record.started, record.priced_on) == (NOW, NOW.date())
    assert record.hashes[f"rubric {DIMENSION}"] == started.rubrics[DIMENSION].sha256
    assert {"prompts", "themes", "catalogue", "prices"} <= set(record.hashes)
    assert all(len(digest) == 64 for digest in record.hashes.values())
    assert record.as_of == {"lab/a": None, "lab/alias": "2026-11", "lab/j": None}
    assert record.versions["scikit-learn"] == version("scikit-learn")
    assert set(record.versions) > {"python", "ray", "numpy", "hab-ray"}


def test_a_run_with_every_key_comes_back_from_its_folder_alone(resolved: Resolve, tmp_path: Path) -> None:
    work = resolved(
        tests=None,
        store=tmp_path / "store",
        seed=3,
        samples=2,
        deduplicate="off",
        accept_substitutes=True,
        generate={"model": "lab/w", "candidates": 30, "temperature": 0.1},
        validate="off",
        select={"embedding": "lab/emb", "tests": 3},
        judges=[{"model": "lab/j", "name": "j\U0001f41d: 'x' [/red]", "params": {"effort": "low", "top_p": 0.95}}],
    )
    write_record(work, NOW)
    assert load_work(Location.of(tmp_path / "run"), LATER) == work
    shutil.move(tmp_path / "run", tmp_path / "moved")
    assert load_work(Location.of(tmp_path / "moved"), LATER).run_path == Location.of(tmp_path / "moved")
    with pytest.raises(ConfigError, match="there is no run here"):
        load_work(Location.of(tmp_path / "run"), NOW)


def test_the_same_sweep_fits_its_run_again(resolved: Resolve, started: Work) -> None:
    again = resolved(LATER)
    assert again.models == started.models
    write_record(again, LATER)
    record = read_record(again.run_path)
    assert record and (record.started, record.priced_on) == (NOW, LATER.date())


def lease_of(run: Path, store: Path) -> None:
    """Have a run hold a store for the first time."""
    holder = Holder.after(None, Location.of(store), Location.of(run), NOW)
    open_folder(Location.of(store)).put(holder.name, holder.record())


def test_a_run_with_rows_goes_on_with_its_own_store_but_not_with_one_that_another_run_has_begun_in_its_place(
    resolved: Resolve, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    work = resolved(store=store)
    write_record(work, NOW)
    work.run.folder.put(f"verdicts/one/{DIMENSION}.parquet", b"")
    with pytest.raises(ConfigError, match=f"is not at {store}"):
        resolved(store=store)
    lease_of(tmp_path / "another", store)
    with pytest.raises(ConfigError, match=f"is not at {store}"):
        resolved(store=store)
    lease_of(tmp_path / "run", store)
    resolved(store=store)


@pytest.mark.parametrize("left", ["lease/000001.json", "replies/sim/part.parquet", "ledger/sim/000001/0.json"])
def test_a_run_without_an_id_goes_on_with_whatever_is_left_of_its_store(
    resolved: Resolve, tmp_path: Path, left: str
) -> None:
    """Older stores have no lease, and those that `hab store gc` has emptied no replies."""
    store = tmp_path / "store"
    work = resolved(store=store)
    write_record(work, NOW)
    amend_record(work.run_path, id=None)
    work.run.folder.put(f"verdicts/one/{DIMENSION}.parquet", b"")
    with pytest.raises(ConfigError, match=f"is not at {store}"):
        resolved(store=store)
    open_folder(work.sweep.store).put(left, b"")
    resolved(store=store)


def test_what_a_sweep_leaves_to_the_catalogue_is_the_catalogues_again_in_the_record(resolved: Resolve) -> None:
    """A record that named every capability would put the general defaults in place of what the catalogue says."""
    openai = {**provider(), "priced_as": "openai", "models": {"o3-2025-04-16": {"price": {"input": 5, "output": 6}}}}
    work = resolved(providers={"openai": openai}, subjects=["o3-2025-04-16"], judges=["o3-2025-04-16"])
    entry = work.models["o3-2025-04-16"].entry
    assert (entry.thinking, entry.price) == (Thinking.ALWAYS, UsdPrice(input=5, output=6))
    write_record(work, NOW)
    assert load_work(work.run_path, NOW).models == work.models
    written = yaml.safe_load(work.run.folder.get(SWEEP))
    assert set(written["sweep"]["providers"]["openai"]["models"]["o3-2025-04-16"]) == {"price"}


def test_a_moving_alias_stays_at_the_month_of_the_runs_start(resolved: Resolve, started: Work, tmp_path: Path) -> None:
    assert resolved(LATER).models["lab/alias"].as_of == "2026-11"
    assert resolved(LATER, run=tmp_path / "another").models["lab/alias"].as_of == "2027-01"
    added = resolved(LATER, judges=["lab/j", "lab/alias"])
    assert added.models["lab/alias"].as_of == "2026-11"


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"seed": 1}, "seed: 0 before, 1 now"),
        (
            {"tests": None, "generate": {"model": "lab/w", "candidates": 3}},
            "generate: none before, {model: lab/w, candidates: 3} now",
        ),
        ({"validate": "off"}, "validate: none before, off now"),
        ({"deduplicate": "off"}, "deduplicate: exact before, off now"),
        (
            {"subjects": [{"model": "lab/a", "system": "Be kind."}]},
            "subjects: lab/a has changed; system: none before, Be kind. now;",
        ),
        (
            {"subjects": ["lab/a", {"model": "lab/b", "name": "moving", "params": {"effort": "low"}}]},
            "subjects: moving has changed; model: lab/alias before, lab/b now; params.effort: none before, low now;",
        ),
        (
            {"judges": [{"model": "lab/j", "params": {"max_tokens": 5}}]},
            "judges: lab/j has changed; params.max_tokens: none before, 5 now; a new variant needs",
        ),
    ],
)
def test_a_change_to_what_a_run_was_made_with_is_refused_by_name(
    changes: dict[str, Any], named: str, resolved: Resolve, started: Work
) -> None:
    message = refused(resolved, **changes)
    assert named in message
    assert sum(line.startswith("  ") for line in message.splitlines()) == 1 + 2 * (changes.get("tests", 1) is None)


def edit(rubric: Path) -> None:
    rubric.write_text(rubric.read_text().replace("deduction: 7", "deduction: 6", 1))


def test_a_refusal_says_what_another_run_pays_for_and_how_to_keep_tests_that_would_be_others(
    resolved: Resolve, rubrics: Path
) -> None:
    made = {
        "tests": None,
        "generate": {"model": "lab/w", "candidates": 30},
        "validate": "off",
        "select": {"embedding": "lab/emb", "tests": 3},
    }
    work = resolved(**made)
    write_record(work, NOW)
    message = refused(resolved, **made, judges=[{"model": "lab/j", "params": {"max_tokens": 5}}])
    assert "and provider name are not paid for again; all others are new, and `hab plan` shows" in message
    keep = f"To keep the present tests: `hab export {work.run_path} --format json --out kept`"
    assert keep not in message and keep in refused(resolved, **made, seed=9)
    edit(rubrics / f"{DIMENSION}.yaml")
    assert keep in refused(resolved, **made)


def test_a_rubric_that_is_gone_since_the_sweep_was_read_is_named(started: Work) -> None:
    with pytest.raises(ConfigError, match=r"there is no rubric gone\.yaml in"):
        resolve(started.sweep.model_copy(update={"dimensions": ("gone",)}), NOW)


def test_changed_prompts_and_themes_are_refused_by_name(resolved: Resolve, started: Work, rubrics: Path) -> None:
    themes = yaml.safe_load((RUBRICS / "themes.yaml").read_text())
    (rubrics / "themes.yaml").write_text(yaml.safe_dump({"themes": [*themes["themes"], "lighthouses at night"]}))
    prompts = (RUBRICS / "prompts.yaml").read_text()
    (rubrics / "prompts.yaml").write_text(prompts.replace("in one respect only", "in this respect only"))
    message = refused(resolved)
    assert "themes: its text has changed" in message
    assert "prompts: its text has changed" in message


def test_a_comment_in_a_rubric_changes_nothing(resolved: Resolve, started: Work, rubrics: Path) -> None:
    path = rubrics / f"{DIMENSION}.yaml"
    path.write_text(f"# reviewed\n{path.read_text()}")
    resolved()


@pytest.mark.parametrize(
    "change", [edit, Path.unlink, lambda file: file.write_text("{"), lambda file: shutil.rmtree(file.parent)]
)
@pytest.mark.parametrize("themes", [{"themes": [f"t\u00f6pfe {n}" for n in range(75)]}, {"lines": ["a\n", "\n", "b"]}])
def test_a_run_is_read_by_the_texts_it_has_used_whatever_became_of_their_files(
    resolved: Resolve, rubrics: Path, themes: dict[str, list[str]], change: Callable[[Path], object]
) -> None:
    prompts = (RUBRICS / "prompts.yaml").read_text().replace("in one respect only", "in this respect only")
    (rubrics / "themes.yaml").write_text(yaml.safe_dump(themes))
    (rubrics / "prompts.yaml").write_text(prompts)
    work = resolved()
    write_record(work, NOW)
    keep_own_texts(work)
    for file in rubrics.iterdir():
        file.write_text(file.read_text().replace("this respect", "each respect").replace("\u00f6", "oe", 1))
    change(rubrics / f"{DIMENSION}.yaml")
    read = load_work(work.run_path, NOW)
    assert (read.themes, read.prompts.text) == (work.themes, work.prompts.text)
    for rubrics_read in (read.rubrics, open_run(work.run_path).rubrics):
        assert rubrics_read[DIMENSION].canonical == work.rubrics[DIMENSION].canonical
    if rubrics.exists():
        (rubrics / "prompts.yaml").write_bytes(work.run.text(work.prompts.sha256) or b"")
        assert load_prompts(rubrics).sha256 == work.prompts.sha256


def test_imported_wording_is_read_from_the_runs_copy_with_its_origin(resolved: Resolve, tmp_path: Path) -> None:
    write_wording(tmp_path / "imported")
    work = resolved(rubrics=tmp_path / "imported")
    write_record(work, NOW)
    keep_own_texts(work)
    shutil.rmtree(tmp_path / "imported")
    assert open_run(work.run_path).rubrics == work.rubrics


def test_a_run_without_copies_of_its_own_rubrics_needs_their_folder(resolved: Resolve, rubrics: Path) -> None:
    edit(rubrics / f"{DIMENSION}.yaml")
    started = resolved()
    write_record(started, NOW)
    shutil.rmtree(rubrics)
    for read in (lambda: open_run(started.run_path).rubrics, lambda: load_work(started.run_path, NOW)):
        with pytest.raises(ConfigError, match=f"{rubrics}: there is no such folder; .* put its own at {rubrics}"):
            read()


def test_a_run_that_kept_its_own_rubrics_and_not_its_prompts_is_not_read_by_the_built_in_ones(
    resolved: Resolve, rubrics: Path
) -> None:
    prompts = (RUBRICS / "prompts.yaml").read_text().replace("in one respect only", "in this respect only")
    (rubrics / "prompts.yaml").write_text(prompts)
    work = resolved()
    write_record(work, NOW)
    keep_own_texts(work)
    (work.run_path.path / TEXTS / work.prompts.sha256).unlink()
    shutil.rmtree(rubrics)
    with pytest.raises(ConfigError, match=f"{rubrics}: there is no such folder"):
        load_work(work.run_path, NOW)


def test_a_changed_text_is_refused_with_the_place_of_the_runs_copy(
    resolved: Resolve, started: Work, rubrics: Path
) -> None:
    keep_own_texts(started)
    edit(rubrics / f"{DIMENSION}.yaml")
    copy = started.run_path / TEXTS / started.rubrics[DIMENSION].sha256
    assert f"rubric {DIMENSION}: its text has changed; {copy} has the earlier one" in refused(resolved)


def test_given_tests_are_hashed_by_content(resolved: Resolve, tmp_path: Path) -> None:
    given = tmp_path / "given.jsonl"
    given.write_text('{"dimension": "encourage_learning", "prompt": "a"}')
    work = resolved(tests=given)
    assert hashes(work)["tests"] == sha256(given.read_bytes()).hexdigest()
    write_record(work, NOW)
    given.write_text('{"dimension": "encourage_learning", "prompt": "b"}')
    assert "tests: its text has changed" in refused(resolved, tests=given)


def test_a_run_remembers_where_its_tests_come_from(resolved: Resolve, tmp_path: Path) -> None:
    given, stated = tmp_path / "given.jsonl", tmp_path / "given.jsonl.source.yaml"
    given.write_text('{"dimension": "encourage_learning", "prompt": "a"}')
    stated.write_text("source: a list\nlicence: unknown\n")
    write_record(resolved(tests=given), NOW)
    stated.unlink()
    write_record(resolved(tests=given), LATER)
    record = read_record(Location.of(tmp_path / "run"))
    assert record and record.sources == {"tests": Origin(source="a list")}
    stated.write_text("source: [")
    with pytest.raises(ConfigError, match=r"tests: .*given\.jsonl\.source\.yaml: not valid YAML"):
        resolved(tests=given)
    stated.write_text("source: a list\nlicence: mit\n")
    write_record(resolved(tests=given), LATER)
    record = read_record(Location.of(tmp_path / "run"))
    assert record and record.sources == {"tests": Origin(source="a list", licence="mit")}


def ratings(folder: Path, *raters: str) -> str:
    """A file of one rating by each of these raters."""
    rows = [{"dimension": DIMENSION, "test_id": "t", "subject": "lab/a", "kind": "person", "score": 3} for _ in raters]
    lines = (json.dumps(row | {"rater": rater}) for row, rater in zip(rows, raters, strict=True))
    (folder / "ratings.jsonl").write_text("\n".join(lines))
    return str(folder / "ratings.jsonl")


def test_ratings_may_be_added_and_changed_once_a_run_has_begun(
    resolved: Resolve, started: Work, tmp_path: Path
) -> None:
    work = resolved(raters=[ratings(tmp_path, "Ada")])
    assert {shard.file for shard in work.shards()} == {shard.file for shard in started.shards()}
    write_record(work, LATER)
    before = read_record(work.run_path)
    write_record(resolved(raters=[ratings(tmp_path, "Ada", "Bob")]), LATER)
    after = read_record(work.run_path)
    assert before and after and before.sweep.raters == after.sweep.raters == work.sweep.raters
    name = f"raters {tmp_path / 'ratings.jsonl'}"
    assert before.hashes[name] != after.hashes[name]
    without = resolved()
    assert without.sweep.raters == ()
    write_record(without, LATER)
    last = read_record(work.run_path)
    assert last and last.hashes == {key: digest for key, digest in after.hashes.items() if key != name}


@pytest.mark.parametrize(
    ("rater", "says"),
    [
        ("lab/j", "the name 'lab/j' is taken"),
        ("panel", "the name 'panel' stands for all judges together"),
        ("lab-j-7810f0fa", "the name 'lab-j-7810f0fa' is taken"),
        ("Ada\u202e", r"row 1: rater: .*cannot be seen"),
    ],
)
def test_a_rater_must_not_pass_for_a_judge(resolved: Resolve, tmp_path: Path, rater: str, says: str) -> None:
    assert folder_name("lab/j") == "lab-j-7810f0fa"
    with pytest.raises(ConfigError, match=says):
        resolved(raters=[ratings(tmp_path, rater)])


def test_a_rater_must_not_pass_for_a_judge_of_earlier(resolved: Resolve, started: Work, tmp_path: Path) -> None:
    write_record(resolved(judges=["lab/j2"]), LATER)
    with pytest.raises(ConfigError, match="the name 'lab/j' is taken"):
        resolved(judges=["lab/j2"], raters=[ratings(tmp_path, "lab/j")])


def test_a_judge_must_not_take_the_name_of_a_rater(resolved: Resolve, started: Work) -> None:
    started.run.write(RaterView, RATERS, [RaterView("verdicts/ada/lab-a/encourage_learning.parquet", "ada", "")])
    assert resolved(judges=["lab/j2"]).run_id == started.run_id
    with pytest.raises(ConfigError, match="judges: 'ada' is a rater whose ratings are in"):
        resolved(judges=[{"model": "lab/j2", "name": "ada"}])


def test_subjects_judges_dimensions_and_samples_may_be_added_and_left_out(resolved: Resolve, started: Work) -> None:
    more = resolved(
        subjects=["lab/new", "lab/a", {"model": "lab/a", "name": "a-kind", "system": "Be kind."}],
        judges=["lab/j", "lab/j2"],
        dimensions=[DIMENSION, "defer_important_decisions"],
        samples=3,
    )
    write_record(more, LATER)
    record = read_record(more.run_path)
    assert record
    assert f"rubric {DIMENSION}" in record.hashes
    assert "rubric defer_important_decisions" in record.hashes
    resolved(subjects=["lab/new"], judges=["lab/j2"], dimensions=["defer_important_decisions"])


def test_settings_show_the_hashes_of_what_the_sweep_names_now(resolved: Resolve, tmp_path: Path) -> None:
    """The record keeps the others, because what returns must be the same."""
    paraphrases = tmp_path / "paraphrases.jsonl"
    seeds = given_tests(resolved())[DIMENSION]
    rows = ({"test_id": seed.id, "dimension": DIMENSION, "prompt": f"Please: {seed.prompt}"} for seed in seeds)
    paraphrases.write_text("\n".join(map(json.dumps, rows)))
    variants = {"subjects": [{"name": "asked", "tests": paraphrases}], "judges": [{"name": "r", "issues": "reversed"}]}
    write_record(resolved(variants=variants, dimensions=[DIMENSION, "defer_important_decisions"]), NOW)
    whole = open_run(tmp_path / "run")
    worded, asked = f"wording of lab/j (r): {DIMENSION}", "paraphrases of asked"
    assert {worded, asked, "judges: lab/j (r)", "subjects: lab/a (asked)"} < whole.settings().hashes.keys()
    assert whole.settings().hashes == whole.record.hashes
    write_record(resolved(subjects=["lab/a"], judges=["lab/j2"]), LATER)
    run = open_run(tmp_path / "run")
    assert whole.record.hashes.keys() < run.record.hashes.keys()
    of_work = {"prompts", "themes", "catalogue", "prices"}
    assert run.settings().hashes.keys() == {f"rubric {DIMENSION}", "subjects: lab/a", "judges: lab/j2", *of_work}


def test_a_run_of_an_earlier_version_goes_on_without_the_effort_that_it_did_not_send(
    resolved: Resolve, tmp_path: Path
) -> None:
    """Else its calls would have other keys, and be paid for again."""
    subject = {"model": "claude-sonnet-4-6", "name": "s", "params": {"effort": "low"}}
    write_record(resolved(subjects=[subject]), NOW)
    assert sent(resolved(subjects=[subject])) == "low"
    record = tmp_path / "run" / SWEEP
    record.write_text(record.read_text().replace("settings_version: 2\n", ""))
    again = resolved(subjects=[subject])
    write_record(again, LATER)
    assert sent(again) is None and sent(resolved(subjects=[subject])) is None
    (told,) = [p for p in preflight(again, {"ANTHROPIC_API_KEY": "x"}, NOW.date()) if "effort" in p.cause]
    assert "low is not sent on claude-sonnet-4-6 (this run sends the model none)" in told.cause


def sent(work: Work) -> str | None:
    """The effort in a subject's first call."""
    shard = next(shard for shard in work.shards() if shard.stage == "respond")
    stage = work.stage(shard)
    assert isinstance(stage, RespondStage)
    task = ResponseTask(given_tests(work)[DIMENSION][0], 0)
    (asked,) = (call for _, call in stage.requests([task]))
    return asked.params.effort


def test_samples_and_replicates_change_in_one_direction_at_a_time(resolved: Resolve) -> None:
    write_record(resolved(samples=2, replicates=2), NOW)
    resolved(samples=1, replicates=1)
    resolved(samples=4, replicates=2)
    resolved(samples=2, replicates=4)
    for samples, replicates in ((4, 1), (1, 4)):
        assert "samples, replicates: one is more" in refused(resolved, samples=samples, replicates=replicates)


def test_what_was_left_out_for_a_while_comes_back_as_it_was_or_not_at_all(
    resolved: Resolve, started: Work, rubrics: Path
) -> None:
    write_record(resolved(subjects=["lab/b"], dimensions=["defer_important_decisions"]), LATER)
    assert resolved(LATER).models["lab/alias"].as_of == "2026-11"
    changed = refused(resolved, subjects=[{"model": "lab/a", "system": "Be kind."}], dimensions=[DIMENSION])
    assert "subjects: lab/a has changed" in changed
    edit(rubrics / f"{DIMENSION}.yaml")
    assert f"rubric {DIMENSION}: its text has changed" in refused(resolved)


def test_another_url_limit_price_or_reading_of_cut_answers_is_fine(resolved: Resolve, started: Work) -> None:
    lab = provider(url="http://lab:2/v1", limits={"concurrent": 3}, price={"input": 9})
    work = resolved(providers={"lab": lab}, truncated="exclude", accept_substitutes=True)
    assert work.catalog.providers["lab"].url == "http://lab:2/v1"
    entry = work.models["lab/a"].entry
    assert entry.limits and entry.limits.concurrent == 3 and entry.price == UsdPrice(input=9)


def test_a_subject_of_a_provider_that_is_new_may_be_added(resolved: Resolve, started: Work) -> None:
    work = resolved(providers={"lab": provider(), "other": provider(url="http://other/v1")}, subjects=["other/b"])
    assert work.models["other/b"].entry.provider == "other"


def test_local_weights_are_pinned_by_content(resolved: Resolve, tmp_path: Path) -> None:
    weights = tmp_path / "tiny.gguf"
    weights.write_bytes(b"GGUF" + b"one")
    name = f"local/{weights}"
    work = resolved(subjects=[name])
    assert work.models[name].as_of == sha256(b"GGUFone").hexdigest()
    write_record(work, NOW)
    weights.write_bytes(b"GGUF" + b"other")
    assert f"model {name}: its weights have changed" in refused(resolved, subjects=[name])


def test_a_run_is_loaded_without_its_weights(resolved: Resolve, tmp_path: Path) -> None:
    weights = tmp_path / "tiny.gguf"
    weights.write_bytes(b"GGUF")
    work = resolved(subjects=[f"local/{weights}"])
    write_record(work, NOW)
    weights.unlink()
    assert load_work(work.run_path, NOW).models == work.models


@pytest.mark.parametrize(("data", "said"), [(b"GGML", "not a GGUF file"), (None, "there is no such file")])
def test_weights_that_are_none_are_named(data: bytes | None, said: str, resolved: Resolve, tmp_path: Path) -> None:
    path = tmp_path / "bad.gguf"
    if data:
        path.write_bytes(data)
    with pytest.raises(ConfigError, match=said) as told:
        resolved(subjects=[f"local/{path}"])
    assert str(path) in str(told.value)


def test_dimensions_come_sorted_and_all_means_all(resolved: Resolve) -> None:
    two = resolved(dimensions=["maintain_social_boundaries", DIMENSION, DIMENSION])
    assert list(two.rubrics) == [DIMENSION, "maintain_social_boundaries"]
    assert len(resolved(dimensions="all").rubrics) == 6


MAKING = {
    "tests": None,
    "generate": {"model": "lab/a", "candidates": 3},
    "validate": {"model": "lab/a", "keep": 3},
    "select": {"embedding": "lab/a", "tests": 1},
}


@pytest.mark.parametrize(
    ("without", "changes", "problem"),
    [
        ("generation", {"tests": "seeds"}, "tests: the rubric of encourage_learning has no `generation` section"),
        ("generation", MAKING, "generate: the rubric of encourage_learning has no `generation` section"),
        ("validation", MAKING, "generate: the rubric of encourage_learning has no `validation` section"),
        ("validation", {**MAKING, "validate": "off"}, None),
        ("validation", {"tests": "seeds"}, None),
    ],
)
def test_a_sweep_that_needs_a_section_that_is_not_there_is_refused(
    without: str, changes: dict[str, Any], problem: str | None, resolved: Resolve, rubrics: Path
) -> None:
    rewrite(rubrics, lambda content: content.pop(without))
    if problem is None:
        assert resolved(**changes).rubrics[DIMENSION].criteria == ()
        return
    with pytest.raises(ConfigError, match=problem + ", which this sweep needs: write it, give tests of your own"):
        resolved(**changes)


def test_a_dimension_without_seeds_is_asked_from_given_tests(resolved: Resolve, rubrics: Path, tmp_path: Path) -> None:
    rewrite(rubrics, lambda content: [content.pop("generation"), content.pop("validation")])
    tests = tmp_path / "tests.jsonl"
    tests.write_text('{"dimension": "encourage_learning", "prompt": "How?"}\n')
    work = resolved(tests=str(tests))
    assert [test.prompt for test in given_tests(work)[DIMENSION]] == ["How?"]


def test_a_run_keeps_the_built_in_rubrics_and_themes_it_started_with(resolved: Resolve, tmp_path: Path) -> None:
    """Also where it is only read: its letters stand for what they stood for."""
    work = resolved(rubrics=None)
    write_record(work, NOW)
    earlier = yaml.safe_load((RUBRICS / "versions" / "1" / f"{DIMENSION}.yaml").read_text())
    then = Rubric.model_validate(earlier).sha256
    file = tmp_path / "run" / SWEEP
    record = yaml.safe_load(file.read_text())
    assert record["hashes"][f"rubric {DIMENSION}"] != then
    record["hashes"] |= {f"rubric {DIMENSION}": then, "themes": THEMES_1}
    file.write_text(yaml.safe_dump(record))
    again = resolved(LATER, rubrics=None)
    assert again.rubrics[DIMENSION].sha256 == then and again.themes[0] == "beekeeping on a city roof"
    assert open_run(tmp_path / "run").rubrics[DIMENSION].sha256 == then
    assert load_work(Location.of(tmp_path / "run"), LATER).rubrics[DIMENSION].sha256 == then
