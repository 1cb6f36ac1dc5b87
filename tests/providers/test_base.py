"""Endpoints and the packing of embedding lists."""

from __future__ import annotations

import json
import subprocess
import sys
from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st

from hab_ray.calls import EmbedCall
from hab_ray.providers.base import Endpoint, ListLimits, Wire
from tests.providers.conftest import KEY

TEXTS = ["plain", "\x7f", "don\u2019t \u2014 \u6f22 \U0001f600", "\\u2019", "\n\t\x00"]


def calls(texts: list[str]) -> list[EmbedCall]:
    return [EmbedCall("p", "m", None, text) for text in texts]


@given(st.lists(st.text(max_size=30), max_size=30), st.integers(1, 6), st.integers(1, 60))
def test_lists_keep_order_and_limits(texts: list[str], most: int, size: int) -> None:
    packed = list(ListLimits(most, size).packed(calls(texts)))
    assert [call.text for taken in packed for call in taken] == texts
    for taken in packed:
        assert 1 <= len(taken) <= most
        assert len(taken) == 1 or sum(len(call.text.encode()) for call in taken) <= size


@given(st.one_of(st.text(), st.sampled_from(TEXTS)))
def test_size_and_hash(text: str) -> None:
    """The hash is that of escaped JSON with sorted keys, as in stored replies; the size is that of UTF-8 JSON."""
    body = {"z": [{"content": text}], text: 0.5, "model": "m"}
    wire = Wire("/path", body)
    assert wire.sha256 == sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    assert wire.utf8_bytes == len(json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode())


def test_lists_are_as_long_as_they_may_be() -> None:
    packed = ListLimits(3, 8).packed(calls(["ab", "cd", "ef", "gh", "ijklmnop", "q", "ééééé"]))
    assert [[call.text for call in taken] for taken in packed] == [
        ["ab", "cd", "ef"],
        ["gh"],
        ["ijklmnop"],
        ["q"],
        ["ééééé"],
    ]


def test_a_key_is_hidden_and_a_local_placeholder_is_not_hunted() -> None:
    endpoint = Endpoint("p", "openai", "http://h", KEY, 1.0)
    assert KEY not in repr(endpoint)
    assert endpoint.without_key(f"bad key {KEY}!") == "bad key [key]!"
    assert Endpoint("p", "openai", "http://h", "none", 1.0).without_key("none left") == "none left"
    assert Endpoint("p", "openai", "http://h", "", 1.0).without_key("abc") == "abc"


def test_importing_the_package_imports_no_sdk() -> None:
    code = (
        "import sys, hab_ray.providers, hab_ray.providers.openai.errors, hab_ray.providers.google.chat;"
        "print([name for name in ('openai', 'anthropic', 'google.genai', 'ray') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
