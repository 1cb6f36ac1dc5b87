"""The published data sets on the Hugging Face hub, at a revision that a user pins."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from hab_ray.errors import ConfigError
from hab_ray.exchange.imports.checkout import canaries_in
from hab_ray.inputs.files import BadInput, text_of
from hab_ray.inputs.yaml_text import parse_yaml
from hab_ray.visible import one_line

_COMMIT = re.compile(r"[0-9a-f]{40}")
CARD = "README.md"


@dataclass(frozen=True)
class DataSet:
    """A data set on the hub: its file, and what its card says of its size and columns.

    Where `file` is None, it is the only one of JSON. `judge` gave the scores where no column says who; people rated
    `rated` of the answers.
    """

    repo: str
    file: str | None
    rows: int
    tests: int
    columns: tuple[str, ...]
    judge: str | None = None
    rated: int = 0


@dataclass(frozen=True)
class Downloaded:
    """A file of a data set at a revision, and licence and canaries of the data set's card."""

    path: Path
    source: str
    licence: str
    canaries: tuple[str, ...]


EVALUATIONS = DataSet(
    "Experimental-Orange/HumanAgencyBench_Evaluation_Results",
    "evaluations.parquet",
    rows=60_000,
    tests=3_000,
    columns=("dimension", "prompt", "misinformation", "subject_model", "subject_response", "score"),
    judge="o3",
)
ANNOTATIONS = DataSet(
    "Experimental-Orange/HumanAgencyBench_Human_Annotations", None, rows=60_000, tests=3_000, columns=(), rated=900
)


def download(data_set: DataSet, revision: str) -> Downloaded:
    """The data set's file and card at a commit, from the hub or from what its client keeps.

    Raises:
        ConfigError: the revision is no commit, huggingface_hub is not installed, or the hub does not give the file.
    """
    page = f"https://huggingface.co/datasets/{data_set.repo}/commits/main"
    if not _COMMIT.fullmatch(revision):
        raise ConfigError(
            "published: name the commit to read with --revision, 40 hexadecimal digits, so that the same rows come "
            f"again; {page} lists them. A file downloaded from there serves as well: name it instead of `published`"
        )
    path = _file(data_set, data_set.file or _only_json(data_set, revision), revision)
    try:
        card = text_of(_file(data_set, CARD, revision))
    except BadInput as error:
        raise ConfigError(one_line(f"{data_set.repo}, {CARD}: {error}")) from None
    return Downloaded(path, f"{data_set.repo} at {revision}", _licence(card), tuple(sorted(set(canaries_in(card)))))


def _file(data_set: DataSet, name: str, revision: str) -> Path:
    with _reached(data_set, name, revision):
        from huggingface_hub import hf_hub_download

        return Path(hf_hub_download(data_set.repo, name, repo_type="dataset", revision=revision))


def _only_json(data_set: DataSet, revision: str) -> str:
    """The name of a data set's only file of JSON.

    Raises:
        ConfigError: there is none, or there are several.
    """
    with _reached(data_set, "the list of files", revision):
        from huggingface_hub import list_repo_files

        names = list_repo_files(data_set.repo, repo_type="dataset", revision=revision)
    found = [name for name in names if name.endswith((".json", ".jsonl"))]
    if len(found) != 1:
        there = ", ".join(name[:80] for name in names[:20])
        raise ConfigError(
            one_line(
                f"published: {data_set.repo} at {revision} has {len(found)} files of JSON, and one is expected; it has "
                f"{there}: download the right one and name it instead of `published`"
            )
        )
    return found[0]


@contextmanager
def _reached(data_set: DataSet, name: str, revision: str) -> Iterator[None]:
    """Turns whatever the hub's client and the network below it raise into one message."""
    try:
        yield
    except ImportError:
        raise ConfigError(
            "published: huggingface_hub is not installed; pip install 'hab-ray[hub]', or download "
            f"{data_set.file or 'the file'} of {data_set.repo} yourself and name the file"
        ) from None
    except Exception as error:
        first = (str(error).strip().splitlines() or [""])[0]
        raise ConfigError(
            one_line(
                f"published: {name} of {data_set.repo} at {revision} cannot be had ({type(error).__name__}: {first}); "
                "check the revision and the network, or download the file elsewhere and name it instead of `published`"
            )
        ) from None


def _licence(card: str) -> str:
    """The licence in the head of a card; "unknown" where it states none."""
    parts = card.split("---\n", 2)
    try:
        head = parse_yaml(parts[1]) if len(parts) == 3 and not parts[0].strip() else None
    except (BadInput, yaml.YAMLError):
        head = None
    stated = head.get("license") if isinstance(head, dict) else None
    return one_line(stated) if isinstance(stated, str) else "unknown"
