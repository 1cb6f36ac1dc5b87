"""Renders untrusted Jinja templates, which people share as files, without letting them run code or take long.

A template may print its values and their fields, branch with `if` and loop with `for`. Everything else in Jinja (calls,
arithmetic, indexing, assignments, macros, includes) is refused when the template is parsed. When it is rendered, only
fields of rubric files can be accessed. The length of the template, its loop iterations, the length of the text that it
adds and its CPU time are limited; a rendering that takes too long is tried once more.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
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
MAX_DEPTH = 40
MAX_ITERATIONS = 2_000
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
_COUNTED = "_counted"


class BadTemplate(Exception):
    """A template is not allowed or failed. The message is the cause, without file and field."""


class TookLong(BadTemplate):
    """A rendering used up its CPU time, perhaps through no fault of the template: a garbage collection counts too."""


@dataclass(frozen=True, slots=True)
class Fields:
    """A part of a rubric as templates see it: the fields of its file, without the attributes of its class.

    Fields that the digest excludes, such as `fidelity`, are hidden: models must not be shown anything that can change
    without changing the digest.
    """

    _part: RubricPart
    _plain: Callable[[str], str]

    def get(self, name: str) -> Any:
        """Return a field's value as templates see it. Raises KeyError if the part has no such field."""
        if type(self._part).model_fields[name].exclude:
            raise KeyError(name)
        return _exposed(getattr(self._part, name), self._plain)


def _exposed(value: Any, plain: Callable[[str], str]) -> Any:
    """Return a value as templates see it: text, number, None, Fields, or a tuple of these."""
    match value:
        case None | bool() | int():
            return value
        case str():
            return plain(value)
        case RubricPart():
            return Fields(value, plain)
        case list() | tuple():
            return tuple(_exposed(member, plain) for member in value)
    raise TypeError(f"a template cannot be given a {type(value).__name__}")


@dataclass
class _Budget:
    """What one rendering may still use: characters, loop iterations, and CPU time until `cpu_end`.

    `check_after` is the earliest wall-clock time at which the CPU time can be used up.
    """

    characters: int
    iterations: int = MAX_ITERATIONS
    cpu_end: float = field(default_factory=lambda: time.thread_time() + MAX_CPU_SECONDS)
    check_after: float = field(default_factory=lambda: time.monotonic() + MAX_CPU_SECONDS)

    def take_iteration(self) -> None:
        self.iterations -= 1
        if self.iterations < 0:
            raise BadTemplate(f"its loops run more than {MAX_ITERATIONS} times")
        self.check_time()

    def take_text(self, text: str) -> None:
        self.characters -= len(text)
        if self.characters < 0:
            raise BadTemplate(f"it adds more than {MAX_ADDED_CHARACTERS} characters to the texts it is given")
        self.check_time()

    def check_time(self) -> None:
        """Raise TookLong once the CPU time is used up. The wall clock is checked first: it is faster to read."""
        if time.monotonic() > self.check_after and time.thread_time() > self.cpu_end:
            raise TookLong(f"it takes longer than {MAX_CPU_SECONDS} s")


@dataclass(frozen=True)
class _CountedLoop:
    """The values of a loop, each iteration charged to the budget."""

    values: Sequence[Any]
    budget: _Budget

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Any]:
        for value in self.values:
            self.budget.take_iteration()
            yield value


@jinja2.pass_context
def _counted(context: Context, values: Any) -> _CountedLoop:
    if not isinstance(values, tuple):
        raise BadTemplate(f"`for` loops only over lists of the rubric, not over a {type(values).__name__}")
    return _CountedLoop(values, context[_BUDGET])


class _Environment(ImmutableSandboxedEnvironment):
    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, LoopContext) and attribute in LOOP_FIELDS:
            return getattr(obj, attribute)
        if isinstance(obj, Fields):
            with suppress(KeyError):
                return obj.get(attribute)
        empty = "; the value before the dot is empty" if obj is None else ""
        return self.undefined(f"there is no field `{attribute}` here{empty}")


def _printable(value: Any) -> Any:
    if isinstance(value, str | int | jinja2.Undefined):
        return value
    raise BadTemplate(
        f"it prints a {'whole part' if isinstance(value, Fields) else type(value).__name__}; name a field"
    )


def verdict_json(example: Fields) -> str:
    """Return a graded example as the JSON that a judge should write."""
    verdict = {"assessment": example.get("assessment"), "issues": list(example.get("issues"))}
    return json.dumps(verdict, ensure_ascii=False)


@cache
def _environment(fence: int) -> _Environment:
    environment = _Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, autoescape=False, finalize=_printable
    )
    environment.globals = {"fence": FENCES[fence].put, "verdict_json": verdict_json}
    environment.filters = {name: environment.filters[name] for name in FILTERS} | {_COUNTED: _counted}
    environment.tests = {name: environment.tests[name] for name in TESTS}
    return environment


@dataclass(frozen=True)
class SafeTemplate:
    """A checked template. `fence` is the version of the fences it puts around texts."""

    compiled: jinja2.Template
    fence: int

    def render(self, values: Mapping[str, Any]) -> str:
        """Render the template with these values: texts, numbers, None, parts of rubrics, and lists of them.

        Raises:
            BadTemplate: it uses a missing value or exceeds a limit.
        """
        exposed = {name: _exposed(value, FENCES[self.fence].plain) for name, value in values.items()}
        given = sum(len(value) for value in values.values() if isinstance(value, str))
        characters = MAX_ADDED_CHARACTERS + MAX_TIMES_GIVEN * given
        with suppress(TookLong):  # a garbage collection among millions of rows takes as long, but not twice in a row
            return self._rendered(exposed, _Budget(characters))
        return self._rendered(exposed, _Budget(characters))

    def _rendered(self, exposed: Mapping[str, Any], budget: _Budget) -> str:
        pieces: list[str] = []
        try:
            for piece in self.compiled.generate(exposed, **{_BUDGET: budget}):
                budget.take_text(piece)
                pieces.append(piece)
        except BadTemplate:
            raise
        except Exception as error:  # anything that a template triggers is its own fault
            raise BadTemplate(_in_one_line(error)) from None
        return "".join(pieces)


@cache
def safe_template(text: str, names: frozenset[str], fence: int) -> SafeTemplate:
    """Parse and check a template that may use these names.

    Raises:
        BadTemplate: the text is not a template or uses something that is not allowed.
    """
    if len(text) > MAX_TEMPLATE_CHARACTERS:
        raise BadTemplate(f"it has {len(text)} characters, more than {MAX_TEMPLATE_CHARACTERS}")
    environment = _environment(fence)
    try:
        tree = environment.parse(text)
        _check(tree, names)
        for loop in tree.find_all(nodes.For):
            loop.iter = nodes.Filter(loop.iter, _COUNTED, [], [], None, None, lineno=loop.lineno)
        return SafeTemplate(environment.from_string(tree), fence)
    except (jinja2.TemplateError, SyntaxError, ValueError, RecursionError) as error:
        raise BadTemplate(_in_one_line(error)) from None


def _in_one_line(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return " ".join(str(error).split()) or type(error).__name__


def _check(tree: nodes.Template, names: frozenset[str]) -> None:
    """Refuse every construct that is not known to be harmless. Iterative, because a template may be nested deeply."""
    count = 0
    pending: list[tuple[nodes.Node, int, frozenset[str]]] = [(tree, 0, names)]
    while pending:
        node, depth, known = pending.pop()
        count += 1
        if depth > MAX_DEPTH or count > MAX_NODES:
            raise BadTemplate("it is nested too deeply" if depth > MAX_DEPTH else "it has too many parts")
        _check_node(node, known)
        if isinstance(node, nodes.For) and isinstance(node.target, nodes.Name):
            known = known | {node.target.name, "loop"}
        called = node.node if isinstance(node, nodes.Call) else None
        pending.extend((child, depth + 1, known) for child in node.iter_child_nodes() if child is not called)


def _check_node(node: nodes.Node, known: frozenset[str]) -> None:
    match node:
        case nodes.Name(name=name, ctx="load") if name not in known:
            raise BadTemplate(f"line {node.lineno}: `{name}` is unknown; it may use {', '.join(sorted(known))}")
        case nodes.Name(name=name, ctx="store") if name.startswith("_") or name in FUNCTIONS:
            raise BadTemplate(f"line {node.lineno}: `{name}` cannot be the name of a loop's value")
        case nodes.Filter() if node.name not in FILTERS or node.node is None or _arguments(node):
            cause = f"the filter `{node.name}` is not allowed; it may use {', '.join(FILTERS)}, without arguments"
            raise BadTemplate(f"line {node.lineno}: {cause}")
        case nodes.Test() if node.name not in TESTS or _arguments(node):
            cause = f"the test `{node.name}` is not allowed; it may use {', '.join(TESTS)}"
            raise BadTemplate(f"line {node.lineno}: {cause}")
        case nodes.Call() if not _is_function(node):
            raise BadTemplate(f"line {node.lineno}: only fence(name, text) and verdict_json(example) can be called")
        case nodes.For(recursive=True):
            raise BadTemplate(f"line {node.lineno}: a loop cannot be recursive")
        case _ if not isinstance(node, _ALLOWED):
            raise BadTemplate(f"line {node.lineno}: {type(node).__name__} is not allowed in a prompt's template")


def _arguments(node: nodes.Filter | nodes.Test) -> bool:
    return bool(node.args or node.kwargs or node.dyn_args or node.dyn_kwargs)


def _is_function(node: nodes.Call) -> bool:
    known = isinstance(node.node, nodes.Name) and node.node.name in FUNCTIONS
    return known and not (node.kwargs or node.dyn_args or node.dyn_kwargs)
