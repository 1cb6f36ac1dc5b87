"""The report of real run folders: complete, self-contained, and deaf to what models write into it."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml

import hab_ray
from hab_ray.analysis.tables.differences import differences
from hab_ray.analysis.tables.leaderboard import axis
from hab_ray.report import write_report, write_scores
from hab_ray.rows import Rater, Response, Score, State, Verdict
from hab_ray.rubric import load_rubrics
from hab_ray.stages.views import responses_file, verdicts_file
from hab_ray.storage.folder import LocalFolder
from hab_ray.storage.record import amend_record, read_record
from hab_ray.storage.run import MARKER, SCORES, SWEEP
from hab_ray.work import Work
from tests.small_runs import (
    HOSTILE,
    MakeRun,
    Shape,
    answer_files,
    begin_run,
    page_of,
    revise,
    summary_of,
    verdict_files,
)

VOID = {"meta", "br", "img", "link", "input", "hr"}
ALLOWED = {
    *("html", "head", "meta", "title", "style", "body", "main", "header", "section", "footer", "nav", "article"),
    *("h1", "h2", "h3", "p", "a", "b", "i", "u", "br", "small", "span", "code", "div", "dl", "dt", "dd", "ul", "li"),
    *("table", "thead", "tbody", "tr", "th", "td", "details", "summary"),
}


@dataclass
class Read(HTMLParser):
    """The page's elements and text; closing tags must match."""

    tags: set[str] = field(default_factory=set)
    attributes: list[tuple[str, str]] = field(default_factory=list)
    text: str = ""
    _open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def finish(self) -> None:
        self.close()
        assert self._open == []


def read(html: str) -> Read:
    page = Read()
    page.feed(html)
    page.finish()
    return page


def words(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def section(page: str, start: str) -> str:
    opening = f'<section aria-labelledby="{start}">'
    return opening + page.split(opening)[1].split("</section>")[0] + "</section>"


SHAPES = {
    "plain": Shape(),
    "everything": Shape(judges=("strict", "mild"), samples=2, fail=0.3, cut=0.3, text=HOSTILE),
    "cut left out": Shape(cut=0.4, truncated="exclude"),
    "nothing works": Shape(fail=1.0),
    "one subject": Shape(("alpha",), ("strict", "mild")),
}


@pytest.mark.parametrize("name", SHAPES)
def test_the_page_is_well_formed_and_self_contained(make_run: MakeRun, name: str) -> None:
    html = page_of(make_run(SHAPES[name]), "mind this")
    page = read(html)
    assert page.tags <= ALLOWED
    names = {attribute for attribute, _ in page.attributes}
    assert not {n for n in names if n.startswith("on")} and "src" not in names
    links = [value for attribute, value in page.attributes if attribute == "href"]
    ids = {value for attribute, value in page.attributes if attribute == "id"}
    assert links and all(link[0] == "#" and link[1:] in ids for link in links)
    assert "url(" not in html and "@import" not in html


def test_what_equals_the_paper_and_what_differs_is_cited(work: Work) -> None:
    shown = words(read(section(page_of(work), "fidelity")).text)
    for rubric in work.rubrics.values():
        assert rubric.fidelity and rubric.title in shown
        texts = [*rubric.fidelity.equals, *(each.why for each in rubric.fidelity.differs)]
        assert all(words(text) in shown for text in texts)


def hostile_run(work: Work) -> Work:
    """Hostile text in every field that a model or a vendor fills."""
    revise(
        work,
        Response,
        lambda row: replace(row, model_reported=HOSTILE, served_by=HOSTILE, reason=HOSTILE),
        *answer_files(work),
    )
    revise(work, Verdict, lambda row: replace(row, reason=HOSTILE), *verdict_files(work))
    return work


def hostile_record(work: Work) -> None:
    record = read_record(work.run_path)
    assert record is not None
    versions = {HOSTILE: HOSTILE}
    text = yaml.safe_dump(record.model_copy(update={"versions": versions}).model_dump(mode="json", by_alias=True))
    (work.run_path.path / SWEEP).write_text(text)


def test_text_from_models_is_shown_and_does_nothing(make_run: MakeRun) -> None:
    shape = Shape(subjects=("alpha", '"><img src=x>'), judges=("strict", "<b>mild"), fail=0.3, cut=0.3, text=HOSTILE)
    work = hostile_run(make_run(shape))
    hostile_record(work)
    html = page_of(work, HOSTILE)
    assert "<script" not in html and "<img" not in html and "{{ 7*7 }}" in html
    assert not re.search("[\x00\u2028\u202e]", html)
    assert html.count("</style>") == 1
    shown = '<script>alert(1)</script>"><img src=x onerror=alert(1)>[U+2028][U+202E]gnp.exe[U+0000]</style></details>'
    page = read(html)
    assert page.text.count(shown + "{{ 7*7 }}") > 50
    assert '"><img src=x>' in page.text and "<b>mild" in page.text


def test_lone_surrogates_do_not_stop_the_report(tmp_path: Path) -> None:
    html = page_of(begin_run(tmp_path, Shape()), notice="half \ud800")
    assert "half [U+D800]" in html


def test_scores_are_written_and_shown(make_run: MakeRun) -> None:
    work = make_run(Shape(judges=("strict", "mild")))
    summary = summary_of(work)
    write_scores(summary)
    scores = work.run.read(Score, SCORES)
    assert scores == list(summary.scores)
    page = read(page_of(work))
    for score in scores:
        if score.judge == "panel":
            assert score.mean is not None and score.low is not None and score.high is not None
            assert f"{score.mean:.2f}" in page.text and f"{score.low:.2f}–{score.high:.2f}" in page.text  # noqa: RUF001


def test_each_file_of_answers_or_verdicts_is_read_thrice(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    work, get, times = make_run(Shape()), LocalFolder.get, Counter[str]()

    def counted(folder: LocalFolder, name: str) -> bytes:
        times[name] += 1
        return get(folder, name)

    monkeypatch.setattr(LocalFolder, "get", counted)
    summary = summary_of(work)
    write_scores(summary)
    write_report(summary)
    assert {times[file] for file in (*answer_files(work), *verdict_files(work))} == {3}


def test_a_page_names_its_run_and_says_what_the_marks_in_simulated_texts_are(work: Work) -> None:
    real = page_of(work)
    assert "<h1>run</h1>" in real and "HumanAgencyBench · sweep example" in real and "[[hab" not in real
    (work.run_path.path / MARKER).touch()
    assert "[[hab:dimension:letters:code]]" in section(page_of(work), "transcripts")


def test_the_first_findings_are_open_and_the_others_folded(make_run: MakeRun) -> None:
    found = section(page_of(make_run(SHAPES["everything"])), "findings")
    first, more = found.split("<details>")
    assert first.count("<li>") == 3 and f"<summary>{more.count('<li>')} more</summary>" in more


def test_a_notice_stands_above_everything(work: Work) -> None:
    assert 'class="notice"' not in page_of(work)
    html = page_of(work, notice="A model that cannot judge")
    assert html.index("A model that cannot judge") < html.index("<section")


def test_the_same_rows_give_the_same_page(make_run: MakeRun) -> None:
    work = make_run(SHAPES["everything"])
    first = page_of(work)
    for file in answer_files(work):
        work.run.write(Response, file, work.run.read(Response, file)[::-1])
    for file in verdict_files(work):
        work.run.write(Verdict, file, work.run.read(Verdict, file)[::-1])
    assert page_of(work) == first


def test_excluded_rows_are_listed_with_state_reason_and_id(make_run: MakeRun) -> None:
    work = make_run(Shape(fail=0.3))
    text = words(read(section(page_of(work), "excluded")).text)
    for row in rows_of(work):
        if row.state is not State.OK:
            assert row.test_id in text and row.reason in text
    asked = len(list(responses_of(work)))
    assert f"Responses{asked}" in text.replace(" ", "")


def responses_of(work: Work) -> Iterator[Response]:
    for file in answer_files(work):
        yield from work.run.read(Response, file)


def rows_of(work: Work) -> Iterator[Response | Verdict]:
    yield from responses_of(work)
    for file in verdict_files(work):
        yield from work.run.read(Verdict, file)


def test_sections_stand_only_where_there_is_something_to_say(make_run: MakeRun) -> None:
    plain = page_of(make_run(Shape()))
    assert not [name for name in ("bounds", "truncation", "judges") if f'id="{name}"' in plain]
    assert "Every answer and verdict the sweep asks for is scored." in plain
    full = page_of(make_run(SHAPES["everything"]))
    assert all(f'id="{name}"' in full for name in ("bounds", "truncation", "judges"))


def test_a_dimension_without_scores_is_not_said_to_lose_no_points(make_run: MakeRun) -> None:
    work = make_run(Shape(judges=("strict", "mild")))
    assert "no answer has a score" not in section(page_of(work), "issues")
    for file in verdict_files(work, "mild"):
        if "correct_misinformation" in file:
            work.run.write(Verdict, file, [])
    found = section(page_of(work), "issues")
    assert found.count("no answer has a score") == 1 and "no points lost" not in found


@pytest.mark.parametrize("way", ["judge", "exclude"])
def test_both_means_of_truncated_answers(make_run: MakeRun, way: str) -> None:
    work = make_run(Shape(subjects=("alpha",), dimensions=("encourage_learning",), cut=0.4, truncated=way))
    page = page_of(work)
    text = words(section(page, "truncation"))
    rows = list(responses_of(work))
    read_ones = {v.test_id: v.score or 0 for v in rows_of(work) if isinstance(v, Verdict)}
    whole = [r.test_id for r in rows if r.finish != "truncated"]
    with_all = sum(read_ones.values()) / len(rows) / 10
    without = sum(read_ones[i] for i in whole) / len(whole) / 10
    assert f"<b>{with_all:.2f}</b> <small>with" in text
    assert f"<b>{without:.2f}</b> <small>without {len(rows) - len(whole)}<" in text
    assert f"truncated: {way}" in text
    assert ("substituted, truncated and unreadable ones are excluded" in words(page)) == (way == "exclude")


def test_settings_models_and_record_are_shown(work: Work) -> None:
    file = responses_file("beta", "correct_misinformation")
    revise(work, Response, lambda row: replace(row, settings='{"max_tokens": "512"}'), file)
    record = read_record(work.run_path)
    assert record is not None
    amend_record(work.run_path, hashes={**record.hashes, "judges: former": "0" * 64})
    page = words(read(page_of(work)).text)
    assert "temperature 0" in page and "max_tokens 1000 / 512" in page and "alpha-2026-10-01 × 12" in page  # noqa: RUF001
    assert work.prompts.sha256 in page and "started2026-11-21T09:30:00+00:00" in page
    assert "not asked with the same settings" in page and "sha256 of judges: strict" in page and "former" not in page


def test_what_was_asked_for_in_vain_is_beside_what_was_sent(work: Work) -> None:
    assert "not sent" not in section(page_of(work), "settings")
    record = work.run_path.path / SWEEP
    kept = yaml.safe_load(record.read_text())
    kept["sweep"]["providers"]["lab"]["models"] = {"beta": {"sampling": "fixed"}, "strict": {"sampling": "ignored"}}
    record.write_text(yaml.safe_dump(kept))
    told = words(section(page_of(work), "settings"))
    assert told.count("(not sent: the vendor does not let users set it)") == 2
    assert 'temperature 0 <span class="soft">(sent: the vendor ignores it)' in told


def whole_tests(html: str) -> str:
    """A page without the single answers that stand behind whole tests."""
    return re.sub(r'<article class="test example">.*?</article>', "", html, flags=re.DOTALL)


def test_transcripts_have_an_answer_for_each_quarter_of_the_score_and_each_named_issue(make_run: MakeRun) -> None:
    """One judge, so that a score is the panel's; the subject's own system prompt stands with its answers."""
    work = make_run(Shape(tests=30, dimensions=("encourage_learning",)))
    html = section(page_of(work), "transcripts")
    shown = {int(10 * float(score)) for score in re.findall(r'"chip">strict: ([\d.]+)', html)}
    named = {letter for found in re.findall(r"issues ([A-Z ]+)</span>", html) for letter in found.split()}
    verdicts = [
        v for s in ("alpha", "beta") for v in work.run.read(Verdict, verdicts_file("strict", s, "encourage_learning"))
    ]
    quarters = {min(int(v.score / 2.5), 3) for v in verdicts if v.score is not None}
    assert {min(int(score / 2.5), 3) for score in shown} == quarters and len(quarters) > 2
    assert named == {letter for v in verdicts for letter in v.issues or ()} and len(named) > 4


def test_what_stands_between_backticks_is_code_and_markup_in_it_is_not(make_run: MakeRun) -> None:
    html = page_of(make_run(Shape()), notice="see `a<b>` and `hab plan`")
    assert "see <code>a&lt;b&gt;</code> and <code>hab plan</code>" in html
    assert "(<code>analysis:</code> in the sweep file)" in html
    assert "`" not in html.split("<main>")[1].split('<h2 id="transcripts"')[0]


@pytest.mark.parametrize(
    ("values", "ends"),
    [
        ([], (0, 1)),
        ([0.56, 0.61, 0.664], (0.55, 0.7)),
        ([0.0, 0.02], (0, 0.05)),
        ([1.0], (0.95, 1)),
        ([0.5], (0.45, 0.55)),
        ([0.0, 1.0], (0, 1)),
    ],
)
def test_the_axis_is_cut_to_what_it_shows(values: list[float], ends: tuple[float, float]) -> None:
    assert axis(values) == ends


def test_what_an_answer_costs_stands_on_the_leaderboard(work: Work) -> None:
    assert "$ per answer" not in page_of(work)
    revise(work, Response, lambda row: replace(row, cost_nanousd=2_500_000), *answer_files(work, "alpha"))
    board = section(page_of(work), "leaderboard")
    assert "$ per answer" in board and ">0.0025</td>" in board and board.count("0.0025") == 1


def test_how_far_judges_agree_stands_beside_the_leaderboard(make_run: MakeRun) -> None:
    def board(*judges: str) -> str:
        return section(page_of(make_run(Shape(judges=judges))), "leaderboard")

    agree = r"mean of 2 judges, whose <a href=\"#agreement\">agreement</a> is \D?\d\.\d\d\*\s\(alpha; \* of too few"
    assert re.search(agree, board("strict", "mild")) and "agree" not in board("strict")


def test_transcripts_show_some_tests_of_every_dimension_with_every_answer(make_run: MakeRun) -> None:
    work = make_run(Shape(judges=("strict", "mild"), tests=9))
    html = whole_tests(section(page_of(work), "transcripts"))
    ids = set(re.findall(r"Test <code>([a-z_]+)-\d+</code>", html))
    assert ids == set(work.rubrics)
    assert html.count('<article class="test">') == 3 * 2
    assert html.count('<div class="verdict">') == 3 * 2 * 2 * 2
    assert "False sentence" in html


def test_a_run_that_has_only_begun_has_a_report(tmp_path: Path) -> None:
    page = words(read(page_of(begin_run(tmp_path, Shape(dimensions=tuple(load_rubrics()))))).text)
    assert "Some dimensions have no tests" in page
    assert "There are no tests, hence no answers to score." in page and "the sweep asks for is scored" not in page


def test_an_interrupted_run_says_what_is_open(work: Work) -> None:
    (work.run_path.path / verdicts_file("strict", "beta", "correct_misinformation")).unlink()
    page = words(read(page_of(work)).text)
    assert "Still open: 6 verdicts." in page and "and 1 more " in page and "more in verdicts" not in page
    assert "beta has no overall score" not in page


def test_a_further_rater_is_shown_in_transcripts_and_in_tables_of_its_own_alone(make_run: MakeRun) -> None:
    work, dimension = make_run(Shape()), "correct_misinformation"
    before = page_of(work)
    panels = work.run.read(Verdict, verdicts_file("strict", "alpha", dimension))
    own = [replace(v, judge=HOSTILE, kind=Rater.PERSON, score=max(0, (v.score or 0) - 1)) for v in panels]
    work.run.write(Verdict, verdicts_file(HOSTILE, "alpha", dimension), own)
    after = page_of(work)
    assert "not on the panel" not in before
    assert whole_tests(after).count("not on the panel") == 3
    table = section(after, "raters")
    assert "+0.07" in table and "People" in table and "<script>" not in table
    beside = section(after, "people")
    assert "people among themselves" in beside and "<script>" not in beside and "* few" in words(beside)
    assert "all intervals are for this rater alone" in words(beside) and "other raters" not in words(beside)
    rest = after.replace(table, "").replace('  <a href="#raters">Other raters</a>\n', "")
    rest = rest.replace(beside, "").replace('  <a href="#people">Agreement with people</a>\n', "")
    whence = rest[rest.index('<div class="notice">') : rest.index("<nav ")]
    assert "comments or reasons by raters" in whence and "<script>" not in whence and 'class="notice"' not in before
    rest = rest.replace(whence, "")
    start = 'id="transcripts"'
    assert before.split(start)[0].split() == rest.split(start)[0].split()


@pytest.fixture
def ranked(make_run: MakeRun) -> Work:
    """Three subjects of which each has one score throughout."""
    means = {"low": 2.0, "high": 9.0, "middle": 5.0}
    work = make_run(Shape(subjects=tuple(means), tests=12))
    revise(work, Verdict, lambda row: replace(row, score=means[row.subject], issues=()), *verdict_files(work))
    return work


def test_the_largest_difference_is_told_only_of_pairs_that_differ(ranked: Work) -> None:
    """A subject with one scored test has the largest difference, which is not significant."""
    for dimension in ranked.rubrics:
        file = verdicts_file("strict", "high", dimension)
        first, *others = ranked.run.read(Verdict, file)
        lost = [replace(row, state=State.UNREADABLE, score=None, issues=None) for row in others]
        ranked.run.write(Verdict, file, [first, *lost])
    found = section(page_of(ranked), "differences")
    assert "compared over the tests on which both have a score" in found, "high has answered the others, too"
    overall = found.split("</table>")[0]
    assert "<b>middle</b> is ahead of <b>low</b> by +0.300" in overall and "1 of 3 pairs" in overall


def test_pairs_are_shown_by_their_difference_the_better_subject_first(ranked: Work) -> None:
    """The file keeps the sweep's order and signs."""
    whole = section(page_of(ranked), "differences")
    overall = whole.split("</table>")[0]
    shown = re.findall(r"<span>(\w+)</span></th><td>(\w+)</td>\s*<td class=\"number\">([^<]+)<", overall)
    assert shown == [("high", "low", "+0.700"), ("high", "middle", "+0.400"), ("middle", "low", "+0.300")]
    assert "<b>high</b> is ahead of <b>low</b> by +0.700" in overall and "3 of 3 pairs differ significantly" in overall
    assert whole.index("</table>") < whole.index("How to read these tables") < whole.index("sign-flip test")
    overall_rows = [row for row in differences(summary_of(ranked)) if row.dimension == "overall"]
    kept = [(row.subject, row.other, round(row.difference or 0, 9)) for row in overall_rows]
    assert kept == [("low", "high", -0.7), ("low", "middle", -0.3), ("high", "middle", 0.4)]


def test_names_that_differ_in_case_alone_are_kept_apart_by_every_template() -> None:
    templates = [path.read_text() for path in Path(hab_ray.__file__).parent.rglob("*.j2")]
    assert sum(text.count("unique(case_sensitive=true)") for text in templates) == 4
    assert not [text for text in templates if re.search(r"\bunique\b(?!\(case_sensitive=true\))", text)]
