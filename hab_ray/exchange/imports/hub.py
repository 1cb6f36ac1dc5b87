"""Downloads the published data sets from the Hugging Face hub at a fixed commit: the newest, or a given revision."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from hab_ray.errors import ConfigError, installing
from hab_ray.exchange.imports.checkout import canaries_in
from hab_ray.exchange.imports.columns import PUBLISHED
from hab_ray.inputs.files import BadInput, text_of
from hab_ray.inputs.yaml_text import parse_yaml
from hab_ray.visible import one_line

_COMMIT = re.compile(r"[0-9a-f]{40}")
CARD = "README.md"


@dataclass(frozen=True)
class DataSet:
    """A data set on the hub: its file, and the size and columns that its card states.

    If `file` is None, it is the only JSON file. `judge` gave the scores if no column names a judge; people rated
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
    """Files, their source, and the licence and canaries of a data set's card."""

    paths: tuple[Path, ...]
    source: str
    licence: str = ""
    canaries: tuple[str, ...] = ()


EVALUATIONS, ANNOTATIONS = DataSet(**PUBLISHED["evaluations"]), DataSet(**PUBLISHED["annotations"])


def download(data_set: DataSet, revision: str) -> Downloaded:
    """Download a data set's file and card, or take them from the client's cache.

    `revision` is a commit, branch or tag; "" is the newest commit. Raise ConfigError if huggingface_hub is not
    installed, or the download fails.
    """
    with _hub_errors(data_set, revision or "its newest revision"):
        from huggingface_hub import HfApi, hf_hub_download

        commit = revision
        if not _COMMIT.fullmatch(commit):
            commit = HfApi().dataset_info(data_set.repo, revision=revision or None).sha or ""
            if not _COMMIT.fullmatch(commit):
                raise ValueError("the hub names no commit")
        name = data_set.file or _only_json(data_set, commit)
        path, card = (
            Path(hf_hub_download(data_set.repo, file, repo_type="dataset", revision=commit)) for file in (name, CARD)
        )
        text = text_of(card)
        source = f"{data_set.repo} at {commit}"
        return Downloaded((path,), source, _licence(text), tuple(sorted(set(canaries_in(text)))))


def _only_json(data_set: DataSet, commit: str) -> str:
    from huggingface_hub import list_repo_files

    names = list_repo_files(data_set.repo, repo_type="dataset", revision=commit)
    json_names = [name for name in names if name.endswith((".json", ".jsonl"))]
    if len(json_names) != 1:
        present = ", ".join(name[:80] for name in names[:20])
        raise ConfigError(
            one_line(
                f"published: {data_set.repo} at {commit} has {len(json_names)} JSON files instead of one; it has "
                f"{present}: download the right one and name it instead of `published`"
            )
        )
    return json_names[0]


@contextmanager
def _hub_errors(data_set: DataSet, revision: str) -> Iterator[None]:
    """Turn any error of the hub's client or the network into one message."""
    try:
        yield
    except ConfigError:
        raise
    except ImportError:
        raise ConfigError(
            f"published: huggingface_hub is not installed; {installing('hub')}, or download "
            f"{data_set.file or 'the file'} of {data_set.repo} yourself and name the file"
        ) from None
    except Exception as error:
        first = (str(error).strip().splitlines() or [""])[0]
        page = f"https://huggingface.co/datasets/{data_set.repo}/commits/main"
        raise ConfigError(
            one_line(
                f"published: {data_set.repo} at {revision} cannot be downloaded ({type(error).__name__}: {first}); "
                f"check the network and --revision ({page} lists the commits), or download the file elsewhere and name "
                "it instead of `published`"
            )
        ) from None


def _licence(card: str) -> str:
    """Return the licence in a card's front matter, or "unknown"."""
    parts = card.split("---\n", 2)
    try:
        head = parse_yaml(parts[1]) if len(parts) == 3 and not parts[0].strip() else None
    except (BadInput, yaml.YAMLError):
        head = None
    stated = head.get("license") if isinstance(head, dict) else None
    return one_line(stated) if isinstance(stated, str) else "unknown"
