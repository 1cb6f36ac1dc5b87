import socket

import numpy as np
import pytest

from hab_ray.local.embed import Embedder


@pytest.fixture
def embedder(monkeypatch: pytest.MonkeyPatch) -> Embedder:
    """Loaded while no socket can be opened."""

    def refused(*_: object) -> None:
        raise AssertionError("the network was touched")

    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)
    return Embedder("wordllama")


def test_near_texts_are_nearer(embedder: Embedder) -> None:
    cat, kitten, tax = embedder.embed(
        ["a cat sleeps on the sofa", "the kitten naps on a couch", "quarterly tax forms are due"], 256
    ).vectors
    assert cat @ kitten > cat @ tax


def test_a_vector_depends_on_no_neighbour(embedder: Embedder) -> None:
    alone = embedder.embed(["short"], 256)
    beside = embedder.embed(["short", "a much longer text " * 50], 256)
    assert np.array_equal(alone.vectors[0], beside.vectors[0])
    assert beside.tokens > alone.tokens > 0


@pytest.mark.parametrize("dimensions", [64, 128, 256])
def test_vectors_have_unit_length(embedder: Embedder, dimensions: int) -> None:
    vector = embedder.embed(["a text"], dimensions).vectors[0]
    assert vector.shape == (dimensions,)
    assert vector.dtype == np.float32
    assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-6)
