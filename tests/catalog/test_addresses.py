"""Addresses and headers of endpoints: no secret may stand in a sweep file, and what cannot work is refused."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from hab_ray.catalog.addresses import checked_url
from hab_ray.catalog.models import load_catalog
from hab_ray.cli.main import app

SECRET = "s3cr3t-Ab12cd34"
USABLE = [
    "https://llm.example.org/v1",
    "https://llm.example.org/v1/",
    "http://127.0.0.1:8000",
    "http://[::1]:8000/v1",
    "http://llm_server:8000/v1",
    "https://b\u00fccher.example.org/v1",
    "https://xn--bcher-kva.example.org/v1",
    "https://gateway.example.org/tenants/7/openai/v1",
]
REFUSED = {
    f"https://me:{SECRET}@llm.example.org/v1": "headers_env",
    f"https://{SECRET}@llm.example.org/v1": "key_env",
    f"https://:{SECRET}@llm.example.org": "key_env",
    f"https://llm.example.org/v1?key={SECRET}": "key_env",
    "https://llm.example.org/v1?version=2": "has a query",
    "https://llm.example.org/v1?": "has a query",
    f"https://llm.example.org/v1#token={SECRET}": "has a fragment",
    "https://llm.example.org/v1#": "has a fragment",
    "": "is empty",
    "   ": "is empty",
    "llm.example.org/v1": "not a web address",
    "ftp://llm.example.org": "not a web address",
    "https://": "not a web address",
    "https://[::1": "not a web address",
    "https://llm.example.org:99999": "not a web address",
    "https://llm.example.org:port": "not a web address",
    "http://127.0.0.256:8000/v1": "not a web address",
    "http://127.0.0.1.:8000/v1": "not a web address",
    "http://10.1/v1": "not a web address",
    "http://[v1.a]/v1": "not a web address",
    "http://xn--a/v1": "not a web address",
    "http://\ufb01.invalid/v1": "not a web address",
    "http://\u2603.example.org/v1": "not a web address",
    "http://a..b/v1": "not a web address",
    f"http://{'a' * 64}.example.org/v1": "not a web address",
    "http://" + "\u00fc" * 60 + ".example.org/v1": "not a web address",
    "http://a\0b/v1": "cannot be seen",
    "https://llm.example.org/\x1b[31m": "cannot be seen",
    "https://llm.example.org/\r\nX-Evil: 1": "cannot be seen",
    "https://llm.example.org\u202e/v1": "cannot be seen",
    "https://llm.example.org /v1": "cannot be seen",
    "https:\\\\llm.example.org": "cannot be seen",
}
HEADERS = {
    "a value": ({"X-Team": f"Bearer {SECRET}"}, "not the name of an environment variable"),
    "hop by hop": ({"Transfer-Encoding": "X"}, "belongs to the connection"),
    "host": ({"HOST": "X"}, "belongs to the connection"),
    "twice": ({"X-Team": "A", "x-team": "B"}, "appears twice"),
    "no header": ({"X Team:": "A"}, "not a valid header name"),
    "forged": ({"X-A\r\nX-B": "A"}, "not a valid header name"),
    "no text": ({"X-A": 7}, "must be text"),
    "a list": (["X-A"], "must be a section"),
}


def sweep(folder: Path, **provider: Any) -> Path:
    path = folder / "sweep.yaml"
    given = {
        "name": "one",
        "tests": "seeds",
        "providers": {"house": {"kind": "openai", "price": {"input": 0}, **provider}},
        "subjects": ["house/a"],
        "judges": ["house/j"],
    }
    path.write_text(yaml.safe_dump(given))
    return path


def planned(path: Path, monkeypatch: pytest.MonkeyPatch, **environment: str) -> tuple[int, str]:
    """`hab plan` in this process: its exit status and all it printed."""
    monkeypatch.chdir(path.parent)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    done = CliRunner().invoke(app, ["plan", path.name])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


@pytest.mark.parametrize("url", USABLE)
def test_usable_addresses_stay_as_they_are(url: str) -> None:
    assert checked_url(url) == url


def test_the_catalogues_addresses_are_usable() -> None:
    assert all(entry.url is None or checked_url(entry.url) for entry in load_catalog().providers.values())


@pytest.mark.parametrize("url", REFUSED)
def test_a_secret_or_wrong_address_is_refused(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status, output = planned(sweep(tmp_path, url=url), monkeypatch)
    assert status == 2 and "providers.house.url: " in output and REFUSED[url] in output
    assert SECRET not in output and "Value error" not in output


@pytest.mark.parametrize("case", HEADERS)
def test_headers_that_cannot_be_sent_are_refused(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    headers, cause = HEADERS[case]
    status, output = planned(sweep(tmp_path, url="http://localhost:1/v1", headers_env=headers), monkeypatch)
    assert status == 2 and "providers.house.headers_env" in output and cause in output
    assert SECRET not in output


def test_a_key_in_place_of_its_variables_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status, output = planned(sweep(tmp_path, url="http://localhost:1/v1", key_env=SECRET), monkeypatch)
    assert status == 2 and "providers.house.key_env: is not the name of an environment variable" in output
    assert SECRET not in output


def test_a_variable_that_is_not_set_is_named_before_a_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = sweep(
        tmp_path, url="http://localhost:1/v1", headers_env={"Authorization": "TEAM_TOKEN", "X-Org": "TEAM_ORG"}
    )
    status, output = planned(path, monkeypatch, TEAM_ORG="org")
    assert status == 2
    assert "TEAM_TOKEN is not set" in output and "the value of the header Authorization" in output
    assert "TEAM_ORG is not set" not in output
    status, output = planned(path, monkeypatch, TEAM_TOKEN=SECRET)
    assert status == 0 and SECRET not in output


def test_a_record_with_a_secret_in_an_address_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = sweep(tmp_path, url="http://localhost:1/v1")
    run = tmp_path / "runs/one"
    run.mkdir(parents=True)
    kept = yaml.safe_load(path.read_text())
    kept["providers"]["house"]["url"] = f"http://me:{SECRET}@localhost:1/v1"
    record = {"sweep": kept, "as_of": {}, "hashes": {}, "versions": {}, "started": "2026-11-22T00:00:00Z"}
    (run / "sweep.yaml").write_text(yaml.safe_dump(record))
    status, output = planned(path, monkeypatch)
    assert status == 2 and "key_env" in output and SECRET not in output
