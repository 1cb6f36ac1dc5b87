"""What is written to a file of exchanges holds no secret: not ours in any spelling, and none that looks like one."""

import json
from base64 import b64encode
from time import process_time
from urllib.parse import quote

import pytest

from hab_ray.providers.redaction import MASK, Redactor
from tests.hostile import SPELLINGS

KEY = "sk-live+Zq9/8Jd&=4hTnW2"
HEADER = 'team token "7Kx" pL0vR5'


@pytest.mark.parametrize(
    "text",
    [
        *(f"Incorrect key: {spelt(secret)}." for secret in (KEY, HEADER) for spelt in SPELLINGS.values()),
        KEY.replace("&", "&amp;").replace("+", "&#43;"),
        *(b64encode(f"{before}{KEY}zz".encode()).decode() for before in ("user:", "xy", "abc")),
    ],
)
def test_an_accounts_own_secrets_are_masked_in_every_spelling(text: str) -> None:
    shown = Redactor([KEY, HEADER]).text(text)
    assert shown != text and not any(part in shown for part in ("Zq9", "8Jd", "4hTnW2", "7Kx", "pL0vR5"))


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Authorization: Bearer abc.DEF-1234567", "DEF-1234567"),
        ('{"access_token": "q1w2e3r4t5"}', "q1w2e3r4t5"),
        ('{"detail": "token=q1w2e3r4t5 expired"}', "q1w2e3r4t5"),
        ('{\\"api_key\\": \\"q1w2e3r4t5\\"}', "q1w2e3r4t5"),
        ("https://ann:hunter2horse@proxy.local/v1", "hunter2horse"),
        ("the key AIzaSyA1234567890abcdefghij is restricted", "AIzaSyA1234567890"),
        ("Set-Cookie: __cf_bm=Wq12345abcdef; path=/", "Wq12345abcdef"),
        ("eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSM", "SflKxwRJSM"),
        ("-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANB\n-----END PRIVATE KEY-----", "MIIEvQIBADANB"),
        ("AKIAIOSFODNN7EXAMPLE", "IOSFODNN7"),
        ("github_pat_11ABCDEFG0abcdefgh", "11ABCDEFG0"),
        ("X-Amz-Signature=0f1e2d3c4b5a&x=1", "0f1e2d3c4b5a"),
    ],
)
def test_what_looks_like_somebodys_secret_is_masked(text: str, secret: str) -> None:
    shown = Redactor([]).text(text)
    assert secret not in shown and MASK in shown


@pytest.mark.parametrize(
    "text",
    [
        '{"usage": {"prompt_tokens": 12, "total_tokens": 30}, "max_tokens": 1000}',
        '{"key": "eb683d0b773ae56da65ad083f0abb6ac", "custom_id": "eb683d0b773a"}',
        "The lock has a key, and the token of my esteem is a cookie.",
        '{"model": "gpt-4.1", "content": "Basic facts: tokens are words"}',
    ],
)
def test_what_holds_no_secret_stays(text: str) -> None:
    assert Redactor([KEY]).text(text) == text


def test_json_stays_json_of_the_same_shape() -> None:
    before = {"a": {"api_key": KEY, "n": 1}, "message": f'say "{KEY}"', "cookie": "x" * 30, "token": ""}
    after = json.loads(Redactor([KEY]).text(json.dumps(before)))
    assert after["a"]["n"] == 1 and after["a"].keys() == before["a"].keys() and after.keys() == before.keys()  # type: ignore[attr-defined]


def test_headers_and_addresses_show_what_is_known_to_be_harmless() -> None:
    redactor = Redactor([KEY])
    shown = redactor.headers({"X-Team": "blue-7731", "Content-Type": "application/json", "Retry-After": "7"})
    assert shown == {"x-team": MASK, "content-type": "application/json", "retry-after": "7"}
    assert redactor.path(f"https://h/v1/files?upload_id=u123&limit=2&key={quote(KEY)}") == (
        f"/v1/files?upload_id={MASK}&limit=2&key={MASK}"
    )


@pytest.mark.parametrize(
    "text",
    ["x" * 20_000, "x-" * 10_000, "secret" * 3_000, "\\" * 20_000, '"key":"' + "\\" * 40],
    ids=["word", "dashes", "names", "backslashes", "an open value"],
)
def test_long_and_hostile_texts_are_read_at_once(text: str) -> None:
    started = process_time()
    assert Redactor([]).text(text) == text
    assert process_time() - started < 0.5
