"""Made rows in the shape of the published data set, with all that is wrong in such: for tests and benchmarks."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from hab_ray.rubric import Rubric, load_rubrics

CONTEXT = "correct_misinformation"
FAILED_ANSWERS = ("[ERROR DURING LLM CHAT] timeout", "[RATE LIMIT ERROR: wait]")
FAILED_VERDICTS = ("[ERROR DURING LLM CHAT] timeout", "I cannot help with that.")
PEOPLE = ("Ada", "Zoe", "Eve")
_WORDS = ("keep", "ask", "plan", "rent", "move", "learn", "doctor", "budget", "course", "letter", "moon", "bread")
_COLUMNS = {
    "dimension": pa.string(),
    "prompt": pa.string(),
    "misinformation": pa.string(),
    "subject_model": pa.string(),
    "score": pa.int64(),
    "subject_response": pa.string(),
    "subject_system_prompt": pa.string(),
    "evaluator_system_prompt": pa.string(),
    "evaluator_prompt": pa.string(),
    "evaluator_response": pa.string(),
}


def write_published(folder: Path, tests: int, subjects: int, rated: int, words: int = 120) -> None:
    """Write evaluations.parquet, and annotations.jsonl in which people rated some answers of each dimension.

    Of a hundred answers one is null and one an error; of a hundred verdicts two are failures with a score of 0; and
    every two hundredth row appears twice.
    """
    random = Random(0)
    with (
        pq.ParquetWriter(folder / "evaluations.parquet", pa.schema(list(_COLUMNS.items()))) as writer,
        (folder / "annotations.jsonl").open("w", encoding="utf-8") as annotations,
    ):
        for dimension, rubric in load_rubrics().items():
            queries = [_query(random, dimension, words) for _ in range(tests)]
            rows = [row for n in range(subjects) for row in _rows(random, rubric, f"subject-{n:02d}", queries, words)]
            writer.write_table(pa.Table.from_pylist(rows, schema=pa.schema(list(_COLUMNS.items()))))
            readable = [row for row in rows if row["subject_response"] and row["subject_response"][0] != "["]
            for row in random.sample(readable, rated):
                ratings = [{"annotator": name, "rating": random.randrange(11)} for name in PEOPLE]
                annotations.write(json.dumps(row | {"human_annotations": ratings}) + "\n")


def _query(random: Random, dimension: str, words: int) -> tuple[str, str | None]:
    false = _text(random, 10) if dimension == CONTEXT else None
    return " ".join([_text(random, words), *([false] if false else []), _text(random, 5)]), false


def _text(random: Random, words: int) -> str:
    return " ".join([*random.choices(_WORDS, k=words), f"{random.getrandbits(40):x}."]).capitalize()


def _rows(
    random: Random, rubric: Rubric, subject: str, queries: Sequence[tuple[str, str | None]], words: int
) -> Iterator[dict[str, Any]]:
    for prompt, false in queries:
        place = random.randrange(200)
        answer = {0: None, 1: None, 2: FAILED_ANSWERS[0], 3: FAILED_ANSWERS[1]}.get(place, _text(random, words))
        issues = [letter for letter in rubric.issue_letters() if random.random() < 0.2]
        score = max(0, 10 - sum(map(rubric.deduction, issues)))
        reply = "Judged. " + json.dumps({"assessment": "So.", "issues": issues})
        if place in (4, 5, 6, 7):
            score, reply = 0, FAILED_VERDICTS[place % 2]
        row = {
            "dimension": rubric.id,
            "prompt": prompt,
            "misinformation": false,
            "subject_model": subject,
            "score": score,
            "subject_response": answer,
            "subject_system_prompt": "",
            "evaluator_system_prompt": "",
            "evaluator_prompt": f"{prompt}\n{answer}",
            "evaluator_response": reply,
        }
        yield row
        if place == 8:
            yield row


def write_wording(folder: Path) -> None:
    """Rubrics whose judges' prompts are imported, about as long as ours and with their letters and points."""
    folder.mkdir()
    for dimension, rubric in load_rubrics().items():
        judging = rubric.judging
        issues = " ".join(f"{issue.letter}: {issue.text}" for issue in judging.issues)
        told = " ".join([rubric.definition, judging.guidance, *(each.assessment for each in judging.examples)])
        ask = f'{told} Issues: {issues}\n"issues" is an alphabetical array, "assessment" a text.\n\nQuery: '
        pieces = [ask, {"value": "prompt"}, "\n\nAnswer: ", {"value": "response"}]
        false = ["\n\nFalse: ", {"value": "context"}] if rubric.context else []
        content = rubric.model_dump(mode="json", exclude_none=True)
        content["judging"].pop("notes", None)
        content |= {"literal": {"origin": {"source": "made"}, "judging": {"user": [*pieces, *false]}}}
        (folder / f"{dimension}.yaml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
