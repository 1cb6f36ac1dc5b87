"""A doctor's file holds none of the secrets that come back from vendors in replies, addresses, headers and errors."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from aiohttp import web

from hab_ray.doctor.recording import write_exchanges
from hab_ray.doctor.tap import tapping
from hab_ray.errors import CallError
from hab_ray.providers import connect
from hab_ray.providers.base import Endpoint, Wire
from hab_simulator.sending import serving

KEY = 'sk-own+Key/Zx81 "&Qw72=='
TEAM = "team/Secret+Rt63<Yu54>"
CORES = ("Zx81", "Qw72", "Rt63", "Yu54")
SPELLINGS: tuple[Callable[[str], str], ...] = (
    str,
    lambda secret: json.dumps(secret)[1:-1],
    lambda secret: json.dumps(json.dumps(secret))[3:-3],
    lambda secret: quote(secret, safe=""),
    lambda secret: quote(quote(secret, safe=""), safe=""),
    lambda secret: b64encode(f"user:{secret}".encode()).decode(),
    lambda secret: "".join(f"&#{ord(char)};" if not char.isalnum() else char for char in secret),
)
OTHERS = (
    "Bearer oth3rS3cr3t-{n}aa",
    "sk-proj-oth3rS3cr3t{n}aa",
    "AIzaoth3rS3cr3t{n}aaaaaaaa",
    "eyJoth3rS3cr3t{n}.eyJxoth3rS3cr3t.c2lnbmF0dXJl",
    "https://user:oth3rS3cr3t{n}@gateway/v1",
    "session_token=oth3rS3cr3t{n}",
    "github_pat_oth3rS3cr3t{n}aaaa",
)


def planted() -> list[str]:
    """Own secrets in every spelling, and texts that hold somebody else's."""
    own = [spell(secret) for secret in (KEY, TEAM) for spell in SPELLINGS]
    return own + [text.format(n=n) for n, text in enumerate(OTHERS)]


async def test_forty_planted_secrets_are_in_no_file(tmp_path: Path) -> None:
    secrets = planted()
    count = 0

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal count
        await request.read()
        secret = secrets[count // 2]
        in_error = count % 2 == 1
        count += 1
        headers = {"Set-Cookie": f"sid={quote(secret)}", "X-Backend": quote(secret), "X-RateLimit-Note": quote(secret)}
        body = {"id": "r", "echo": secret, "error": {"message": f"refused: {secret}"} if in_error else None}
        return web.json_response(body, status=400 if in_error else 200, headers=headers)

    async with serving(handle) as url, tapping() as tap:
        endpoint = Endpoint("lab", "google", f"{url}/v1", KEY, 5.0, {"X-Team": TEAM})
        provider = connect(replace(endpoint, url=tap.address("question", "x/lab", endpoint)))
        for secret in secrets:
            for _ in range(2):
                path = f"/models/m:generateContent?key={quote(secret, safe='')}&alt=json"
                try:
                    await provider.send(Wire(path, {"contents": [secret], "api_key": secret}))
                except CallError as error:
                    assert not any(core in str(error) for core in CORES)
        await provider.close()
        exchanges = tap.exchanges
    file = tmp_path / "doctor.jsonl"
    write_exchanges(file, {"sweep": "secrets"}, exchanges)
    assert len(exchanges) == 2 * len(secrets) > 40
    text = file.read_text()
    found = [word for word in (*CORES, "oth3rS3cr3t") if word in text]
    assert found == []
    assert not any(spell(secret) in text for secret in (KEY, TEAM) for spell in SPELLINGS)
    assert "/models/m:generateContent" in text and "[secret]" in text
