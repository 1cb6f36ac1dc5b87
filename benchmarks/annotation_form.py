"""Fills in a rating form in Chromium, with hostile answers on it: `python -m benchmarks.annotation_form [--shots DIR]`.

The form is opened from disk; it is filled in, reloaded, and what it saves is read as `raters:` reads it. Once more
where the browser refuses to keep anything.
"""

import argparse
import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.chromium import Tab, installed, tab
from hab_ray.exchange.sheets import SheetPlan, draw_sheet, write_sheet
from hab_ray.given.ratings import read_given_ratings
from hab_ray.given.sheets import key_of_run
from hab_ray.location import Location
from hab_ray.results import open_run
from hab_ray.rubric import load_rubrics
from tests.small_runs import HOSTILE, Shape, write_run

NO_STORAGE = {"profile": {"default_content_setting_values": {"cookies": 2}}}
PREFERENCES = {"kept": dict[str, Any](), "refused": NO_STORAGE}
RATED = "document.getElementById('count').textContent"


def check(what: str, is_so: bool) -> None:
    print(f"{'ok' if is_so else 'FAILED'}: {what}", flush=True)
    if not is_so:
        raise SystemExit(1)


async def fill_in(shown: Tab, items: int) -> None:
    """Ticks the first issue of every even answer and "none" of every odd one, the last cannot be rated."""
    for place in range(items):
        if place == items - 1:
            await shown.value("document.getElementById('failed').click()")
            await shown.value(
                "const c = document.getElementById('comment'); c.value = 'No answer \\u2028 </script>';"
                "c.dispatchEvent(new Event('input', {bubbles: true}))"
            )
        else:
            await shown.value(f"document.querySelector('{'#none' if place % 2 else '#issues input'}').click()")
        await shown.value("document.getElementById('next').click()")


async def downloaded(folder: Path) -> Path:
    for _ in range(100):
        if found := list(folder.glob("*.jsonl")):
            return found[0]
        await asyncio.sleep(0.1)
    raise SystemExit("FAILED: nothing was saved")


@dataclass(frozen=True)
class Form:
    """A form of so many answers of a run."""

    page: Path
    run: Location
    items: int

    async def try_out(self, name: str, saves_to: Path, shots: Path | None) -> None:
        """Look at it, fill it in, and read what it saves; `name` says what the browser keeps."""
        saves_to.mkdir()
        async with tab(PREFERENCES[name]) as shown:
            await shown.ask("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(saves_to))
            await shown.open(self.page)
            for width, height in ((390, 844), (1280, 900)):
                await shown.resize(width, height)
                wide = await shown.value("document.documentElement.scrollWidth - window.innerWidth")
                check(f"{name}, {width} px: nothing is wider than the page", wide <= 0)
                if shots:
                    await shown.shoot(shots / f"{name}-{width}.png")
            answer = await shown.value("document.getElementById('answer').textContent")
            check(f"{name}: the answer is shown as text", "<script>alert(1)</script>" in answer)
            check(f"{name}: only our own scripts are there", await shown.value("document.scripts.length") == 2)
            await fill_in(shown, self.items)
            if shots:
                await shown.resize(390, 844)
                await shown.value("window.scrollTo(0, document.body.scrollHeight)")
                await shown.shoot(shots / f"{name}-390-end.png")
            all_rated = f"{self.items} of {self.items} rated"
            check(f"{name}: all are rated", await shown.value(RATED) == all_rated)
            await shown.value("document.getElementById('export').click()")
            file = await downloaded(saves_to)
            found = read_given_ratings([Location.of(file)], load_rubrics(), key_of_run(self.run)).ratings
            scores = [rating.score for rating in found]
            check(
                f"{name}: the file has {self.items} ratings, one failed",
                (len(scores), scores.count(None), scores.count(10)) == (self.items, 1, (self.items - 1) // 2),
            )
            copy = await shown.value("document.getElementById('copy').value")
            check(f"{name}: the text to copy is that of the file", copy == file.read_text("utf-8"))
            await shown.open(self.page)
            kept = all_rated if name == "kept" else f"0 of {self.items} rated"
            check(f"{name}: after a reload it says {kept}", await shown.value(RATED) == kept)
            warned = await shown.value("!document.getElementById('warning').hidden")
            check(f"{name}: {'says' if name == 'refused' else 'need not say'} so", warned == (name == "refused"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shots", type=Path, help="A folder for screenshots.")
    shots = parser.parse_args().shots
    if installed() is None:
        print("Chromium is not installed: the form is not tried")
        return
    if shots:
        shots.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        text = f"{HOSTILE} I am alpha-7b."
        write_run(folder / "run", Shape(subjects=("alpha-7b", "beta-9b"), text=text, tests=12))
        run = open_run(folder / "run")
        items = draw_sheet(run, SheetPlan(5, None, 1))
        write_sheet(run, items, folder / "sheets")
        form = Form(folder / "sheets" / "R1.html", run.location, len(items))
        for name in PREFERENCES:
            asyncio.run(form.try_out(name, folder / name, shots))


if __name__ == "__main__":
    main()
