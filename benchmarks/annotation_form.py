"""Fills in a rating form in Chromium, with hostile answers on it: `python -m benchmarks.annotation_form [--shots DIR]`.

Needs `chromium` and `chromedriver` (Debian: chromium, chromium-driver). The form is opened from disk; it is filled in,
reloaded, and what it saves is read as `raters:` reads it. Once more where the browser refuses to keep anything.
"""

from __future__ import annotations

import argparse
import base64
import json
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from typing import Any

from hab_ray.exchange.sheets import SheetPlan, draw_sheet, write_sheet
from hab_ray.given.ratings import read_given_ratings
from hab_ray.given.sheets import key_of_run
from hab_ray.location import Location
from hab_ray.results import open_run
from tests.small_runs import HOSTILE, Shape, write_run

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PORT = 19_515
NO_STORAGE = {"profile.default_content_setting_values.cookies": 2}


class Browser:
    """One session of chromedriver, by its HTTP protocol."""

    def __init__(self, base: str, profile: Path, downloads: Path, preferences: dict[str, Any]) -> None:
        self._base = base
        options = {
            "args": [*FLAGS, f"--user-data-dir={profile}"],
            "prefs": {"download.default_directory": str(downloads), **preferences},
        }
        wanted = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}}
        self._session = self._ask("POST", "/session", wanted)["sessionId"]

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)["value"]

    def ask(self, path: str, body: object) -> Any:
        return self._ask("POST", f"/session/{self._session}{path}", body)

    def run(self, script: str) -> Any:
        return self.ask("/execute/sync", {"script": script, "args": []})

    def size(self, width: int, height: int) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.ask("/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": metrics})

    def shot(self, path: Path) -> None:
        found = self._ask("GET", f"/session/{self._session}/screenshot")
        path.write_bytes(base64.b64decode(found))

    def end(self) -> None:
        self._ask("DELETE", f"/session/{self._session}")


@contextmanager
def chromedriver() -> Iterator[str]:
    process = subprocess.Popen(["chromedriver", f"--port={PORT}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(2)
        yield f"http://127.0.0.1:{PORT}"
    finally:
        process.terminate()
        process.wait()


def check(what: str, is_so: bool) -> None:
    print(f"{'ok' if is_so else 'FAILED'}: {what}", flush=True)
    if not is_so:
        raise SystemExit(1)


def fill_in(browser: Browser, items: int) -> None:
    """Ticks the first issue of every even answer and "none" of every odd one, the last cannot be rated."""
    for place in range(items):
        if place == items - 1:
            browser.run("document.getElementById('failed').click()")
            browser.run(
                "const c = document.getElementById('comment'); c.value = 'No answer \\u2028 </script>';"
                "c.dispatchEvent(new Event('input', {bubbles: true}))"
            )
        else:
            target = "#none" if place % 2 else "#issues input"
            browser.run(f"document.querySelector('{target}').click()")
        browser.run("document.getElementById('next').click()")


def downloaded(folder: Path) -> Path:
    for _ in range(100):
        if found := list(folder.glob("*.jsonl")):
            return found[0]
        time.sleep(0.1)
    raise SystemExit("FAILED: nothing was saved")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shots", type=Path, help="A folder for screenshots.")
    options = parser.parse_args()
    if which("chromedriver") is None:
        print("chromedriver is not installed: the form is not tried")
        return
    with tempfile.TemporaryDirectory() as scratch, chromedriver() as base:
        folder = Path(scratch)
        subjects = ("alpha-7b", "beta-9b")
        work = write_run(folder / "run", Shape(subjects=subjects, text=f"{HOSTILE} I am alpha-7b.", tests=12))
        run = open_run(folder / "run")
        items = draw_sheet(run, SheetPlan(5, None, 1))
        page = write_sheet(run, items, folder / "sheets").files[0]
        for name, preferences in (("kept", {}), ("refused", NO_STORAGE)):
            (folder / name).mkdir()
            browser = Browser(base, folder / f"profile-{name}", folder / name, preferences)
            try:
                browser.ask("/url", {"url": page.as_uri()})
                for width, height in ((390, 844), (1280, 900)):
                    browser.size(width, height)
                    wide = browser.run("return document.documentElement.scrollWidth - window.innerWidth")
                    check(f"{name}, {width} px: nothing is wider than the page", wide <= 0)
                    if options.shots:
                        options.shots.mkdir(parents=True, exist_ok=True)
                        browser.shot(options.shots / f"{name}-{width}.png")
                shown = browser.run("return document.getElementById('answer').textContent")
                check(f"{name}: the answer is shown as text", "<script>alert(1)</script>" in shown)
                check(f"{name}: only our own scripts are there", browser.run("return document.scripts.length") == 2)
                fill_in(browser, len(items))
                if options.shots:
                    browser.size(390, 844)
                    browser.run("window.scrollTo(0, document.body.scrollHeight)")
                    browser.shot(options.shots / f"{name}-390-end.png")
                rated = "return document.getElementById('count').textContent"
                all_rated = f"{len(items)} of {len(items)} rated"
                check(f"{name}: all are rated", browser.run(rated) == all_rated)
                browser.run("document.getElementById('export').click()")
                file = downloaded(folder / name)
                found = read_given_ratings([Location.of(file)], work.rubrics, key_of_run(Location.of(folder / "run")))
                scores = [rating.score for rating in found.ratings]
                check(
                    f"{name}: the file has {len(items)} ratings, one failed",
                    len(scores) == len(items) and scores.count(None) == 1 and scores.count(10) == (len(items) - 1) // 2,
                )
                copy = browser.run("return document.getElementById('copy').value")
                check(f"{name}: the text to copy is that of the file", copy == file.read_text("utf-8"))
                browser.ask("/refresh", {})
                kept = all_rated if name == "kept" else f"0 of {len(items)} rated"
                check(f"{name}: after a reload it says {kept}", browser.run(rated) == kept)
                warned = browser.run("return !document.getElementById('warning').hidden")
                check(f"{name}: {'says' if name == 'refused' else 'need not say'} so", warned == (name == "refused"))
            finally:
                browser.end()


if __name__ == "__main__":
    main()
