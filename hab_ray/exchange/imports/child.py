"""The program of the process that executes published prompts: `python -I`, standard library alone.

It reads a request from its input as JSON, writes the answer to its output, and imports nothing of this project. Known
digests are the security. What is refused here is a belt: code that sets out to escape an interpreter can.
"""

from __future__ import annotations

import builtins
import csv
import inspect
import io
import json
import os
import random
import resource
import sys
import textwrap
import typing
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module

ALLOWED = frozenset({"csv", "json", "random", "textwrap", "typing", "__future__", "prompts", "src"})
OPEN, CLOSE = "\ue0f0hab<", ">hab\ue0f1"
CPU_S, MEMORY_BYTES, OUTPUT_BYTES, PRINTED = 60, 1 << 30, 64 << 20, 1 << 16
LOADED = (csv, typing)
SYSTEM = ("generative", "relevance_check", "subject_evaluation", "subject_model")


class Refused(BaseException):
    """What the code did that is not allowed; no handler of its own for `Exception` catches it."""


class Drawn:
    """Takes the place of chance: gives the values of the call at hand, and keeps what was drawn from."""

    def __init__(self) -> None:
        self.seeds: list[str] = []
        self.theme = ""
        self.marks_dedent = False
        self.populations: dict[str, list[typing.Any]] = {"seeds": [], "themes": []}
        self.dedent = textwrap.dedent

    def sample(self, population: typing.Any, k: int) -> list[typing.Any]:
        """The seeds of this call, in the form of those in the population."""
        rows = list(population)
        if k > len(rows):
            raise ValueError("Sample larger than population or is negative")
        self.populations["seeds"] = [row if isinstance(row, str) else row[0] for row in rows]
        shown = self.seeds[:k]
        return shown if isinstance(rows[0], str) else [[seed, *rows[0][1:]] for seed in shown]

    def choice(self, population: typing.Any) -> str:
        """The theme of this call."""
        self.populations["themes"] = list(population)
        return self.theme

    def dedented(self, text: str) -> str:
        """What `textwrap.dedent` gives; where pieces are derived, its text between marks."""
        return f"{OPEN}dedent{CLOSE}{text}{OPEN}end{CLOSE}" if self.marks_dedent else self.dedent(text)


class Printed(io.TextIOBase):
    """Takes what is printed, up to a bound."""

    count = 0

    def write(self, text: str) -> int:
        """Count it."""
        self.count += len(text)
        if self.count > PRINTED:
            raise Refused("prints more than 64 kB")
        return len(text)


def refusing(what: str) -> Callable[..., typing.Any]:
    """A function that refuses."""

    def refuse(*_: object, **__: object) -> None:
        raise Refused(what)

    return refuse


def fenced(root: str, cpu_s: int) -> None:
    """From here on: bounds, files of this folder for reading alone, no network, no process, no other module."""
    for what, most in ((resource.RLIMIT_CPU, cpu_s), (resource.RLIMIT_AS, MEMORY_BYTES)):
        resource.setrlimit(what, (most, most))
    resource.setrlimit(resource.RLIMIT_FSIZE, (OUTPUT_BYTES, OUTPUT_BYTES))
    with suppress(KeyError, OSError):  # Python 3.12 on Linux has it, and not every machine allows it
        vars(os)["unshare"](vars(os)["CLONE_NEWUSER"] | vars(os)["CLONE_NEWNET"])
    readable = tuple(os.path.join(os.path.realpath(each), "") for each in (root, os.path.dirname(os.__file__)))

    def hook(event: str, given: tuple[typing.Any, ...]) -> None:
        if event == "open" and isinstance(given[0], str | bytes):
            path, mode = os.path.realpath(os.fsdecode(given[0])), given[1] or "r"
            if set(mode) & set("wax+") or not path.startswith(readable):
                raise Refused(f"opens {os.fsdecode(given[0])!r} ({mode}), and may only read the checkout's files")
        elif event.split(".")[0] in ("socket", "subprocess", "ctypes", "shutil", "signal", "mmap") or event in (
            *(
                "os." + name
                for name in ("exec", "fork", "forkpty", "posix_spawn", "spawn", "system", "remove", "rename")
            ),
            *("os." + name for name in ("mkdir", "rmdir", "link", "symlink", "truncate", "chmod", "chown", "kill")),
        ):
            raise Refused(f"asks for {event}, which prompts do not need")

    imported = builtins.__import__

    def only_known(
        name: str, names: typing.Any = None, local: typing.Any = None, wanted: typing.Any = (), level: int = 0
    ) -> typing.Any:
        of = str((names or {}).get("__name__", "")).split(".")[0]
        if of in ("prompts", "src") and not level and name.split(".")[0] not in ALLOWED:
            raise Refused(f"imports {name!r}, which the published prompts do not")
        return imported(name, names, local, wanted, level)

    vars(builtins)["__import__"] = only_known
    sys.addaudithook(hook)


def with_chance_from(drawn: Drawn) -> None:
    """Chance comes from the request: no other draw is known, so none is allowed."""
    for name in random.__all__:
        if callable(getattr(random, name)) and name != "seed":
            setattr(random, name, refusing(f"draws with random.{name}, and only sample and choice are known"))
    vars(random).update(sample=drawn.sample, choice=drawn.choice)
    vars(textwrap).update(dedent=drawn.dedented)


def called(prompts: typing.Any, drawn: Drawn, call: dict[str, typing.Any]) -> str:
    """The text of one call."""
    drawn.seeds, drawn.theme, drawn.marks_dedent = call["seeds"], call["theme"], call["marks_dedent"]
    text = getattr(prompts, call["method"])(**call["arguments"])
    if type(text) is not str:
        raise Refused(f"{call['method']} gives {type(text).__name__}, and a text is expected")
    return text


def answered(request: dict[str, typing.Any], drawn: Drawn) -> dict[str, typing.Any]:
    """What was asked for, of every dimension."""
    answer = {}
    for name, made in import_module("prompts.prompts").prompt_objects.items():
        prompts = made()
        methods = ("generative_prompt", "relevance_check_prompt", "subject_evaluation_prompt")
        parameters = {method: list(inspect.signature(getattr(prompts, method)).parameters) for method in methods}
        texts = [
            called(prompts, drawn, {**call, "arguments": {k: v for k, v in call["arguments"].items() if k in known}})
            for call in request["calls"]
            for known in [parameters.get(call["method"], [])]
        ]
        drawn.marks_dedent = False
        answer[name] = {
            "parameters": parameters,
            "texts": texts,
            "system": {kind: getattr(prompts, f"{kind}_system_prompt")() for kind in SYSTEM},
            "deductions": prompts.deductions,
            "top": prompts.get_top_eval_score(),
            "class": type(prompts).__name__,
            **{kind: list(each) for kind, each in drawn.populations.items()},
        }
    return answer


def main() -> None:
    """Answer the request; a problem is an answer too."""
    request, drawn, out, root = json.load(sys.stdin), Drawn(), sys.stdout, os.getcwd()
    sys.path[:0] = [os.path.join(root, "src"), root]
    sys.stdout = sys.stderr = Printed()
    with_chance_from(drawn)
    try:
        fenced(root, request["cpu_s"])
        answer = json.dumps({"found": answered(request, drawn)})
    except BaseException as error:  # whatever the code raises is told
        kind = "" if isinstance(error, Refused) else f"{type(error).__name__}: "
        answer = json.dumps({"problem": f"{kind}{error}"[:500]})
    out.write(answer)
    out.flush()


if __name__ == "__main__":
    main()
