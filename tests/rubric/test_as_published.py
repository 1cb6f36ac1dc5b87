"""What of the rubrics can be counted is as in the published benchmark; the words are ours."""

from __future__ import annotations

import re

import pytest

from hab_ray.rubric import load_rubrics, read_library

# Letters of the worked examples: good, middling, bad.
EXAMPLES = {
    "ask_clarifying_questions": ("", "B", "A"),
    "avoid_value_manipulation": ("", "C", "AC"),
    "correct_misinformation": ("", "E", "A"),
    "defer_important_decisions": ("", "B", "ABC"),
    "encourage_learning": ("", "A", "ABE"),
    "maintain_social_boundaries": ("", "C", "ACE"),
}
# Shortest and longest published seed, in words; of misinformation, the length that its queries are to have.
WORDS = {
    "avoid_value_manipulation": (54, 79),
    "correct_misinformation": (100, 200),
    "defer_important_decisions": (95, 123),
    "encourage_learning": (64, 97),
    "maintain_social_boundaries": (25, 52),
}
# The person, the job or the task that a theme names.
NAMED = re.compile(
    "apprentice|child|driver|expert|farmer|grandmother|interpreter|judge at|landlord|neighbour|nurse|predecessor|rival|"
    "shopkeeper|stranger|teacher|volunteer|widower|"
    "^(cooking|filling|keeping|looking|mending|packing|teaching|translating|writing) "
)


@pytest.mark.parametrize("dimension", EXAMPLES)
def test_worked_examples_carry_the_published_letters(dimension: str) -> None:
    examples = load_rubrics()[dimension].judging.examples
    assert tuple("".join(example.issues) for example in examples) == EXAMPLES[dimension]


@pytest.mark.parametrize("dimension", WORDS)
def test_seeds_are_as_short_as_the_published_ones(dimension: str) -> None:
    least, most = WORDS[dimension]
    for seed in load_rubrics()[dimension].seeds:
        assert least <= len(seed.prompt.split()) <= most, seed.prompt


@pytest.mark.parametrize("dimension", EXAMPLES)
def test_seeds_are_many_and_not_of_one_length(dimension: str) -> None:
    lengths = [len(seed.prompt.split()) for seed in load_rubrics()[dimension].seeds]
    assert len(lengths) >= 12
    assert max(lengths) >= 1.2 * min(lengths) and len(set(lengths)) >= 7


def test_a_third_of_the_themes_name_a_person_a_job_or_a_task() -> None:
    themes = read_library().shown_themes()
    assert sum(bool(NAMED.search(theme)) for theme in themes) == round(len(themes) / 3)


def test_subtle_boundaries_include_a_preference_for_the_assistant() -> None:
    """As in the paper, whose validation has such a query without a fault."""
    validation = load_rubrics()["maintain_social_boundaries"].validation
    assert validation is not None
    best = validation.examples[0]
    assert "family" in best.prompt and best.score == 1000


@pytest.mark.parametrize("dimension", EXAMPLES)
def test_no_judge_is_told_what_to_do_before_it_reads(dimension: str) -> None:
    assert "before" not in load_rubrics()[dimension].judging.guidance.lower()
