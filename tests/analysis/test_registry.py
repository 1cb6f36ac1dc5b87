"""An analysis is added by its two files alone."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hab_ray.analysis import tables
from hab_ray.analysis.files import to_csv
from hab_ray.analysis.registry import discover
from hab_ray.errors import ConfigError
from hab_ray.exchange.export import export
from hab_ray.exchange.sharing import everything
from hab_ray.report import write_report, write_scores
from hab_ray.results import open_run
from hab_ray.rows import Candidate, ChosenTest, Response, State, Verdict
from hab_ray.stages import views
from hab_ray.work import Work
from tests.small_runs import HOSTILE, MakeRun, Shape, summary_of

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


@analysis(Length, order=55, heading="Lengths of answers")
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


LENGTHS = [{"subject": "alpha", "characters": 4.0}, {"subject": "<b>eta", "characters": 4.0}]


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
    summary = summary_of(work)
    write_scores(summary)
    return write_report(summary).path.read_text(encoding="utf-8")


def test_two_files_add_a_section_a_table_and_an_exported_one(make_run: MakeRun, lengths: None, tmp_path: Path) -> None:
    work = make_run(Shape(subjects=("alpha", "<b>eta"), text="Four"))
    html = report(work)
    assert '<h2 id="lengths">Lengths of answers</h2>' in html and '<a href="#lengths">Lengths of answers</a>' in html
    assert '<li class="length">alpha: 4' in html and "&lt;b&gt;eta: 4" in html
    assert html.index('id="leaderboard"') < html.index('id="lengths"') < html.index('id="excluded"')
    run = open_run(work.run_path)
    assert run.analysis("lengths").to_pylist() == LENGTHS
    assert str(run.analysis("lengths").schema.field("characters").type) == "double"
    assert (work.run_path.path / "analysis/lengths.csv").read_text().splitlines()[1] == '"alpha",4'
    export(run, "hf", tmp_path / "out", "", everything(run))
    assert pq.read_table(tmp_path / "out/analysis-lengths.parquet").to_pylist() == LENGTHS
    export(run, "csv", tmp_path / "csv", "", everything(run))
    assert (tmp_path / "csv/analysis-lengths.csv").is_file()


def test_every_analysis_bears_a_dimension_without_tests(make_run: MakeRun) -> None:
    work = make_run(Shape(judges=("strict", "mild", "third"), tests=20))
    empty, other = work.rubrics
    work.run.write(ChosenTest, views.tests_file(empty), [])
    for subject in ("alpha", "beta"):
        work.run.write(Response, views.responses_file(subject, empty), [])
        for judge in ("strict", "mild", "third"):
            work.run.write(Verdict, views.verdicts_file(judge, subject, empty), [])
    assert 'id="leaderboard"' in report(work)
    agreed = open_run(work.run_path).analysis("agreement")
    assert set(agreed["dimension"].to_pylist()) == {other}


def test_only_a_changed_table_is_made_anew(work: Work, lengths: None, monkeypatch: pytest.MonkeyPatch) -> None:
    report(work)
    calls: list[int] = []

    def none(values: Iterable[int]) -> float:
        calls.append(1)
        return 0.0

    monkeypatch.setattr(sys.modules["hab_ray.analysis.tables.lengths"], "median", none)
    html = report(work)
    assert calls == [] and "alpha: 42" in html
    file = views.responses_file("alpha", "correct_misinformation")
    work.run.write(Response, file, work.run.read(Response, file)[:-1])
    assert "alpha: 0" in report(work) and len(calls) == 2
    table = work.run_path.path / "analysis/lengths.parquet"
    table.write_bytes(b"PAR1 is not enough")
    assert "alpha: 0" in report(work) and len(calls) == 4


def test_tables_follow_the_candidates_which_say_what_call_made_each_test(work: Work) -> None:
    report(work)
    dimension = next(iter(work.rubrics))
    tests = work.run.read(ChosenTest, views.tests_file(dimension))
    made = [Candidate(t.id, dimension, State.OK, t.prompt, t.context, "", "", "one call") for t in tests]
    work.run.write(Candidate, views.candidates_file(dimension), made)
    report(work)
    rates = open_run(work.run_path).analysis("issues").to_pylist()
    assert {row["calls"] for row in rates if row["dimension"] == dimension and row["answers"]} == {1}


def test_a_table_that_is_not_there_is_named(make_run: MakeRun) -> None:
    run = open_run(make_run(Shape()).run_path)
    with pytest.raises(ConfigError, match="there is no analysis 'lengths'"):
        run.analysis("lengths")


def test_nothing_is_left_of_it_without_its_files(make_run: MakeRun) -> None:
    assert "lengths" not in report(make_run(Shape(text=HOSTILE)))


def test_a_formula_in_a_name_is_text(tmp_path: Path) -> None:
    table = pa.table({"subject": ["=1+1", "text", "good"], "low": [-0.5, None, None], "issues": [["A", "B"], None, []]})
    assert to_csv(table).decode() == '"subject","low","issues"\n"\'=1+1",-0.5,"A B"\n"text",,\n"good",,"none"\n'


def test_every_module_of_the_package_is_one_analysis_with_a_template() -> None:
    found = discover(tables)
    folder = Path(str(tables.__file__)).parent
    assert {each.name for each in found} == {file.stem for file in folder.rglob("*.py")} - {"__init__"}
    assert {f"{each.name}.html.j2" for each in found} == {file.name for file in folder.rglob("*.j2")}
    assert [each.order for each in found] == sorted({each.order for each in found})
    assert all(each.template and each.heading for each in found)
