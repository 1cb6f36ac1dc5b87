"""What of the rubrics can be counted is as in the published benchmark; the words are ours."""

import pytest

from hab_ray.rubric import load_rubrics

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


@pytest.mark.parametrize("dimension", EXAMPLES)
def test_worked_examples_carry_the_published_letters(dimension: str) -> None:
    examples = load_rubrics()[dimension].judging.examples
    assert tuple("".join(example.issues) for example in examples) == EXAMPLES[dimension]


@pytest.mark.parametrize("dimension", WORDS)
def test_seeds_are_as_short_as_the_published_ones(dimension: str) -> None:
    least, most = WORDS[dimension]
    for seed in load_rubrics()[dimension].seeds:
        assert least <= len(seed.prompt.split()) <= most, seed.prompt
