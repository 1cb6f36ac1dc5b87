"""Templates from files that people share, rendered so that they cannot run code, look around, or take long.

A template may print the values it is given and their fields, choose with `if`, and repeat with `for`. What else
Jinja can do (calls, arithmetic, indexing, assignments, macros, includes) is refused when the template is read; a
field that the rubric's files do not have is not there when it is rendered. Three bounds hold beside: the length of
the template, the rounds of its loops, and the length of what it adds to the texts it is given.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment

from hab_ray.fences import FENCES
from hab_ray.rubric import RubricPart

MAX_TEMPLATE_CHARACTERS = 32_768
MAX_NODES = 2_000
DEEPEST = 40
MAX_ROUNDS = 2_000
MAX_ADDED_CHARACTERS = 262_144
MAX_TIMES_GIVEN = 4
MAX_CPU_SECONDS = 0.25

FUNCTIONS = ("fence", "verdict_json")
FILTERS = ("capitalize", "length", "lower", "trim", "upper")
TESTS = ("defined", "none", "undefined")
LOOP_FIELDS = ("first", "index", "index0", "last", "length")

_ALLOWED = (
    *(nodes.Template, nodes.Output, nodes.TemplateData, nodes.Name, nodes.Const, nodes.Getattr),
    *(nodes.For, nodes.If, nodes.CondExpr, nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not),
    *(nodes.Filter, nodes.Test, nodes.Call),
)
_BUDGET = "_budget"
_ROUNDS = "_rounds"


class BadTemplate(Exception):
    """A template that is not allowed or that failed; the message is the cause, without file and field."""


@dataclass(frozen=True, slots=True)
class Fields:
    """A part of a rubric as templates see it: the fields of its file, and no attribute of its class.

    Fields that its digest leaves out, such as `fidelity`, are not there: models are shown nothing that could change
    without the digest.
    """

    _part: RubricPart
    _plain: Callable[[str], str]

    def get(self, name: str) -> Any:
        """The field's value, plain as well. Raises KeyError if the part has no such field."""
        if type(self._part).model_fields[name].exclude:
            raise KeyError(name)
        return _seen(getattr(self._part, name), self._plain)


def _seen(value: Any, plain: Callable[[str], str]) -> Any:
    """A value as templates see it: text, number, None, Fields, or a tuple of these."""
    match value:
        case None | bool() | int():
            return value
        case str():
            return plain(value)
        case RubricPart():
            return Fields(value, plain)
        case list() | tuple():
            return tuple(_seen(one, plain) for one in value)
    raise TypeError(f"a template cannot be given a {type(value).__name__}")


def _full_collections() -> int:
    return int(gc.get_stats()[-1]["collections"])


@dataclass
class _Budget:
    """What one rendering may still use."""

    characters: int
    rounds: int = MAX_ROUNDS
    until: float = field(default_factory=lambda: time.thread_time() + MAX_CPU_SECONDS)
    not_before: float = field(default_factory=lambda: time.monotonic() + MAX_CPU_SECONDS)
    collections: int = field(default_factory=_full_collections)

    def take_round(self) -> None:
        self.rounds -= 1
        if self.rounds < 0:
            raise BadTemplate(f"its loops go round more than {MAX_ROUNDS} times")
        self.check_time()

    def take_text(self, text: str) -> None:
        self.characters -= len(text)
        if self.characters < 0:
            raise BadTemplate(f"it adds more than {MAX_ADDED_CHARACTERS} characters to the texts it is given")
        self.check_time()

    def check_time(self) -> None:
        """Raise once the CPU time is used up; the wall clock, which is quick to read, says when that may be.

        The interpreter may collect garbage in the middle, which takes long where millions of rows are in memory and is
        not the template's doing: after that the time begins anew.
        """
        if time.monotonic() <= self.not_before or time.thread_time() <= self.until:
            return
        collections = _full_collections()
        if collections == self.collections:
            raise BadTemplate(f"it takes longer than {MAX_CPU_SECONDS} s")
        self.collections, self.until = collections, time.thread_time() + MAX_CPU_SECONDS


@dataclass(frozen=True)
class _Rounds:
    """What a loop goes through, each round taken from the budget."""

    values: Sequence[Any]
    budget: _Budget

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Any]:
        for value in self.values:
            self.budget.take_round()
            yield value


@jinja2.pass_context
def _rounds(context: Context, values: Any) -> _Rounds:
    if not isinstance(values, tuple):
        raise BadTemplate(f"`for` goes through lists of the rubric only, not through a {type(values).__name__}")
    return _Rounds(values, context[_BUDGET])


class _Environment(ImmutableSandboxedEnvironment):
    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, LoopContext) and attribute in LOOP_FIELDS:
            return getattr(obj, attribute)
        if isinstance(obj, Fields):
            try:
                return obj.get(attribute)
            except KeyError:
                pass
        empty = "; the value before the dot is empty" if obj is None else ""
        return self.undefined(f"there is no field `{attribute}` here{empty}")


def _printable(value: Any) -> Any:
    if isinstance(value, str | int | jinja2.Undefined):
        return value
    raise BadTemplate(
        f"it prints a {'whole part' if isinstance(value, Fields) else type(value).__name__}; name a field"
    )


def verdict_json(example: Fields) -> str:
    """A graded example as the JSON a judge should write."""
    verdict = {"assessment": example.get("assessment"), "issues": list(example.get("issues"))}
    return json.dumps(verdict, ensure_ascii=False)


@cache
def _environment(fence: int) -> _Environment:
    environment = _Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, autoescape=False, finalize=_printable
    )
    environment.globals = {"fence": FENCES[fence].put, "verdict_json": verdict_json}
    environment.filters = {name: environment.filters[name] for name in FILTERS} | {_ROUNDS: _rounds}
    environment.tests = {name: environment.tests[name] for name in TESTS}
    return environment


@dataclass(frozen=True)
class SafeTemplate:
    """A template that was checked. `fence` is the version of the fences it puts."""

    compiled: jinja2.Template
    fence: int

    def render(self, values: Mapping[str, Any]) -> str:
        """The text for these values: texts, numbers, None, parts of rubrics, and lists of them.

        Raises:
            BadTemplate: it uses what is not there, or more than it may.
        """
        given = sum(len(value) for value in values.values() if isinstance(value, str))
        budget = _Budget(MAX_ADDED_CHARACTERS + MAX_TIMES_GIVEN * given)
        plain = FENCES[self.fence].plain
        seen = {name: _seen(value, plain) for name, value in values.items()}
        pieces: list[str] = []
        try:
            for piece in self.compiled.generate(seen, **{_BUDGET: budget}):
                budget.take_text(piece)
                pieces.append(piece)
        except BadTemplate:
            raise
        except Exception as error:  # whatever a template can bring about is the template's fault
            raise BadTemplate(_in_one_line(error)) from None
        return "".join(pieces)


@cache
def safe_template(text: str, names: frozenset[str], fence: int) -> SafeTemplate:
    """The template of a text that may use these names.

    Raises:
        BadTemplate: it is no template, or uses what is not allowed.
    """
    if len(text) > MAX_TEMPLATE_CHARACTERS:
        raise BadTemplate(f"it has {len(text)} characters, more than {MAX_TEMPLATE_CHARACTERS}")
    environment = _environment(fence)
    try:
        tree = environment.parse(text)
        _check(tree, names)
        for loop in tree.find_all(nodes.For):
            loop.iter = nodes.Filter(loop.iter, _ROUNDS, [], [], None, None, lineno=loop.lineno)
        return SafeTemplate(environment.from_string(tree), fence)
    except (jinja2.TemplateError, SyntaxError, ValueError, RecursionError) as error:
        raise BadTemplate(_in_one_line(error)) from None


def _in_one_line(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return " ".join(str(error).split()) or type(error).__name__


def _check(tree: nodes.Template, names: frozenset[str]) -> None:
    """Refuse every construct that is not known to be harmless. The walk does not recurse: a template may be deep."""
    count = 0
    waiting: list[tuple[nodes.Node, int, frozenset[str]]] = [(tree, 0, names)]
    while waiting:
        node, depth, known = waiting.pop()
        count += 1
        if depth > DEEPEST or count > MAX_NODES:
            raise BadTemplate("it is nested too deeply" if depth > DEEPEST else "it has too many parts")
        _check_node(node, known)
        if isinstance(node, nodes.For) and isinstance(node.target, nodes.Name):
            known = known | {node.target.name, "loop"}
        called = node.node if isinstance(node, nodes.Call) else None
        waiting.extend((child, depth + 1, known) for child in node.iter_child_nodes() if child is not called)


def _check_node(node: nodes.Node, known: frozenset[str]) -> None:
    match node:
        case nodes.Name(name=name, ctx="load") if name not in known:
            raise BadTemplate(f"line {node.lineno}: `{name}` is not there; it may use {', '.join(sorted(known))}")
        case nodes.Name(name=name, ctx="store") if name.startswith("_") or name in FUNCTIONS:
            raise BadTemplate(f"line {node.lineno}: `{name}` cannot be the name of a loop's value")
        case nodes.Filter() if node.name not in FILTERS or node.node is None or _arguments(node):
            cause = f"the filter `{node.name}` is not allowed; there are {', '.join(FILTERS)}, without arguments"
            raise BadTemplate(f"line {node.lineno}: {cause}")
        case nodes.Test() if node.name not in TESTS or _arguments(node):
            raise BadTemplate(
                f"line {node.lineno}: the test `{node.name}` is not allowed; there are {', '.join(TESTS)}"
            )
        case nodes.Call() if not _is_function(node):
            raise BadTemplate(f"line {node.lineno}: only fence(name, text) and verdict_json(example) can be called")
        case nodes.For(recursive=True):
            raise BadTemplate(f"line {node.lineno}: a loop cannot be recursive")
        case _ if not isinstance(node, _ALLOWED):
            raise BadTemplate(f"line {node.lineno}: {type(node).__name__} is not allowed in a prompt's template")


def _arguments(node: nodes.Filter | nodes.Test | nodes.Call) -> bool:
    return bool(node.args or node.kwargs or node.dyn_args or node.dyn_kwargs)


def _is_function(node: nodes.Call) -> bool:
    known = isinstance(node.node, nodes.Name) and node.node.name in FUNCTIONS
    return known and not (node.kwargs or node.dyn_args or node.dyn_kwargs)
