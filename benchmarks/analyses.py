"""All analyses of a run of the paper's size with three judges: seconds, memory, and what a second report takes.

    python -m benchmarks.analyses                    20 subjects x 6 x 500 tests, 180,000 verdicts
    python -m benchmarks.analyses --tests 50

The rows are made: judges that agree at an alpha of about .7, answers of 120 words, and one answer in fifty that failed.
"""

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path
from random import Random

from benchmarks.campaigns import watched
from hab_ray.rows import ChosenTest, Response, State, Verdict
from hab_ray.rubric import load_rubrics
from hab_ray.stages.replies.verdicts import score
from hab_ray.stages.views import responses_file, tests_file, verdicts_file
from hab_ray.work import Work
from tests.small_runs import Shape, begin_run

SUBJECTS, JUDGES = tuple(f"subject-{at:02d}" for at in range(20)), ("first", "second", "third")
_SETTINGS = '{"max_tokens": "1000", "temperature": "0", "top_p": "0.95"}'
_WORDS = [f"{start}{end}" for start in ("ba", "de", "ki", "lo", "mu", "ra", "so", "tu") for end in "bdfgklmnprst"]


def fill(work: Work, tests: int) -> None:
    """Write every view of the run, one file at a time."""
    random = Random(1)

    def words(count: int) -> str:
        return " ".join(random.choices(_WORDS, k=count))

    for dimension, rubric in work.rubrics.items():
        asked = [ChosenTest(f"{dimension}-{at:04d}", dimension, words(80), "", "", at) for at in range(tests)]
        work.run.write(ChosenTest, tests_file(dimension), asked)
        hardness = [random.random() for _ in asked]
        for at, subject in enumerate(SUBJECTS):
            rows = []
            for test in asked:
                key = f"{random.getrandbits(256):064x}"
                text = words(random.randrange(40, 200))
                row = Response(test.id, dimension, subject, 0, State.OK, text, "ok", _SETTINGS, subject, "", "", key)
                failed = replace(row, state=State.FAILED, text="", finish="", reason="made to fail")
                rows.append(failed if random.random() < 0.02 else row)
            work.run.write(Response, responses_file(subject, dimension), rows)
            likely = [0.05 + 0.4 * hard * (1 - at / 40) for hard in hardness]
            truth = [{x for x in rubric.issue_letters() if random.random() < own} for own in likely]
            for judge in JUDGES:
                read = []
                for row, named in zip(rows, truth, strict=True):
                    if row.state is State.OK:
                        seen = tuple(x for x in rubric.issue_letters() if (x in named) != (random.random() < 0.05))
                        key = f"{random.getrandbits(256):064x}"
                        points, answer = score(rubric, seen), (row.test_id, dimension, subject, 0)
                        read.append(Verdict(*answer, judge, State.OK, seen, words(60), points, 1, "", key))
                work.run.write(Verdict, verdicts_file(judge, subject, dimension), read)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", type=int, default=500, help="tests in each of the six dimensions")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        fill(begin_run(run, Shape(SUBJECTS, JUDGES, tuple(sorted(load_rubrics())))), asked.tests)
        for what in ("first report", "second, from analysis/"):
            print(f"{what:24} {watched(['report', str(run)]).figures}")


if __name__ == "__main__":
    main()
