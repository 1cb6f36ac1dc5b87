"""Tables for papers and programs, read back by other readers: csv, json, a Markdown parser, LaTeX's own rules."""

import csv
import io
import json
import re
from dataclasses import replace
from itertools import pairwise

import pytest
from markdown_it import MarkdownIt

from hab_ray.cli.views.tables import FORMATS, Column, Estimate, PaperTable, PValue, Span, TableFormat

HOSTILE = r'a\input{x}&b%c$d_e#f{g}~^|"<i>`*[h](u)' + "\n\x1b]0;t\x07"
TABLE = PaperTable(
    name="Scores of X",
    caption="50 % & more",
    unit="from 0 to 1",
    columns=(Column("who", "Who it is"), Column("mean", "Mean_1"), Column("rank", "Rank", Span), Column("n", "N")),
    rows=(
        ("alpha", Estimate(0.125, 0.0625, 0.5), Span(1, 3), 1200),
        (HOSTILE, Estimate(-0.25), Span(2, 2), 0),
        ("[=SUM(A1)]", Estimate(None), None, None),
        ("=SUM(A1)", Estimate(1.0, 0.75, 1.0), Span(1, 2), 7),
    ),
    notes=("Ranks are open.",),
)


def test_csv_has_every_value_in_full_and_no_formula() -> None:
    title, *rows = csv.reader(io.StringIO(FORMATS[TableFormat.CSV](TABLE)))
    assert title == ["who", "mean", "mean_low", "mean_high", "rank_first", "rank_last", "n"]
    assert rows[0] == ["alpha", "0.125", "0.0625", "0.5", "1", "3", "1200"]
    assert rows[1][1:] == ["-0.25", "", "", "2", "2", "0"]
    assert rows[2] == ["[=SUM(A1)]", "", "", "", "", "", ""]
    assert rows[3][0] == "'=SUM(A1)"


@pytest.mark.parametrize("text", ["=1+1", " =1+1", "\u00a0=1+1", "\t=1+1", "\n@sum", "\u3000-1", "\u2028+1", "\x85=1"])
def test_no_text_becomes_a_formula_once_its_white_space_is_stripped(text: str) -> None:
    table = replace(TABLE, rows=((text, Estimate(None), None, None),))
    (_, row) = csv.reader(io.StringIO(FORMATS[TableFormat.CSV](table)))
    assert not row[0].startswith(("=", "+", "-", "@"))


def test_csv_has_both_columns_of_a_span_that_no_row_has() -> None:
    table = replace(TABLE, rows=(("alpha", Estimate(0.5), None, 7),))
    title, row = csv.reader(io.StringIO(FORMATS[TableFormat.CSV](table)))
    assert title[-3:] == ["rank_first", "rank_last", "n"] and row[-3:] == ["", "", "7"]


@pytest.mark.parametrize(("form", "shown"), [("latex", "0.9991_{0.995}^{1.00}"), ("markdown", "0.9991 [0.995, 1.00]")])
def test_a_mean_that_is_not_quite_1_is_not_shown_as_1(form: TableFormat, shown: str) -> None:
    table = replace(TABLE, rows=(("alpha", Estimate(0.9991, 0.9953, 1.0), None, 7),))
    assert shown in FORMATS[TableFormat(form)](table)


def test_json_has_values_units_and_titles() -> None:
    found = json.loads(FORMATS[TableFormat.JSON](TABLE))
    mean, rank = {"value": 0.125, "low": 0.0625, "high": 0.5}, {"first": 1, "last": 3}
    assert found["rows"][0] == {"who": "alpha", "mean": mean, "rank": rank, "n": 1200}
    assert found["rows"][1]["who"] == HOSTILE and found["rows"][2]["rank"] is None
    assert (found["unit"], found["columns"]["mean"]) == ("from 0 to 1", "Mean_1")


def test_markdown_is_one_table_in_which_no_text_is_markup() -> None:
    tokens = MarkdownIt("commonmark").enable("table").parse(FORMATS[TableFormat.MARKDOWN](TABLE))
    cells = [
        "".join(child.content for child in inline.children or ())
        for opening, inline in pairwise(tokens)
        if opening.type in ("th_open", "td_open")
    ]
    kinds = {child.type for token in tokens for child in token.children or ()}
    assert kinds <= {"text", "text_special", "strong_open", "strong_close"}
    assert cells[:8] == ["Who it is", "Mean_1", "Rank", "N", "alpha", "0.12 [0.06, 0.50]", "1-3", "1,200"]
    assert cells[8] == HOSTILE.split("\n")[0] + " [U+001B]]0;t[U+0007]"
    assert cells[9:16] == ["-0.25", "2", "0", "[=SUM(A1)]", "-", "-", "-"]


def test_latex_is_one_tabular_in_which_no_text_is_a_command() -> None:
    text = FORMATS[TableFormat.LATEX](TABLE)
    body = text.split(r"\midrule")[1].split(r"\bottomrule")[0].strip()
    rows = [row.strip() for row in body.split("\\\\\n")]
    assert rows[0] == r"alpha & $0.12_{0.06}^{0.50}$ & 1--3 & 1\,200"
    assert rows[2] == r"{[}=SUM(A1)] & -- & -- & -- \\"[:-3]
    assert rows[3].startswith(r"=SUM(A1) & $1.00_{0.75}^{1.00}$")
    assert set(re.findall(r"\\[a-zA-Z]+", rows[1])) == {
        r"\textbackslash",
        r"\textasciitilde",
        r"\textasciicircum",
        r"\textbar",
        r"\textless",
        r"\textgreater",
    }
    for row in [*rows, text]:
        bare = re.sub(r"\\.", "", row.replace(r"\\", ""))
        assert bare.count("{") == bare.count("}") and bare.count("$") % 2 == 0
    assert r"\label{tab:scores-of-x}" in text and r"\caption{50 \% \& more}" in text


def test_a_p_value_above_the_level_is_not_shown_as_the_level_and_none_as_zero() -> None:
    rows = tuple((PValue(p),) for p in (0.0504, 0.00004, 1 - 2e-16))
    table = PaperTable("p", "P", "none", (Column("p", "P"),), rows, digits=3)
    assert FORMATS[TableFormat.MARKDOWN](table).splitlines()[4:7] == ["| 0.051 |", "| <0.0001 |", "| 1 |"]
    assert FORMATS[TableFormat.CSV](table).split()[:3] == ["p", "0.0504", "4e-05"]
    assert [row["p"] for row in json.loads(FORMATS[TableFormat.JSON](table))["rows"]][:2] == [0.0504, 0.00004]


@pytest.mark.parametrize("form", TableFormat)
def test_a_table_without_rows_has_its_columns(form: TableFormat) -> None:
    empty = FORMATS[form](PaperTable("empty", "Nothing", "none", (Column("a", "A"), Column("b", "B")), ()))
    assert "A" in empty.upper() and "B" in empty.upper()
