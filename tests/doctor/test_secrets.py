"""A doctor's file holds none of the secrets that come back from vendors in replies, addresses, headers and errors."""

from base64 import b64encode
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from aiohttp import web

from hab_ray.doctor.tap import tapping, write_exchanges
from hab_ray.errors import CallError
from hab_ray.providers import connect
from hab_ray.providers.base import Endpoint, Wire
from hab_simulator.sending import serving
from tests.hostile import SPELLINGS

KEY = 'sk-own+Key/Zx81 "&Qw72=='
TEAM = "team/Secret+Rt63<Yu54>"
CORES = ("Zx81", "Qw72", "Rt63", "Yu54")
OWN = [
    *(spelt(secret) for secret in (KEY, TEAM) for spelt in SPELLINGS.values()),
    *(b64encode(f"user:{secret}".encode()).decode() for secret in (KEY, TEAM)),
]
OTHERS = (
    "Bearer oth3rS3cr3t-{n}aa",
    "sk-proj-oth3rS3cr3t{n}aa",
    "AIzaoth3rS3cr3t{n}aaaaaaaa",
    "eyJoth3rS3cr3t{n}.eyJxoth3rS3cr3t.c2lnbmF0dXJl",
    "https://user:oth3rS3cr3t{n}@gateway/v1",
    "session_token=oth3rS3cr3t{n}",
    "github_pat_oth3rS3cr3t{n}aaaa",
)


async def test_forty_planted_secrets_are_in_no_file(tmp_path: Path) -> None:
    secrets = OWN + [text.format(n=n) for n, text in enumerate(OTHERS)]
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
    assert [word for word in (*CORES, "oth3rS3cr3t", *OWN) if word in text] == []
    assert "/models/m:generateContent" in text and "[secret]" in text
