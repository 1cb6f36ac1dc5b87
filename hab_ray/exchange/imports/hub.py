"""The published data sets on the Hugging Face hub, at a revision that is kept: the newest, or one that a user names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from hab_ray.errors import ConfigError
from hab_ray.exchange.imports.checkout import canaries_in
from hab_ray.exchange.imports.columns import PUBLISHED
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
    columns: Sequence[str]
    judge: str | None = None
    rated: int = 0


@dataclass(frozen=True)
class Downloaded:
    """Files, where they are from, and licence and canaries of a data set's card."""

    paths: tuple[Path, ...]
    source: str
    licence: str = ""
    canaries: tuple[str, ...] = ()


EVALUATIONS, ANNOTATIONS = DataSet(**PUBLISHED["evaluations"]), DataSet(**PUBLISHED["annotations"])


def download(data_set: DataSet, revision: str) -> Downloaded:
    """The data set's file and card at a commit, from the hub or from what its client keeps.

    Without a revision it is the newest; the name of a branch or a tag stands for its newest commit.

    Raises:
        ConfigError: huggingface_hub is not installed, or the hub does not give the file.
    """
    with _reached(data_set, revision or "its newest revision"):
        from huggingface_hub import HfApi, hf_hub_download

        commit = revision
        if not _COMMIT.fullmatch(commit):
            commit = HfApi().dataset_info(data_set.repo, revision=revision or None).sha or ""
            if not _COMMIT.fullmatch(commit):
                raise ValueError("the hub names no commit")
        name = data_set.file or _only_json(data_set, commit)
        path, card = (
            Path(hf_hub_download(data_set.repo, each, repo_type="dataset", revision=commit)) for each in (name, CARD)
        )
        said = text_of(card)
        source = f"{data_set.repo} at {commit}"
        return Downloaded((path,), source, _licence(said), tuple(sorted(set(canaries_in(said)))))


def _only_json(data_set: DataSet, commit: str) -> str:
    """The name of a data set's only file of JSON.

    Raises:
        ConfigError: there is none, or there are several.
    """
    from huggingface_hub import list_repo_files

    names = list_repo_files(data_set.repo, repo_type="dataset", revision=commit)
    found = [name for name in names if name.endswith((".json", ".jsonl"))]
    if len(found) != 1:
        there = ", ".join(name[:80] for name in names[:20])
        raise ConfigError(
            one_line(
                f"published: {data_set.repo} at {commit} has {len(found)} files of JSON, and one is expected; it has "
                f"{there}: download the right one and name it instead of `published`"
            )
        )
    return found[0]


@contextmanager
def _reached(data_set: DataSet, revision: str) -> Iterator[None]:
    """Turns whatever the hub's client and the network below it raise into one message."""
    try:
        yield
    except ConfigError:
        raise
    except ImportError:
        raise ConfigError(
            "published: huggingface_hub is not installed; pip install 'hab-ray[hub]', or download "
            f"{data_set.file or 'the file'} of {data_set.repo} yourself and name the file"
        ) from None
    except Exception as error:
        first = (str(error).strip().splitlines() or [""])[0]
        page = f"https://huggingface.co/datasets/{data_set.repo}/commits/main"
        raise ConfigError(
            one_line(
                f"published: {data_set.repo} at {revision} cannot be had ({type(error).__name__}: {first}); check the "
                f"network and --revision ({page} lists the commits), or download the file elsewhere and name it "
                "instead of `published`"
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
