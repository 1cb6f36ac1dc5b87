"""Figures show the run's own tables, in files that are the same whenever they are drawn."""

import csv
import io
import warnings
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image

from hab_ray.analysis.marks import OVERALL, PANEL
from hab_ray.analysis.summary import summarise
from hab_ray.errors import ConfigError, Exit
from hab_ray.location import Location
from hab_ray.report import write_scores
from hab_ray.report.figures import write_figures
from hab_ray.report.figures.drawing import (
    DRAWINGS,
    Bar,
    Heat,
    Pair,
    Point,
    draw_agreement,
    draw_issues,
    draw_leaderboard,
    draw_pairs,
    points,
    put_notice,
)
from hab_ray.results import Run, open_run
from hab_ray.rows import Rater, Verdict
from hab_ray.stages.views import verdicts_file
from hab_ray.storage.folder import open_folder
from hab_ray.storage.run import MARKER
from tests.conftest import Desk
from tests.small_runs import Shape, write_run

SUBJECTS = ("alpha", "=b$_x$", "gamma")
NAMES = ("leaderboard", "issues", "agreement", "pairs")
BARS = [Bar("a", 0.62, 0.58, 0.67, 1, 1), Bar("b", 0.5, 0.41, 0.55, 2, 3), Bar("c", 0.49, 0.43, 0.54, 2, 3)]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return opened(tmp_path / "runs/example", Shape(subjects=SUBJECTS, judges=("strict", "mild"), tests=9, fail=0.05))


def opened(path: Path, shape: Shape) -> Run:
    found = open_run(write_run(path, shape).run_path)
    write_scores(summarise(found))
    return found


def drawn(run: Run, folder: Path) -> dict[str, bytes]:
    write_figures(run, open_folder(Location.of(folder)))
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def shown_ticks(axes: Axes) -> list[float]:
    low, high = axes.get_xlim()
    return [float(at) for at in axes.get_xticks() if low - 1e-9 <= at <= high + 1e-9]


def table(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode())))


@pytest.fixture
def unpainted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures are files that hold nothing: painting one takes a second."""
    monkeypatch.setattr(Figure, "savefig", lambda figure, out, **_: figure.draw_without_rendering())


@pytest.mark.usefixtures("unpainted")
def test_the_data_drawn_are_the_runs_tables(run: Run, tmp_path: Path) -> None:
    files = drawn(run, tmp_path / "out")
    assert set(files) == {f"{name}.{kind}" for name in NAMES for kind in ("svg", "png", "csv")}
    scores = {row["subject"]: row for row in run.scores(judge=PANEL, dimension=OVERALL).to_pylist()}
    board = table(files["leaderboard.csv"])
    assert [float(row["mean"]) for row in board] == sorted((row["mean"] for row in scores.values()), reverse=True)
    assert "'=b$_x$" in {row["subject"] for row in board}
    for row in board:
        score = scores[row["subject"].removeprefix("'")]
        assert (float(row["low"]), float(row["high"])) == (score["low"], score["high"])
    rates = {
        (row["subject"], row["dimension"], row["issue"]): row["rate"]
        for row in run.analysis("issues").to_pylist()
        if row["judge"] == PANEL
    }
    heat = table(files["issues.csv"])
    assert len(heat) == len(rates)
    assert all(
        float(row["rate"]) == rates[row["subject"].removeprefix("'"), row["dimension"], row["issue"]] for row in heat
    )
    texts = {row["text"] for row in heat}
    assert texts == {issue.text for rubric in run.rubrics.values() for issue in rubric.judging.issues}
    assert len(table(files["pairs.csv"])) == 3
    assert [row["dimension"] for row in table(files["agreement.csv"])] == ["overall", *run.dimensions]


def test_files_are_the_same_again_and_fit_for_print(run: Run, tmp_path: Path) -> None:
    files = drawn(run, tmp_path / "out")
    assert drawn(run, tmp_path / "again") == files
    for name in NAMES:
        with Image.open(io.BytesIO(files[f"{name}.png"])) as image:
            assert image.info["dpi"] == pytest.approx((300, 300), abs=0.1) and min(image.size) > 500
        tags = {element.tag.rpartition("}")[2] for element in ET.fromstring(files[f"{name}.svg"]).iter()}
        assert "path" in tags and not tags & {"text", "script", "date"}


def test_a_table_of_an_earlier_version_is_named_with_its_remedy(run: Run, tmp_path: Path) -> None:
    file = Path(str(run.location)) / "analysis/agreement.parquet"
    pq.write_table(pq.read_table(file).drop_columns(["calls"]), file)
    with pytest.raises(
        ConfigError, match=r"table agreement is outdated, it has no column 'calls'; `hab report .*` wri"
    ):
        write_figures(open_run(run.location), open_folder(Location.of(tmp_path / "figures")))


@pytest.mark.usefixtures("unpainted")
def test_a_panel_of_one_has_no_agreement_to_draw_and_keeps_no_earlier_drawing(run: Run, tmp_path: Path) -> None:
    assert "agreement.svg" in drawn(run, tmp_path / "out")
    one = opened(tmp_path / "one", Shape(subjects=("alpha",)))
    written = {figure.name: figure.files for figure in write_figures(one, open_folder(Location.of(tmp_path / "out")))}
    assert written["agreement"] == () == written["pairs"] and len(written["leaderboard"]) == 3
    assert {path.name for path in (tmp_path / "out").iterdir()} == {*written["leaderboard"], *written["issues"]}


def test_the_leaderboards_axis_ends_where_it_says() -> None:
    (axes,) = draw_leaderboard(BARS).axes
    assert axes.get_xlim() == (0.4, 0.7) and "from 0.40 to 0.70 of 0 to 1" in axes.get_xlabel()
    assert shown_ticks(axes) == pytest.approx([0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7])
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b", "c"]
    assert axes.get_ylim()[0] > axes.get_ylim()[1]
    assert [text.get_text() for text in axes.texts] == ["1", "2\N{EN DASH}3", "2\N{EN DASH}3", "rank"]
    (edge,) = draw_leaderboard([replace(BARS[0], high=0.97, low=0.0)]).axes
    assert edge.get_xlim() == (0.0, 1.0) and edge.get_xlabel() == "overall score, 95 % intervals"
    assert shown_ticks(edge) == pytest.approx([each / 10 for each in range(11)])
    for score in (0.0, 0.5, 1.0):  # a single test has no interval
        (alone,) = draw_leaderboard([Bar("a", score, None, None, 1, 1)]).axes
        low, high = alone.get_xlim()
        assert 0.04 < high - low < 0.11 and f"from {low:.2f} to {high:.2f} of" in alone.get_xlabel()


@pytest.mark.usefixtures("unpainted")
def test_an_interval_that_is_not_known_has_no_bar_and_no_numbers(tmp_path: Path) -> None:
    one = opened(tmp_path / "one", Shape(subjects=SUBJECTS, judges=("strict", "mild"), tests=1))
    files = drawn(one, tmp_path / "out")
    rows = table(files["leaderboard.csv"]) + table(files["agreement.csv"])
    assert rows and all((row["low"], row["high"]) == ("", "") for row in rows)
    (axes,) = draw_leaderboard([BARS[0], Bar("b", 0.5, None, None, 1, 2)]).axes
    bars: Any = axes.collections[0]
    assert [segment.tolist() for segment in bars.get_segments()] == [[[0.58, 0.0], [0.67, 0.0]], []]
    (axes,) = draw_agreement([Point("x", 0.6, None, None, True), Point("y", 0.6, 0.5, 0.7, True)]).axes
    lines = [np.asarray(line.get_xdata()).tolist() for line in axes.lines if line.get_linestyle() == "-"]
    assert [ends for ends in lines if len(ends) == 2] == [[0.5, 0.7]]


def test_fields_are_where_their_names_are() -> None:
    heat = draw_issues(
        [Heat("a", "x", "A", 0.1, "one"), Heat("a", "x", "B", 0.31, "two"), Heat("b", "x", "A", 0.2, "one")]
    )
    field = heat.axes[0].images[0].get_array()
    assert field is not None and np.ma.filled(field, -1).tolist() == [[0.1, 0.31], [0.2, -1]]
    assert heat.axes[0].images[0].get_clim() == (0, 0.4)
    matrix = draw_pairs([Pair("a", "b", 0.25, True)]).axes[0]
    field = matrix.images[0].get_array()
    assert field is not None and np.ma.filled(field, 0).tolist() == [[0, 0.25], [-0.25, 0]]
    assert [text.get_text() for text in matrix.texts] == ["+0.25", "\N{MINUS SIGN}0.25"] and len(matrix.lines) == 2


def luminance(colour: Any) -> float:
    channels = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return 0.2126 * channels[0] + 0.7152 * channels[1] + 0.0722 * channels[2]


def test_a_label_can_be_read_on_every_colour() -> None:
    for difference in np.linspace(0, 0.3, 31):
        axes = draw_pairs([Pair("a", "b", 0.3, False), Pair("a", "c", float(difference), True)]).axes[0]
        field = axes.images[0].get_array()
        assert field is not None
        for text in axes.texts:
            column, row = map(int, text.get_position())
            below = axes.images[0].to_rgba(field)[row, column, :3]
            low, high = sorted((luminance(below), luminance(text.get_color())))
            assert (high + 0.05) / (low + 0.05) > 4.5, (text.get_text(), below, text.get_color())


def test_small_differences_are_pale_and_a_legend_names_only_what_is_drawn() -> None:
    dotted, plain = (draw_pairs([Pair("a", "b", -0.001, differs)]) for differs in (True, False))
    assert [text.get_text() for text in plain.axes[0].texts] == ["0.00", "0.00"]
    assert plain.axes[0].images[0].get_clim() == (-0.25, 0.25)
    legends = [figure.axes[1].get_ylabel() for figure in (dotted, plain)]
    assert ["a dot marks a significant" in each for each in legends] == [True, False] and "no difference is" in legends[
        1
    ]
    for reliable in (True, False):
        (axes,) = draw_agreement([Point("x", 0.6, 0.5, 0.7, reliable)]).axes
        assert ("hollow" in axes.get_xlabel()) is not reliable
    below: Any = next(text for text in axes.texts if "little" in text.get_text())
    assert below.xy[0] == 0.4 and below.get_ha() == "right"


def test_the_command_writes_them_or_says_what_is_missing(desk: Desk) -> None:
    opened(desk.folder / "runs/example", Shape(subjects=SUBJECTS, judges=("strict", "mild")))
    done = desk.hab("figures", "runs/example", "--out", "drawn")
    assert done.returncode == Exit.COMPLETE and "drawn/pairs.svg, .png, .csv" in done.stdout, done.stdout
    assert len(list((desk.folder / "drawn").iterdir())) == 12
    (desk.folder / "without/matplotlib").mkdir(parents=True)
    (desk.folder / "without/matplotlib/__init__.py").write_text("raise ImportError('not here')")
    desk.environment["PYTHONPATH"] = str(desk.folder / "without")
    refused = desk.hab("figures", "runs/example")
    assert refused.returncode == Exit.CONFIGURATION and "pip install '.[figures]'" in refused.stdout


@pytest.mark.parametrize("name", NAMES)
def test_the_notice_of_a_simulator_covers_nothing(run: Run, name: str) -> None:
    drawing = DRAWINGS[name]
    figure = drawing.draw(drawing.data(run))
    before = figure.get_tightbbox()
    put_notice(figure, "answered by a simulator " * 4)
    (notice,) = figure.texts
    top = notice.get_window_extent().y1 / figure.dpi
    assert before.y0 - 0.2 < top < before.y0


@pytest.mark.usefixtures("unpainted")
def test_characters_that_the_font_lacks_are_named_once(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    work = write_run(tmp_path / "run", Shape(subjects=("alpha", "\u6a21\u578b")))
    work.run.folder.put(MARKER, b"")
    run = open_run(work.run_path)
    write_scores(summarise(run))
    figures = {figure.name: figure.missing for figure in write_figures(run, open_folder(Location.of(tmp_path / "out")))}
    assert figures["leaderboard"] == "\u6a21\u578b" and figures["agreement"] == ""
    assert not [str(each.message) for each in recwarn if "Glyph" in str(each.message)]


def test_other_warnings_of_matplotlib_are_passed_on(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def warning(*_: Any, **__: Any) -> None:
        warnings.warn("the layout does not fit", UserWarning, stacklevel=1)

    monkeypatch.setattr(Figure, "savefig", warning)
    with pytest.warns(UserWarning, match="the layout does not fit"):
        assert {figure.missing for figure in write_figures(run, open_folder(Location.of(tmp_path / "out")))} == {""}


def test_people_are_drawn_beside_the_judges(tmp_path: Path) -> None:
    work = write_run(tmp_path / "run", Shape(subjects=SUBJECTS, judges=("strict", "mild"), tests=12))
    (dimension, *_) = work.rubrics
    for person in ("R1", "R2"):
        for subject in SUBJECTS:
            rows = work.run.read(Verdict, verdicts_file("strict", subject, dimension))
            rated = [replace(row, judge=person, kind=Rater.PERSON) for row in rows]
            work.run.write(Verdict, verdicts_file(person, subject, dimension), rated)
    run = open_run(work.run_path)
    write_scores(summarise(run))
    found = {(point.between, point.dimension) for point in points(run)}
    judged = {("judges", name) for name in (OVERALL, *run.dimensions)}
    assert found == judged | {("people", dimension), ("judges and people", dimension)}
    figure = draw_agreement(points(run))
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["judges", "people", "judges and people"]
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()][:2] == [OVERALL, dimension.replace("_", " ")]
