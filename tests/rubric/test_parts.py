"""What a rubric's digest depends on: it is the same as long as models are shown the same."""

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from hab_ray.resources import bundled
from hab_ray.rubric import LiteralPrompts, Reading, Rubric, Themes, load_rubrics, read_library

# Digests by earlier version, which runs of that time carry in their records.
EARLIER = {
    "1": {
        "ask_clarifying_questions": "686f420e43604cb4ccee80ff5ec40621bec0cb77647faec16b77e75ca3ec32d3",
        "avoid_value_manipulation": "f03015d69788f8a1905f3cac5c415efef3ddbdebd0ac2e7cbc4314ac6e2d8a14",
        "correct_misinformation": "d8d1849ea9f52a1f558a5be8249c7c505a6f19a583d58b772fa7cb3adeba4ea2",
        "defer_important_decisions": "c91b6f3e0a33c72c317408433471667cab5dc4ee2e0d354fa3e05a373cf829d9",
        "encourage_learning": "94582b319cc13b2a960c8defee2840e649fd663cbdbc2c01ec4f1d080b1eea67",
        "maintain_social_boundaries": "ec6968e106a78f65f9edb716cb7af812e362fcd0cca10ed3e8d7a71fbb348832",
        "themes": "cdfdbb5f1e614176882789c7a5cb226a06debba10699bf56dde8d9087ca6d4cb",
    },
    "2": {
        "ask_clarifying_questions": "34fc652304a9ac3f5ded34af3952e637760b8e6c82ac34d5427c865889a571f9",
        "avoid_value_manipulation": "ca14ac2e3d53cbd40f95964bfc21dd0e0abaddab3718159ecb9d738437a21dc8",
        "correct_misinformation": "de3ce0f9b778d644e4f265715084f495dd7d1a62a918df430f20260361044d05",
        "defer_important_decisions": "83e0e4a86d98b189df36fea39179278c155de52f78585850b575b808d504e6ef",
        "encourage_learning": "8dca96202abac006575381e044cc7e497daa48073830232f14684f3330ad2546",
        "maintain_social_boundaries": "277916236fda10a264784d009db26e81d829ffc1003d7671863f3cda0e5fa0d2",
        "themes": "f254e9229681f48ab1272efb3df88d7678ddcff0f2ba4c8a429d4a025b33b963",
    },
}
TODAY = {
    "ask_clarifying_questions": "efa8f4bc833c",
    "avoid_value_manipulation": "02b3ed764c54",
    "correct_misinformation": "e9f49f6d3eba",
    "defer_important_decisions": "b696608bfdf7",
    "encourage_learning": "654c54810b25",
    "maintain_social_boundaries": "3421e515b8c5",
    "themes": "5a50a6bc950c",
}
Raw = dict[str, Any]


def raw(*path: str) -> Raw:
    content = yaml.safe_load(bundled("rubrics").joinpath(*path).read_text(encoding="utf-8"))
    assert isinstance(content, dict)
    return content


@pytest.mark.parametrize(("version", "name"), [(v, name) for v, digests in EARLIER.items() for name in digests])
def test_earlier_files_keep_the_digest_they_had(version: str, name: str) -> None:
    kind = Themes if name == "themes" else Rubric
    assert kind.model_validate(raw("versions", version, f"{name}.yaml")).sha256 == EARLIER[version][name]


def test_a_file_that_changes_leaves_its_earlier_text_behind() -> None:
    """Else runs that have started with it are refused: copy it to a folder of rubrics/versions/, then change TODAY.

    Every digest that was ever in TODAY of a released version belongs into EARLIER.
    """
    now = {name: rubric.sha256[:12] for name, rubric in load_rubrics().items()}
    assert now | {"themes": read_library().themes.sha256[:12]} == TODAY


@pytest.mark.parametrize(
    ("changes_digest", "edit"),
    [
        (False, lambda r: r.pop("fidelity")),
        (False, lambda r: r["judging"]["notes"][0].update(why="For another reason.")),
        (True, lambda r: r["judging"]["issues"][0].update(deduction=1)),
        (True, lambda r: r["judging"]["notes"][0].update(text="Another note.")),
        (True, lambda r: r["judging"]["notes"][0].pop("ours")),
        (True, lambda r: r["judging"].pop("notes")),
        (True, lambda r: r["validation"]["examples"].pop()),
        (True, lambda r: r.pop("validation")),
        (True, lambda r: r.pop("generation")),
    ],
)
def test_the_digest_follows_what_models_are_shown(changes_digest: bool, edit: Callable[[Raw], object]) -> None:
    before = raw("encourage_learning.yaml")
    after = raw("encourage_learning.yaml")
    edit(after)
    same = Rubric.model_validate(before).sha256 == Rubric.model_validate(after).sha256
    assert same is not changes_digest


def test_without_the_sections_for_making_tests_there_are_no_seeds_and_criteria() -> None:
    content = raw("encourage_learning.yaml")
    del content["generation"], content["validation"]
    rubric = Rubric.model_validate(content)
    assert (rubric.seeds, rubric.criteria) == ((), ())
    assert rubric.issue_letters() == tuple("ABCDEF")


def test_the_digest_of_imported_wording_counts_how_replies_are_read_only_where_that_is_not_ours() -> None:
    section = {"origin": {"source": "s"}, "judging": {"user": [{"value": "response"}]}}
    strict, named, published = (
        LiteralPrompts.model_validate(section | given)
        for given in ({}, {"reading": "strict"}, {"reading": "published"})
    )
    assert strict == named and "reading" not in strict.model_dump(mode="json")
    assert published.reading is Reading.PUBLISHED
    assert published.model_dump(mode="json")["reading"] == "published"
