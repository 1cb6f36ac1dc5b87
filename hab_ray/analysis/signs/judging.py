"""Checks of whether the judges can be trusted."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from hab_ray.analysis.agreement import LOW_ALPHA, LowAgreement, in_words
from hab_ray.analysis.evidence.verdicts import VerdictTexts
from hab_ray.analysis.marks import OVERALL
from hab_ray.analysis.row_status import MissingReason, StatusCount
from hab_ray.analysis.signs.finding import Finding, Severity, percent, spoken
from hab_ray.analysis.tables.trust.agreement import Agreed
from hab_ray.analysis.tables.trust.people import PeopleAgreed
from hab_ray.analysis.tables.trust.preferences import ITSELF, VENDOR, Preference
from hab_ray.rows import State
from hab_ray.visible import decimal

TOLERATED_UNREADABLE, TOLERATED_COPIES, TOLERATED_DENIALS = 0.05, 0.02, 0.02
MAX_ALIKE, MAX_EVERYTHING = 0.5, 0.2
MIN_VERDICTS = 10
_SUCH_A_PANEL = {
    LowAgreement.LITTLE: f"Below {LOW_ALPHA}, differences between subjects may depend on which judges were asked.",
    LowAgreement.PERHAPS_LITTLE: f"Too little was judged to tell whether it is below {LOW_ALPHA}. There, differences "
    "between subjects may depend on which judges were asked.",
    LowAgreement.LITTLE_OR_CHANCE: "Scores by such a panel say little or nothing about the subjects.",
    LowAgreement.CHANCE: "Scores by such a panel say nothing about the subjects.",
    LowAgreement.PERHAPS_CHANCE: "Too little was judged to tell whether scores by this panel say anything about the "
    "subjects.",
}
_ASK_ANOTHER = "Read some of its assessments in the transcripts, and ask another judge or take it out of `judges:`."


def chance(agreed: Sequence[Agreed], rated: Sequence[PeopleAgreed]) -> Iterator[Finding]:
    """Report judges whose agreement may be chance, or is low; `rated` is empty if no people have rated."""
    if not agreed or not agreed[0].is_low:
        return
    value, low, high = agreed[0].value, agreed[0].low, agreed[0].high
    if low is None or high is None:
        how = LowAgreement.PERHAPS_CHANCE
        interval = "without an interval because a dimension's tests are all from one generation call"
    else:
        how = LowAgreement.of(low, high, agreed[0].reliable)
        interval = f"its {in_words(low, high)}"
    measured = f"Krippendorff's alpha is {decimal(value or 0.0, 2)}, {interval}: 0 is chance, 1 perfect agreement."
    people = (
        "see which judge agrees with people (`hab agreement`)" if rated else "have people rate a sample (`raters:`)"
    )
    remedy = f"Read each judge's own scores, and {people}."
    detail = f"{measured} {_SUCH_A_PANEL[how]}"
    yield Finding("agreement", Severity.HIGH, f"The judges {how}", detail, remedy, value)


def ambiguous_rubrics(agreed: Sequence[Agreed]) -> Iterator[Finding]:
    """Report dimensions with low agreement if it is not low overall: the paper's sign of an unclear rubric."""
    if agreed and agreed[0].is_low:
        return
    low = [
        (row.value, row.dimension)
        for row in agreed
        if row.issue is None and row.dimension != OVERALL
        if row.reliable and row.value is not None and row.value < LOW_ALPHA
    ]
    if low:
        listed = ", ".join(f"{spoken(dimension)} ({decimal(value, 2)})" for value, dimension in sorted(low))
        yield Finding(
            "ambiguous_rubric",
            Severity.MEDIUM,
            "The judges agree little in some dimensions",
            f"Krippendorff's alpha is below {LOW_ALPHA} in {listed}: the rubric may be ambiguous.",
            "See on which issues the judges disagree (Agreement between judges), and reword those (`rubrics:`).",
            min(low)[0],
        )


def judges_without_scores(statuses: Iterable[StatusCount]) -> Iterator[Finding]:
    """Report judges without a single scored verdict."""
    for judge, counts in _ended_by_judge(statuses).items():
        if not counts[State.OK]:
            why = ", ".join(f"{count} {state}" for state, count in counts.items())
            yield Finding(
                "no_scores",
                Severity.HIGH,
                f"{judge} has no scored row",
                f"None of its {counts.total()} verdicts has a score ({why}), so the panel has none either.",
                "Read the reasons under excluded rows, and ask another judge or remove it from `judges:`.",
                counts.total(),
            )


def lost_verdicts(statuses: Iterable[StatusCount]) -> Iterator[Finding]:
    """Report judges with more than 5 % unreadable verdicts."""
    for judge, counts in _ended_by_judge(statuses).items():
        lost, ended = counts[State.UNREADABLE], counts.total()
        if lost > TOLERATED_UNREADABLE * ended and counts[State.OK]:
            yield Finding(
                "unreadable",
                Severity.HIGH,
                f"More than {percent(TOLERATED_UNREADABLE)} of {judge}'s verdicts are unreadable",
                f"{lost} of {ended}. Verdicts are seldom lost at random, and a judge that does not keep to the format "
                "is seldom a good one.",
                "Ask a model with an enforced schema, whose verdicts are always readable.",
                lost / ended,
            )


def unreadable(statuses: Iterable[StatusCount]) -> list[str]:
    """Describe each judge with unreadable verdicts as "judge lost of ended"."""
    ended = _ended_by_judge(statuses)
    return [f"{judge} {n[State.UNREADABLE]} of {n.total()}" for judge, n in ended.items() if n[State.UNREADABLE]]


def _ended_by_judge(statuses: Iterable[StatusCount]) -> dict[str, Counter[State | MissingReason]]:
    found: dict[str, Counter[State | MissingReason]] = defaultdict(Counter)
    for status in statuses:
        if status.judge is not None and status.state is not MissingReason.OPEN:
            found[status.judge][status.state] += status.count
    return found


def empty_verdicts(read: Sequence[VerdictTexts]) -> Iterator[Finding]:
    """Report judges that copy the request, repeat one assessment, or name every issue of one answer in five."""
    by_judge: dict[str, list[VerdictTexts]] = defaultdict(list)
    for each in read:
        by_judge[each.judge].append(each)
    for judge, cells in by_judge.items():
        ended, copied = sum(cell.ended for cell in cells), sum(cell.copied for cell in cells)
        if copied > TOLERATED_COPIES * ended:
            detail = f"{copied} of {ended} verdicts only repeat the request and count as unreadable. "
            detail += "Its other verdicts may be no better founded."
            title = f"{judge} copies the request instead of assessing"
            yield Finding("copied", Severity.HIGH, title, detail, _ASK_ANOTHER, copied / ended)
        enough = [cell for cell in cells if cell.scored >= MIN_VERDICTS]
        same = {cell.dimension: cell.alike / cell.scored for cell in enough if cell.alike > MAX_ALIKE * cell.scored}
        if same:
            detail = f"{_shares(same)} of its verdicts have the same assessment."
            title = f"{judge} says the same of most answers"
            yield Finding("same_assessment", Severity.HIGH, title, detail, _ASK_ANOTHER, max(same.values()))
        lists = {c.dimension: c.everything / c.scored for c in enough if c.everything > MAX_EVERYTHING * c.scored}
        if lists:
            detail = f"It names all issues of the rubric in {_shares(lists)} of its verdicts, even contradictory ones."
            title = f"{judge} lists every issue"
            yield Finding("lists_everything", Severity.HIGH, title, detail, _ASK_ANOTHER, max(lists.values()))


def contradictory_verdicts(read: Sequence[VerdictTexts]) -> Iterator[Finding]:
    """Report judges that list issues which their own assessment denies, in more than 2 % of their scored verdicts."""
    for judge in dict.fromkeys(cell.judge for cell in read):
        cells = [cell for cell in read if cell.judge == judge]
        scored, denied = sum(cell.scored for cell in cells), sum(cell.denied for cell in cells)
        if denied > TOLERATED_DENIALS * scored:
            one = next(cell.example for cell in cells if cell.example is not None)
            yield Finding(
                "denies_what_it_lists",
                Severity.HIGH,
                f"{judge} lists issues that its own assessment denies",
                f"{denied} of {scored} scored verdicts say that an issue is not present and still list it, for example "
                f"{', '.join(one.letters)} of {one.subject} in {one.test}. The score follows the list.",
                _ASK_ANOTHER,
                denied / scored,
            )


def _shares(by_dimension: Mapping[str, float]) -> str:
    return ", ".join(f"{percent(share)} ({spoken(dimension)})" for dimension, share in by_dimension.items())


def partial_judges(rows: Iterable[Preference]) -> Iterator[Finding]:
    """Report judges that judge their own answers, and those that favour these or their vendor's models."""
    overall = [row for row in rows if row.kind in (ITSELF, VENDOR) and row.dimension == OVERALL]
    for row in overall:
        whose = "its own answers" if row.kind == ITSELF else "answers of its vendor's models"
        if row.is_significant and row.value is not None and row.low is not None and row.high is not None:
            yield Finding(
                f"prefers_{row.kind}",
                Severity.MEDIUM,
                f"{row.judge} gives {'more' if row.value > 0 else 'less'} to {whose} than other judges do",
                f"{row.value:+z.3f} on the scale of 0 to 1 (95 % interval {row.low:+z.3f} to {row.high:+z.3f}, "
                "uncorrected), "
                "beyond what it gives to others.",
                "Compare these subjects by the other judges' scores (Scores by judge).",
                row.value,
            )
        elif row.kind == ITSELF:
            measured = (
                "" if row.value is None else f"Its scores for them differ by {row.value:+z.3f}, which may be chance."
            )
            yield Finding(
                "judges_itself",
                Severity.LOW if row.value is not None else Severity.MEDIUM,
                f"{row.judge} judges its own answers",
                measured or f"Whether it favours them is not known: {row.why}.",
                "Add judges of other vendors, or read the ranks without this judge (Robustness of ranks).",
                row.value,
            )
