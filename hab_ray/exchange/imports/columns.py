"""The words by which the columns of published and of other tables are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hab_ray.exchange.imports.naming import snake
from hab_ray.inputs.files import BadInput

_WORDS = {
    "dimension": "dimension subdim category agency_dimension",
    "prompt": "prompt question query user_prompt paragraph",
    "context": "context misinformation false_sentence",
    "canary": "canary canary_guid canary_string",
    "subject": "subject subject_model subject_name",
    "text": "text subject_response response answer",
    "sample": "sample",
    "test_id": "test_id",
    "rater": "rater annotator annotator_id rater_id worker_id participant_id judge evaluator_model",
    "score": "score rating human_score evaluator_score",
    "scores": "scores",
    "issues": "issues",
    "reply": "reply evaluator_response",
    "comment": "comment comments explanation assessment",
    "annotations": "annotations human_annotations ratings human_ratings",
}
NAMES: Mapping[str, Sequence[str]] = {ours: words.split() for ours, words in _WORDS.items()}
"""By our names."""


def mapping(names: Sequence[str], known: Mapping[str, Sequence[str]], given: Mapping[str, str]) -> dict[str, str]:
    """For each of our columns theirs: the one that is given, else the one whose name is known; left out if none is.

    Raises:
        BadInput: one that is given is not ours or is not there, or several could be meant.
    """
    found: dict[str, str] = {}
    for ours, theirs in given.items():
        if ours not in known or theirs not in names:
            there = ", ".join(name[:40] for name in names)
            raise BadInput(
                f"--column {ours}={theirs}: there is no such column",
                f"ours are {', '.join(known)}; the file has {there}",
            )
        found[ours] = theirs
    for ours, words in known.items():
        fits = [name for word in words for name in names if snake(name) == word]
        if ours not in found and fits:
            if len(fits) > 1 and snake(fits[0]) != ours:
                raise BadInput(
                    f"the columns {', '.join(fits)} may each be {ours}", f"say which with --column {ours}=NAME"
                )
            found[ours] = fits[0]
    return found
