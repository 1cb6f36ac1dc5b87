"""An analysis is added by its two files alone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hab_ray.analysis import tables
from hab_ray.analysis.registry import discover
from hab_ray.analysis.summary import summarise
from hab_ray.report import write_report
from hab_ray.results import open_run
from hab_ray.work import Work
from tests.small_runs import HOSTILE, Shape

MODULE = '''
"""How long answers are."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from hab_ray.analysis.registry import analysis
from hab_ray.analysis.summary import Summary


@dataclass(frozen=True)
class Length:
    """A subject's median length of an answer, in characters."""

    subject: str
    characters: float


@analysis(order=55, link="Lengths", heading="Lengths of answers")
def lengths(summary: Summary) -> Sequence[Length]:
    """The median length by subject."""
    texts = {subject: summary.run.responses(subject, columns=["text"]) for subject in summary.run.subjects}
    return [Length(subject, median(map(len, found["text"].to_pylist()))) for subject, found in texts.items() if found]
'''
TEMPLATE = """<ul>
{% for row in table %}
<li class="length">{{ row.subject }}: {{ row.characters }}</li>
{% endfor %}
</ul>
"""


@pytest.fixture
def lengths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A further folder of the package, with one analysis."""
    folder = tmp_path / "tables"
    folder.mkdir()
    (folder / "lengths.py").write_text(MODULE)
    (folder / "lengths.html.j2").write_text(TEMPLATE)
    monkeypatch.setattr(tables, "__path__", [*tables.__path__, str(folder)])
    yield
    sys.modules.pop("hab_ray.analysis.tables.lengths", None)


def report(work: Work) -> str:
    return write_report(summarise(open_run(work.run_path))).path.read_text(encoding="utf-8")


def test_two_files_add_a_section(make_run: Callable[[Shape], Work], lengths: None) -> None:
    html = report(make_run(Shape(subjects=("alpha", "<b>eta"), text="Four")))
    assert '<h2 id="lengths">Lengths of answers</h2>' in html and '<a href="#lengths">Lengths</a>' in html
    assert '<li class="length">alpha: 4' in html and "&lt;b&gt;eta: 4" in html
    assert html.index('id="leaderboard"') < html.index('id="lengths"') < html.index('id="excluded"')


def test_nothing_is_left_of_it_without_its_files(make_run: Callable[[Shape], Work]) -> None:
    assert "lengths" not in report(make_run(Shape(text=HOSTILE)))


def test_every_module_of_the_package_is_one_analysis_with_a_template() -> None:
    found = discover(tables)
    folder = Path(str(tables.__file__)).parent
    assert {each.name for each in found} == {file.stem for file in folder.glob("*.py")} - {"__init__"}
    assert {f"{each.name}.html.j2" for each in found} == {file.name for file in folder.glob("*.j2")}
    assert [each.order for each in found] == sorted({each.order for each in found})
    assert all(each.template and each.heading and each.link for each in found)
