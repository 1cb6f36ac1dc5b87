"""Compares a run with the truth planted in the simulator: rows, means, and evidence that judges missed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from hab_ray.analysis.marks import OVERALL
from hab_ray.analysis.summary import Summary
from hab_ray.rehearse.bridge import compare_bridge
from hab_ray.rehearse.figures import NOTHING, Checked, Figures, all_same
from hab_ray.rehearse.requests import wrong_requests
from hab_ray.rehearse.rows import compare_rows
from hab_ray.rehearse.selection import wrong_choice
from hab_ray.rehearse.stability import wrong_making
from hab_ray.rehearse.tables import wrong_tables
from hab_ray.rehearse.truth import ScoreKey, Truth
from hab_ray.results import Run
from hab_ray.rows import Score, from_table
from hab_ray.work import Work
from hab_simulator import MissingEvidence, SimulatorClient


@dataclass(frozen=True)
class ComparedMean:
    """A score of a run and the one computed from the planted truth.

    `judge` may be "panel", `dimension` "overall". `times` is how often the run has the score; `planted` is None for an
    unexpected score.
    """

    subject: str
    dimension: str
    judge: str
    times: int
    found: Figures
    planted: Figures | None

    @property
    def recovered(self) -> bool:
        """Whether the run has the score once, with mean, interval and number of answers as planted."""
        found, planted = self.found, self.planted
        if self.times != 1 or planted is None or found.n != planted.n:
            return False
        return all_same((found.mean, found.low, found.high), (planted.mean, planted.low, planted.high))

    def __str__(self) -> str:
        place = f"{self.subject}, {self.dimension}, judge {self.judge}"
        more = "" if self.times == 1 else f"; it is there {self.times} times"
        planted = _shown(self.planted) if self.planted else "nothing"
        return f"{place}: {_shown(self.found)}, planted {planted}{more}"


@dataclass(frozen=True)
class Comparison:
    """A run compared with the truth. `cells` are the scores by dimension, `overall` the others.

    `people` covers planted ratings, `bridge` the comparison of judges with earlier ones. `findings` are other problems:
    wrong requests to models, wrongly chosen tests, and wrong tables of results.
    """

    cells: tuple[ComparedMean, ...]
    overall: tuple[ComparedMean, ...]
    rows: Checked
    missing: tuple[MissingEvidence, ...]
    people: Checked = NOTHING
    findings: tuple[str, ...] = ()
    bridge: Checked = NOTHING

    @property
    def wrong_cells(self) -> tuple[ComparedMean, ...]:
        """Scores that were not recovered."""
        return tuple(cell for cell in (*self.cells, *self.overall) if not cell.recovered)

    @property
    def problems(self) -> Mapping[str, Sequence[object]]:
        """All problems by what was compared."""
        return {
            "what judges were shown": self.missing,
            "requests, chosen tests and tables": self.findings,
            "answers and verdicts": self.rows.wrong,
            "scores": self.wrong_cells,
            "ratings by people": self.people.wrong,
            "judges now and then": self.bridge.wrong,
        }

    @property
    def passed(self) -> bool:
        """Whether there is something to compare and everything is as planted."""
        is_planted = any(cell.planted and cell.planted.n for cell in self.cells)
        return is_planted and not any(self.problems.values())


def compare(work: Work, summary: Summary, client: SimulatorClient) -> Comparison:
    """Compare a run and its tables with the truth planted in its simulator. Raises as `compare_stored`."""
    truth = Truth(work, client)
    stored = compare_stored(work, summary.run, client, truth)
    return replace(
        stored,
        findings=(*stored.findings, *wrong_tables(summary, truth), *wrong_making(work, summary, client.meter())),
        bridge=compare_bridge(work, summary, truth),
    )


def compare_stored(work: Work, run: Run, client: SimulatorClient, truth: Truth) -> Comparison:
    """Compare a run's rows, stored scores, requests and chosen tests with the truth planted in its simulator.

    Raises:
        DamagedFile: a file of the run cannot be read.
        ConfigError: a built-in rubric's letters differ from the paper's.
    """
    scores = compare_scores(from_table(Score, run.scores()), truth.scores())
    return Comparison(
        cells=tuple(score for score in scores if score.dimension != OVERALL),
        overall=tuple(score for score in scores if score.dimension == OVERALL),
        rows=compare_rows(run, truth),
        missing=client.missing(),
        findings=(*wrong_requests(work, client), *wrong_choice(work, client)),
    )


def compare_scores(found: Iterable[Score], planted: Mapping[ScoreKey, Figures]) -> list[ComparedMean]:
    """Compare every planted score with the run's; append the run's unexpected scores."""
    by_key: dict[ScoreKey, list[Figures]] = {key: [] for key in planted}
    for score in found:
        key = score.subject, score.dimension, score.judge
        by_key.setdefault(key, []).append(Figures(score.mean, score.low, score.high, score.n))
    nothing = Figures(None, None, None, 0)
    return [
        ComparedMean(*key, len(given), given[0] if given else nothing, planted.get(key))
        for key, given in by_key.items()
    ]


def _shown(score: Figures) -> str:
    if score.mean is None:
        return f"no mean over {score.n} answers"
    interval = "" if score.low is None or score.high is None else f" ({score.low:.6f} to {score.high:.6f})"
    return f"{score.mean:.6f}{interval} over {score.n} answers"
