from hab_ray.config.changes import Change, changes
from hab_ray.config.sections import Select

FIFTY = Select(embedding="vectors", tests=50)


def test_each_value_that_differs_is_named_with_both() -> None:
    sixty = FIFTY.model_copy(update={"tests": 60, "components": 20, "mode": "batch"})
    assert list(map(str, changes("select", FIFTY, sixty))) == [
        "select.tests: 50 before, 60 now",
        "select.components: 50 before, 20 now",
    ]
    assert list(changes("select", FIFTY, FIFTY)) == []


def test_a_section_that_is_new_is_shown_as_it_was_given() -> None:
    (line,) = map(str, changes("select", None, FIFTY))
    assert line == "select: none before, {embedding: vectors, tests: 50} now"
    (line,) = map(str, changes("tests", "seeds", "x" * 500))
    assert line.startswith("tests: seeds before, xxx") and len(line) < 150


def test_a_changed_word_of_a_long_text_is_shown() -> None:
    text = "Long before it. " * 10
    (change,) = changes("definition", f"{text}It may be wrong.", f"{text}It might be wrong.")
    assert (change.before, change.now) == ("...before it. It may be wrong.", "...before it. It might be wrong.")


def test_an_item_of_a_list_is_named_by_its_letter_or_number() -> None:
    before = tuple({"letter": letter, "deduction": 4} for letter in "AB")
    now = (before[0], {"letter": "B", "deduction": 5})
    assert list(changes("issues", before, now)) == [Change("issues.B.deduction", "4", "5")]
    assert list(changes("seeds", ("a", "b"), ("a", "c"))) == [Change("seeds.2", "b", "c")]
