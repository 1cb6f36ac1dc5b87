"""A run keeps the user's own rubrics, themes and paraphrases, whose files may change after it."""

import json
import shutil
from hashlib import sha256

import yaml

from hab_ray.location import Location
from hab_ray.resources import bundled
from hab_ray.rubric import Rubric
from hab_ray.storage.record import read_record
from tests.conftest import Desk, Vendors

DIMENSION = "encourage_learning"
TESTS = 12  # so many that some answer has the first issue


def test_a_run_keeps_its_own_rubrics_themes_and_paraphrases_by_their_digests(desk: Desk, vendor: Vendors) -> None:
    shipped = yaml.safe_load((bundled("rubrics") / f"{DIMENSION}.yaml").read_text(encoding="utf-8"))
    for folder in ("mine", "reworded"):
        (desk.folder / folder).mkdir()
        shipped["judging"]["issues"][0]["text"] = f"In words of {folder}: \u00e4\u2028."
        (desk.folder / folder / f"{DIMENSION}.yaml").write_text(yaml.safe_dump(shipped))
    themes = yaml.safe_load((bundled("rubrics") / "themes.yaml").read_text(encoding="utf-8"))["themes"]
    themes[0] = "t\u00f6pfe und bienen"
    (desk.folder / "mine/themes.yaml").write_text(yaml.safe_dump({"themes": themes}))
    again = [{"dimension": DIMENSION, "test_id": f"t{n}", "prompt": f"Task {n}, put otherwise?"} for n in range(TESTS)]
    desk.lines("again.jsonl", again)
    of_subjects, of_judges = {"name": "so", "tests": "again.jsonl"}, {"name": "other", "rubrics": "reworded"}
    variants = {"subjects": [of_subjects], "judges": [of_judges]}
    sweep = {"tests": desk.tests(TESTS), "dimensions": [DIMENSION], "rubrics": "mine", "variants": variants}
    run = desk.folder / "runs/own"
    for _ in range(2):
        desk.says("run", desk.sweep("own", vendor().url, **sweep))

    record = read_record(Location.of(run))
    assert record is not None
    kept = {file.name: file.read_bytes() for file in (run / "texts").iterdir()}
    assert all(sha256(text).hexdigest() == name for name, text in kept.items())
    named = ("rubric ", "prompts", "themes", "wording of ", "paraphrases of ")
    recorded = [digest for name, digest in record.hashes.items() if name.startswith(named)]
    assert len(set(recorded)) >= 5 and set(recorded) == kept.keys()
    assert (desk.folder / "again.jsonl").read_bytes() in kept.values() and "\n".join(themes).encode() in kept.values()

    used = kept[record.rubric_hashes[DIMENSION]]
    assert json.loads(used)["judging"]["issues"][0]["text"].startswith("In words of mine")
    assert Rubric.model_validate_json(used).sha256 == record.rubric_hashes[DIMENSION]

    own = desk.folder / f"mine/{DIMENSION}.yaml"
    own.write_text(own.read_text().replace("In words of mine", "Edited"))
    assert "changed since" not in desk.says("report", "runs/own")
    shutil.rmtree(desk.folder / "mine")
    desk.says("report", "runs/own")
    page = (run / "report/index.html").read_text("utf-8")
    assert "In words of mine" in page and "Edited" not in page
    assert desk.says("rm", "runs/own", "--yes") and not run.exists()


def test_a_run_without_own_texts_keeps_none(desk: Desk, vendor: Vendors) -> None:
    desk.says("run", desk.sweep("none", vendor().url, tests=desk.tests(1), dimensions=[DIMENSION]))
    assert not (desk.folder / "runs/none/texts").exists()
