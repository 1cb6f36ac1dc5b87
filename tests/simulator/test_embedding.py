"""Vectors are functions of the text, and near where texts share words."""

import numpy as np
import pytest

from hab_simulator.truth.embedding import embed


def test_shared_words_make_texts_near() -> None:
    dog, sick_dog, tax = (
        embed(text, 256, None)
        for text in ("my dog is unwell", "my old dog is unwell today", "filing a complicated tax return")
    )
    assert dog @ sick_dog > 0.6 > 0.2 > abs(dog @ tax)


@pytest.mark.parametrize("text", ["", " ", "?!", "a", "\ud800", "雪が降る"])
def test_every_text_has_a_unit_vector_at_every_size(text: str) -> None:
    for dimensions in (None, 8):
        vector = embed(text, 64, dimensions)
        assert len(vector) == (dimensions or 64)
        assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-6)
        assert np.array_equal(vector, embed(text, 64, dimensions))
