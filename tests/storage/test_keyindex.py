"""The index of keys: what was added is found at its newest place, whatever the order and number of files."""

from __future__ import annotations

from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st

from hab_ray.storage.keyindex import KeyIndex, KeySet, Place


def key(number: int) -> str:
    """A key; number 0 ends in zero bytes, which fixed-width texts lose."""
    return "11" + "00" * 31 if number == 0 else sha256(str(number).encode()).hexdigest()


@given(st.lists(st.lists(st.integers(0, 60), max_size=30, unique=True), max_size=12))
def test_the_newest_place_of_every_key_is_found(files: list[list[int]]) -> None:
    index = KeyIndex()
    expected: dict[str, Place] = {}
    for number, rows in enumerate(files):
        keys = [key(n) for n in rows]
        index.add(keys, number)
        expected |= {k: Place(number, row) for row, k in enumerate(keys)}
    asked = [key(n) for n in range(70)]
    assert index.places(asked) == expected
    assert set(index) == expected.keys()
    index.clear()
    assert index.places(asked) == {} and set(index) == set()


@given(st.sets(st.integers(0, 40)), st.lists(st.integers(0, 50), unique=True))
def test_a_set_knows_its_members(members: set[int], asked: list[int]) -> None:
    found = KeySet([key(n) for n in members]).common([key(n) for n in asked])
    assert found == [key(n) for n in asked if n in members]
