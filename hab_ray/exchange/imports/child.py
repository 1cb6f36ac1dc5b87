"""Program that executes published prompts in a separate process (`python -I`), with the standard library only.

It reads a JSON request from stdin, writes a JSON answer to stdout, and imports nothing of this project. The security
is in the known digests. The restrictions below are a second line of defence: malicious code can escape them.
"""

import builtins
import csv
import hashlib
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
# Import styles of the revisions: folders of the checkout on the path, and the module that holds `prompt_objects`.
IMPORT_STYLES = ((("src", ""), "prompts.prompts"), (("",), "src.prompts.prompts"), (("src/prompts",), "prompts"))
OPEN, CLOSE = "\ue0f0hab<", ">hab\ue0f1"
CPU_S, MEMORY_BYTES, OUTPUT_BYTES, MAX_PRINTED = 60, 1 << 30, 64 << 20, 1 << 16
PROBLEM = b"problem: "
LOADED = (csv, typing)
SYSTEM = ("generative", "relevance_check", "subject_evaluation", "subject_model")
# Audit events: https://docs.python.org/3/library/audit_events.html
FORBIDDEN = frozenset({"socket", "subprocess", "ctypes", "shutil", "signal", "mmap"})
FORBIDDEN_PROCESS = frozenset({"exec", "fork", "forkpty", "posix_spawn", "spawn", "system", "kill"})
FORBIDDEN_FILE = frozenset({"remove", "rename", "mkdir", "rmdir", "link", "symlink", "truncate", "chmod", "chown"})


class Refused(BaseException):
    """The code did something forbidden. A BaseException, so that the code's own handlers of `Exception` miss it."""


class Script:
    """Replaces random draws and `textwrap.dedent`: returns the present call's values and records the populations."""

    def __init__(self) -> None:
        self.seeds: list[str] = []
        self.theme = ""
        self.marks_dedent = False
        self.populations: dict[str, list[typing.Any]] = {"seeds": [], "themes": []}
        self.dedent = textwrap.dedent

    def sample(self, population: typing.Any, k: int) -> list[typing.Any]:
        """Return the seeds of this call, in the form of the population's seeds."""
        rows = list(population)
        if k > len(rows):
            raise ValueError("Sample larger than population or is negative")
        self.populations["seeds"] = [row if isinstance(row, str) else row[0] for row in rows]
        shown = self.seeds[:k]
        return shown if isinstance(rows[0], str) else [[seed, *rows[0][1:]] for seed in shown]

    def choice(self, population: typing.Any) -> str:
        """Return the theme of this call."""
        self.populations["themes"] = list(population)
        return self.theme

    def dedented(self, text: str) -> str:
        """Dedent a text; while pieces are derived, return the text between marks instead."""
        return f"{OPEN}dedent{CLOSE}{text}{OPEN}end{CLOSE}" if self.marks_dedent else self.dedent(text)


class BoundedSink(io.TextIOBase):
    """Discards printed text up to `MAX_PRINTED` characters."""

    count = 0

    def write(self, text: str) -> int:
        """Count a text's characters."""
        self.count += len(text)
        if self.count > MAX_PRINTED:
            raise Refused("prints more than 64 kB")
        return len(text)


def refusing(what: str) -> Callable[..., typing.Any]:
    """Return a function that raises Refused."""

    def refuse(*_: object, **__: object) -> None:
        raise Refused(what)

    return refuse


def restrict(root: str, cpu_s: int) -> None:
    """Restrict this process: resource limits, read-only access to `root`, no network, processes or other modules."""
    for kind, limit in (
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, OUTPUT_BYTES),
        (resource.RLIMIT_NPROC, 0),
    ):
        resource.setrlimit(kind, (limit, limit))
    with suppress(KeyError, OSError):  # needs Python 3.12 on Linux, and not every machine allows it
        vars(os)["unshare"](vars(os)["CLONE_NEWUSER"] | vars(os)["CLONE_NEWNET"])
    readable = tuple(os.path.join(os.path.realpath(each), "") for each in (root, os.path.dirname(os.__file__)))

    known = ALLOWED | {name.removesuffix(".py") for name in os.listdir(os.path.join(root, "src/prompts"))}

    def hook(event: str, args: tuple[typing.Any, ...]) -> None:
        family, _, name = event.partition(".")
        if event == "open" and isinstance(args[0], str | bytes):
            path, writes = os.path.realpath(os.fsdecode(args[0])), args[2] & (os.O_ACCMODE | os.O_CREAT | os.O_TRUNC)
            if writes or not path.startswith(readable):
                raise Refused(f"opens {os.fsdecode(args[0])!r}, and may only read the checkout's files")
        elif event == "import" and args[0].split(".")[0] not in known | {"encodings"}:
            raise Refused(f"imports {args[0]!r}, which the published prompts do not")
        elif family in FORBIDDEN or (family == "os" and name in FORBIDDEN_PROCESS | FORBIDDEN_FILE):
            raise Refused(f"asks for {event}, which prompts do not need")

    original_import = builtins.__import__

    def checked_import(
        name: str, names: typing.Any = None, local: typing.Any = None, wanted: typing.Any = (), level: int = 0
    ) -> typing.Any:
        importer = os.path.realpath(str((names or {}).get("__file__", "")))
        if importer.startswith(readable[0]) and not level and name.split(".")[0] not in known:
            raise Refused(f"imports {name!r}, which the published prompts do not")
        return original_import(name, names, local, wanted, level)

    vars(builtins)["__import__"] = checked_import
    sys.addaudithook(hook)


def replace_random(script: Script) -> None:
    """Take random draws from the request, and refuse all functions of `random` but the two that are known."""
    for name in random.__all__:
        if callable(getattr(random, name)) and name != "seed":
            setattr(random, name, refusing(f"draws with random.{name}, and only sample and choice are known"))
    vars(random).update(sample=script.sample, choice=script.choice)
    vars(textwrap).update(dedent=script.dedented)


def prompt_text(prompts: typing.Any, script: Script, call: dict[str, typing.Any]) -> str:
    """Return the text of one call."""
    script.seeds, script.theme, script.marks_dedent = call["seeds"], call["theme"], call["marks_dedent"]
    text = getattr(prompts, call["method"])(**call["arguments"])
    if type(text) is not str:
        raise Refused(f"{call['method']} gives {type(text).__name__}, and a text is expected")
    return text


def prompt_objects(root: str) -> dict[str, typing.Any]:
    """Return the prompt classes by dimension, imported in the first style that works.

    Raises:
        ModuleNotFoundError: no style works.
    """
    standard, before = list(sys.path), set(sys.modules)
    for folders, name in IMPORT_STYLES:
        sys.path[:] = [*(os.path.join(root, folder) for folder in folders), *standard]
        try:
            return dict(import_module(name).prompt_objects)
        except ModuleNotFoundError as error:
            problem = error
            for added in set(sys.modules) - before:
                del sys.modules[added]
    raise problem


def answer(request: dict[str, typing.Any], root: str, script: Script) -> dict[str, typing.Any]:
    """Return the requested texts of every dimension."""
    answers = {}
    for name, prompt_class in prompt_objects(root).items():
        prompts = prompt_class()
        methods = ("generative_prompt", "relevance_check_prompt", "subject_evaluation_prompt")
        parameters = {method: list(inspect.signature(getattr(prompts, method)).parameters) for method in methods}
        texts = []
        for call in request["calls"]:
            accepted = {k: v for k, v in call["arguments"].items() if k in parameters.get(call["method"], [])}
            texts.append(prompt_text(prompts, script, {**call, "arguments": accepted}))
        script.marks_dedent = False
        answers[name] = {
            "parameters": parameters,
            "marked": texts[: len(methods)],
            "digests": [hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() for text in texts],
            "system": {kind: getattr(prompts, f"{kind}_system_prompt")() for kind in SYSTEM},
            "deductions": prompts.deductions,
            "top": prompts.get_top_eval_score(),
            "owner": type(prompts).__name__,
            **{kind: list(population) for kind, population in script.populations.items()},
        }
    return answers


def main() -> None:
    """Write the answer to the request, or a problem, to stdout."""
    request, script, out, root = json.load(sys.stdin), Script(), sys.stdout, os.getcwd()
    sys.stdout = sys.stderr = BoundedSink()
    replace_random(script)
    try:
        restrict(root, request["cpu_s"])
        text = json.dumps(answer(request, root, script))
    except BaseException as error:  # report whatever the code raises
        kind = "" if isinstance(error, Refused) else f"{type(error).__name__}: "
        text = (PROBLEM + f"{kind}{error}"[:500].encode("ascii", "backslashreplace")).decode()
    out.write(text)
    out.flush()


if __name__ == "__main__":
    main()
