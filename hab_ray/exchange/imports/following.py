"""Follows prompt-building code on paper: the text that a method returns, with places for what it is given.

Understood are f-strings, `str.format`, `+`, `+=`, `join`, `str.replace` on fixed texts, `textwrap.dedent`, `strip`,
names of modules and classes, calls of other functions and methods of the checkout, and loops over seeds or fixed lists.
Everything else is a `CodeError` that names file and line.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hab_ray.exchange.imports.operations import UNDERSTOOD, added, member_at, outside, subtracted
from hab_ray.exchange.imports.scopes import Class, CodeError, Definition, Imported, Member, Module, Sources
from hab_ray.exchange.imports.texts import called_on, formatted, formatted_value
from hab_ray.exchange.imports.values import (
    Loop,
    NotUnderstood,
    Number,
    Numbered,
    OpenText,
    Seeds,
    SeedTexts,
    as_text,
    described,
    joined,
    pieces_of,
)
from hab_ray.rubric import Each, Insert, Value

MOST_STEPS = 200_000
DEEPEST_CALLS = 20


@dataclass
class Steps:
    """What may still be followed, so that code cannot keep an import busy."""

    left: int = MOST_STEPS

    def take(self) -> None:
        """Count one step."""
        self.left -= 1
        if self.left < 0:
            raise NotUnderstood(f"it takes more than {MOST_STEPS:,} steps to follow")


@dataclass(frozen=True)
class Frame:
    """Where code is followed: its module, the class behind `self`, its local names.

    `unread` are attributes that stand for seeds or themes where what they are assigned cannot be followed, such as a
    file's content.
    """

    sources: Sources
    module: Module
    owner: Class | None
    unread: Mapping[str, Any]
    names: dict[str, Any] = field(default_factory=dict)
    steps: Steps = field(default_factory=Steps)
    depth: int = 0


@dataclass(frozen=True)
class _Owner:
    """`self`, `cls` or a class by its name."""

    of: Class


@dataclass(frozen=True)
class _Result:
    """What a `return` gives."""

    value: Any


def evaluate(node: ast.expr, frame: Frame) -> Any:
    """What an expression stands for.

    Raises:
        CodeError: it cannot be followed.
    """
    try:
        frame.steps.take()
        return _value(node, frame)
    except NotUnderstood as problem:
        raise frame.module.error(node, str(problem)) from None


def _value(node: ast.expr, frame: Frame) -> Any:
    match node:
        case ast.Constant(value=str() | int() | float() | None as value):
            return value
        case ast.JoinedStr(values=values):
            return joined([_part_of_f_string(part, frame) for part in values])
        case ast.BinOp(op=ast.Add()):
            return added(evaluate(node.left, frame), evaluate(node.right, frame))
        case ast.BinOp(op=ast.Sub()):
            return subtracted(evaluate(node.left, frame), evaluate(node.right, frame))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return subtracted(0, evaluate(operand, frame))
        case ast.Name(id=name):
            return _named(name, frame)
        case ast.Attribute():
            return _attribute(evaluate(node.value, frame), node.attr, frame)
        case ast.Subscript():
            return member_at(evaluate(node.value, frame), evaluate(node.slice, frame))
        case ast.Call():
            return _call(node, frame)
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
            return [evaluate(part, frame) for part in parts]
        case ast.Dict(keys=keys, values=values):
            return {_key(key, frame): evaluate(value, frame) for key, value in zip(keys, values, strict=True)}
        case ast.ListComp(elt=made, generators=[loop]) | ast.GeneratorExp(elt=made, generators=[loop]):
            return _comprehension(made, loop, frame)
        case ast.IfExp():
            return evaluate(node.body if _condition(node.test, frame) else node.orelse, frame)
    raise NotUnderstood(f"{type(node).__name__} cannot be followed here; {UNDERSTOOD}")


def _key(node: ast.expr | None, frame: Frame) -> Any:
    key = evaluate(node, frame) if node else None
    if not isinstance(key, str | int):
        raise NotUnderstood("a key of this dict is not a fixed text or number")
    return key


def _part_of_f_string(part: ast.expr, frame: Frame) -> str | OpenText:
    if isinstance(part, ast.FormattedValue):
        spec = as_text(evaluate(part.format_spec, frame)) if part.format_spec else ""
        return formatted_value(evaluate(part.value, frame), chr(part.conversion) if part.conversion > 0 else "", spec)
    return as_text(evaluate(part, frame))


def _named(name: str, frame: Frame) -> Any:
    if name in frame.names:
        return frame.names[name]
    if name in ("self", "cls") and frame.owner:
        return _Owner(frame.owner)
    return _of_module(frame.module, name, frame)


def _of_module(module: Module, name: str, frame: Frame) -> Any:
    match module.names.get(name):
        case ast.ClassDef() as node:
            return _Owner(Class(module, node))
        case ast.FunctionDef() | ast.AsyncFunctionDef() as node:
            return Member(Class(module, ast.ClassDef(name, [], [], [], [])), node)
        case Imported(dotted=dotted):
            return _imported(dotted, frame)
        case ast.expr() as value:
            return evaluate(value, _inside(frame, module, None))
    if name in ("str", "len", "enumerate", "list", "tuple", "range", "chr"):
        return Imported(name)
    raise NotUnderstood(f"the name {name!r} is defined nowhere in the checkout; a constant or parameter is expected")


def _imported(dotted: str, frame: Frame) -> Any:
    found = frame.sources.resolved(dotted)
    if found is not None and found[1] in found[0].names:
        return _of_module(*found, replace(frame, depth=_deeper(frame)))
    return Imported(dotted)


def _deeper(frame: Frame) -> int:
    if frame.depth >= DEEPEST_CALLS:
        raise NotUnderstood(f"it goes more than {DEEPEST_CALLS} definitions deep")
    return frame.depth + 1


def _inside(frame: Frame, module: Module, owner: Class | None, names: Mapping[str, Any] | None = None) -> Frame:
    return replace(frame, module=module, owner=owner, names=dict(names or {}), depth=_deeper(frame))


def _attribute(value: Any, name: str, frame: Frame) -> Any:
    match value:
        case Imported(dotted=dotted):
            return _imported(f"{dotted}.{name}", frame)
        case _Owner(of=owner):
            return attribute_of(owner, name, frame)
    raise NotUnderstood(f"the attribute {name!r} of {described(value)} cannot be followed; {UNDERSTOOD}")


def attribute_of(owner: Class, name: str, frame: Frame) -> Any:
    """What an attribute of a class or of its instance stands for; of a method that is no property, the member.

    Raises:
        CodeError: what it is assigned cannot be followed.
        NotUnderstood: there is no such attribute.
    """
    member = frame.sources.members(owner).get(name)
    if member is None and name in frame.unread:
        return frame.unread[name]
    if member is None:
        raise NotUnderstood(f"the class {owner.node.name} has no attribute {name!r} that is assigned in the checkout")
    if isinstance(member.value, Definition):
        return called(member, owner, [], {}, frame) if _is_property(member.value) else member
    try:
        return evaluate(member.value, _inside(frame, member.owner.module, owner, _class_names(member, frame)))
    except CodeError:
        if name in frame.unread:
            return frame.unread[name]
        raise


def _class_names(member: Member, frame: Frame) -> dict[str, Any]:
    """The constants of a class' body that a further one of them is made of."""
    if member.is_of_instance or isinstance(member.value, Definition):
        return {}
    used = {node.id for node in ast.walk(member.value) if isinstance(node, ast.Name)}
    others = frame.sources.members(member.owner)
    found = {}
    for name in sorted(used & others.keys()):
        value = others[name].value
        if not isinstance(value, Definition) and value is not member.value:
            inside = _inside(
                frame, member.owner.module, None, _class_names(others[name], replace(frame, depth=_deeper(frame)))
            )
            found[name] = evaluate(value, inside)
    return found


def _decorators(definition: Definition) -> set[str]:
    return {ast.unparse(decorator).rpartition(".")[2] for decorator in definition.decorator_list}


def _is_property(definition: Definition) -> bool:
    return bool(_decorators(definition) & {"property", "cached_property"})


def parameters(definition: Definition) -> list[ast.arg]:
    """The parameters of a function or method that its caller gives, `self` and `cls` left out.

    Raises:
        NotUnderstood: there are some by * or **.
    """
    given = definition.args
    if given.vararg or given.kwarg:
        raise NotUnderstood("parameters with * or ** cannot be followed; name each parameter")
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    return every[1:] if every and every[0].arg in ("self", "cls") else every


def defaults(definition: Definition) -> dict[str, ast.expr]:
    """The defaults of parameters, by name."""
    given = definition.args
    named = [arg.arg for arg in (*given.posonlyargs, *given.args)]
    found = dict(zip(named[len(named) - len(given.defaults) :], given.defaults, strict=True))
    pairs = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    return found | {arg.arg: default for arg, default in pairs if default is not None}


def called(member: Member, owner: Class | None, given: Sequence[Any], named: Mapping[str, Any], frame: Frame) -> Any:
    """What a function or method returns for these values.

    Raises:
        CodeError: it cannot be followed.
    """
    definition, module = member.value, member.owner.module
    assert isinstance(definition, Definition)
    if unknown := _decorators(definition) - {
        *("property", "cached_property", "staticmethod", "classmethod", "abstractmethod", "override", "cache"),
    }:
        raise NotUnderstood(f"the decorator {', '.join(sorted(unknown))} of {definition.name} cannot be followed")
    names = [arg.arg for arg in parameters(definition)]
    if len(given) > len(names) or (set(named) - set(names)):
        raise NotUnderstood(f"{definition.name} is given more or other values than it has parameters")
    inside = _inside(frame, module, owner, dict(zip(names, given, strict=False)) | dict(named))
    for name, default in defaults(definition).items():
        if name in names and name not in inside.names:
            inside.names[name] = evaluate(default, _inside(frame, module, None))
    if missing := [name for name in names if name not in inside.names]:
        raise NotUnderstood(f"{definition.name} is not given {', '.join(missing)}")
    result = _run(definition.body, inside)
    if result is None:
        raise module.error(definition, f"{definition.name} returns nothing that can be followed; a text is expected")
    return result.value


def _run(body: Sequence[ast.stmt], frame: Frame) -> _Result | None:
    for statement in body:
        try:
            frame.steps.take()
            result = _statement(statement, frame)
        except NotUnderstood as problem:
            raise frame.module.error(statement, str(problem)) from None
        if result is not None:
            return result
    return None


def _statement(statement: ast.stmt, frame: Frame) -> _Result | None:
    match statement:
        case ast.Return():
            return _Result(evaluate(statement.value, frame) if statement.value else None)
        case ast.Expr(value=ast.Constant()) | ast.Pass() | ast.Assert():
            return None
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[one])):
            _append(name, evaluate(one, frame), frame)
        case ast.Assign(targets=[ast.Name(id=name)]):
            frame.names[name] = evaluate(statement.value, frame)
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            frame.names[name] = evaluate(value, frame)
        case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value):
            frame.names[name] = added(_named(name, frame), evaluate(value, frame))
        case ast.If(test=test):
            return _run(statement.body if _condition(test, frame) else statement.orelse, frame)
        case ast.For(orelse=[]):
            return _for(statement, frame)
        case ast.Import() | ast.ImportFrom():
            inner = Module(frame.module.file, frame.module.dotted, ast.Module([statement], []))
            frame.names.update(
                {name: _imported(str(getattr(v, "dotted", "")), frame) for name, v in inner.names.items()}
            )
        case _:
            raise NotUnderstood(
                f"a statement of this kind ({type(statement).__name__}) cannot be followed; {UNDERSTOOD}"
            )
    return None


def _append(name: str, value: Any, frame: Frame) -> None:
    listed = frame.names.get(name)
    if not isinstance(listed, list):
        raise NotUnderstood(f"{name}.append cannot be followed; {name} is not a list of this method")
    frame.names[name] = [*listed, value]


def _condition(test: ast.expr, frame: Frame) -> bool:
    value = evaluate(test, frame)
    if not isinstance(value, bool | int | str | list | dict | None):
        raise NotUnderstood("the condition depends on what the method is given; a prompt without branches is expected")
    return bool(value)


def _for(statement: ast.For, frame: Frame) -> _Result | None:
    values = evaluate(statement.iter, frame)
    if not isinstance(values, Seeds | Numbered):
        for value in _fixed(values):
            frame.names.update(_bound(statement.target, value))
            if result := _run(statement.body, frame):
                return result
        return None
    loop = Loop()
    inside = replace(frame, names=frame.names | _bound(statement.target, _at_hand(values, loop)))
    for part in statement.body:
        match part:
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add()) if name not in _used(part.value):
                pieces = pieces_of(as_text(evaluate(part.value, inside)))
                each = OpenText((Each(each=pieces, first=_first(loop)),))
                frame.names[name] = added(_named(name, frame), each)
            case ast.Expr(
                value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[added_text])
            ):
                _append(name, _each(added_text, inside, loop), frame)
            case ast.Assign(targets=[ast.Name(id=name)]) if name not in frame.names:
                inside.names[name] = evaluate(part.value, inside)
            case _:
                raise frame.module.error(
                    part, "in a loop over seeds only `text += ...` and `parts.append(...)` are understood"
                )
    return None


def _first(loop: Loop) -> int:
    return 1 if loop.first is None else loop.first


def _used(node: ast.expr) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _each(made: ast.expr, inside: Frame, loop: Loop) -> SeedTexts:
    text = evaluate(made, inside)
    if not isinstance(text, str | OpenText):
        raise NotUnderstood(f"for each seed there is {described(text)} where a text is expected")
    return SeedTexts(Each(each=pieces_of(text), first=_first(loop)))


def _at_hand(values: Seeds | Numbered, loop: Loop) -> Any:
    seed = OpenText((Insert(value=Value.SEED),))
    match values:
        case Numbered(numbers_only=True, start=start):
            return Number(loop, start)
        case Numbered(start=start):
            return [Number(loop, start), seed]
    return seed


def _comprehension(made: ast.expr, loop: ast.comprehension, frame: Frame) -> Any:
    values = evaluate(loop.iter, frame)
    if not isinstance(values, Seeds | Numbered):
        found = []
        for value in _fixed(values):
            inside = replace(frame, names=frame.names | _bound(loop.target, value))
            if all(_condition(test, inside) for test in loop.ifs):
                found.append(evaluate(made, inside))
        return found
    if loop.ifs:
        raise NotUnderstood("a condition on seeds cannot be followed; leave it out")
    passage = Loop()
    inside = replace(frame, names=frame.names | _bound(loop.target, _at_hand(values, passage)))
    return _each(made, inside, passage)


def _fixed(values: Any) -> list[Any]:
    if isinstance(values, dict | list | tuple):
        return list(values)
    raise NotUnderstood(f"a loop over {described(values)} cannot be followed; seeds or a fixed list are expected")


def _bound(target: ast.expr, value: Any) -> dict[str, Any]:
    match target, value:
        case ast.Name(id=name), _:
            return {name: value}
        case ast.Tuple(elts=names), list() | tuple() if len(names) == len(value):
            return {
                name: one for part, each in zip(names, value, strict=True) for name, one in _bound(part, each).items()
            }
    raise NotUnderstood("the names that this loop gives to its values cannot be followed")


def _call(node: ast.Call, frame: Frame) -> Any:
    if any(isinstance(arg, ast.Starred) for arg in node.args) or any(word.arg is None for word in node.keywords):
        raise NotUnderstood("values given by * or ** cannot be followed; name each value")
    if isinstance(node.func, ast.Attribute):
        receiver = evaluate(node.func.value, frame)
        if isinstance(receiver, str | OpenText | list | dict):
            given = [evaluate(arg, frame) for arg in node.args]
            named = {str(word.arg): evaluate(word.value, frame) for word in node.keywords}
            if node.func.attr == "format":
                return formatted(receiver, given, named)
            return called_on(receiver, node.func.attr, given, named)
        function = _attribute(receiver, node.func.attr, frame)
        owner = receiver.of if isinstance(receiver, _Owner) else None
    else:
        function, owner = evaluate(node.func, frame), None
    given = [evaluate(arg, frame) for arg in node.args]
    named = {str(word.arg): evaluate(word.value, frame) for word in node.keywords}
    if isinstance(function, Member):
        return called(function, owner, given, named, frame)
    if isinstance(function, Imported):
        return outside(function.dotted, [*given, *named.values()])
    raise NotUnderstood(f"this call cannot be followed; {UNDERSTOOD}")
