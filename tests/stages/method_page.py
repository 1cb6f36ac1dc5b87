"""Writes the examples in docs/method.md anew, from a rehearsal of the method: `python -m tests.stages.method_page`."""

import json
import re
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from hab_ray.calls import ChatCall, Reply
from hab_ray.config.sweep import load_sweep
from hab_ray.location import Location
from hab_ray.rehearse.profile import Play, profile_of
from hab_ray.rehearse.staging import staged
from hab_ray.rows import ChosenTest, Validation, Verdict
from hab_ray.stages.base import CallStage
from hab_ray.storage.folder import open_folder
from hab_ray.storage.replies.store import Store
from hab_ray.storage.run import MARKER
from hab_ray.storage.secret import SECRET, SECRET_BYTES
from hab_ray.work import Shard, Work
from tests.rehearse.conftest import NOW, SimulatorThread, Stage

PAGE = Path(__file__).parents[2] / "docs/method.md"
EXAMPLE = re.compile(r"<!-- example: (\w+) -->\n(.*?)<!-- end -->\n", re.DOTALL)
SWEEP = {
    "name": "method",
    "executor": "local",
    "mode": "online",
    "dimensions": ["encourage_learning"],
    "generate": {"model": "gpt-4.1", "candidates": 6, "per_call": 3, "temperature": 1.4, "top_p": 0.95},
    "validate": {"model": "gpt-4.1", "keep": 4},
    "select": {"embedding": "text-embedding-3-small", "tests": 2},
    "subjects": ["gpt-4.1-mini"],
    "judges": ["gpt-4.1"],
}
WIDTH, MAX_SYSTEM, MAX_TEXT = 116, 12, 90


def page(folder: Path) -> str:
    """The page with the examples of a rehearsal in a folder."""
    work = _rehearsed(folder)
    first = {shard.stage: shard for shard in reversed(work.shards())}
    return EXAMPLE.sub(
        lambda found: f"<!-- example: {found[1]} -->\n{_example(work, first[found[1]])}<!-- end -->\n",
        PAGE.read_text(encoding="utf-8"),
    )


def _rehearsed(folder: Path) -> Work:
    path = folder / "method.yaml"
    path.write_text(yaml.safe_dump(SWEEP))
    place = Location.of(folder / "store")
    store = open_folder(place)
    store.put(MARKER, b"")
    store.put(SECRET, bytes(SECRET_BYTES))  # the code of a fence is in what the simulator draws its words from
    work = staged(load_sweep(path), Location.of(folder / "run"), NOW, place)
    simulator = SimulatorThread(profile_of(work, Play()))
    try:
        assert Stage(work, simulator.client, Play()).rehearse().passed
    finally:
        simulator.stop()
    return work


def _example(work: Work, shard: Shard) -> str:
    if not shard.spec.makes_calls:
        chosen = work.run.read(ChosenTest, shard.file)
        return _block("Chosen, and which cluster each stands for:", [f"{t.cluster}: {t.prompt}" for t in chosen])
    stage, store = work.stage(shard), Store(open_folder(work.sweep.store))
    assert isinstance(stage, CallStage)
    task = work.tasks(shard)[0]
    ((_, call),) = stage.requests([task])
    store.refresh(call.model)
    reply = store.read(call.model, [call.key])[call.key]
    assert isinstance(reply, Reply)
    if not isinstance(call, ChatCall):
        return _block("Asked:", [call.text]) + f"Answered: {len(reply.vector) // 4:,} numbers.\n"
    params = {"temperature": call.params.temperature, "top_p": call.params.top_p, "max_tokens": call.params.max_tokens}
    settings = ", ".join(f"{name} {value}" for name, value in params.items() if value is not None)
    system = _block("System text:", _beginning(call.system.splitlines())) if call.system else ""
    asked = _block(f"Asked ({settings}):", call.messages[0].text.splitlines())
    return system + asked + _block("Answered:", _shortened(reply.text)) + _made(stage.parse(task, reply))


def _made(row: object) -> str:
    match row:
        case Validation(deductions=letters, score=score) | Verdict(issues=letters, score=score):
            return f"Read as: {', '.join(letters or ()) or 'no letter'}, a score of {score:g}.\n"
    return ""


def _shortened(text: str) -> list[str]:
    """A reply; in JSON each text is cut where it is long."""
    try:
        return json.dumps(_cut(json.loads(text)), indent=2).splitlines()
    except ValueError:
        return [text]


def _cut(value: Any) -> Any:
    match value:
        case str() if len(value) > MAX_TEXT:
            return f"{value[:MAX_TEXT]} [...]"
        case dict():
            return {key: _cut(each) for key, each in value.items()}
        case list():
            return [_cut(each) for each in value]
    return value


def _beginning(lines: Sequence[str]) -> Iterator[str]:
    yield from lines[:MAX_SYSTEM]
    if len(lines) > MAX_SYSTEM:
        yield f"[{len(lines) - MAX_SYSTEM} more lines, the same in every request of this kind]"


def _block(title: str, lines: Sequence[str] | Iterator[str]) -> str:
    wrapped = (part for line in lines for part in textwrap.wrap(line, WIDTH) or [""])
    return "\n".join([title, "", "```text", *wrapped, "```", "", ""])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        PAGE.write_text(page(Path(made)), encoding="utf-8")
