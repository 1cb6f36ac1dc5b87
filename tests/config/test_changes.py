from __future__ import annotations

from hab_ray.config.changes import differences
from hab_ray.config.sections import Select

FIFTY = Select(embedding="vectors", tests=50)


def test_each_value_that_differs_is_named_with_both() -> None:
    sixty = FIFTY.model_copy(update={"tests": 60, "components": 20, "mode": "batch"})
    assert list(differences("select", FIFTY, sixty)) == [
        "select.tests: 50 before, 60 now",
        "select.components: 50 before, 20 now",
    ]
    assert list(differences("select", FIFTY, FIFTY)) == []


def test_a_section_that_is_new_is_shown_as_it_was_given() -> None:
    assert list(differences("select", None, FIFTY)) == ["select: none before, {embedding: vectors, tests: 50} now"]
    (line,) = differences("tests", "seeds", "x" * 500)
    assert line.startswith("tests: seeds before, xxx") and len(line) < 150
