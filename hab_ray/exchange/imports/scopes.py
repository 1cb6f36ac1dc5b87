"""The Python files of a checkout, parsed: which name stands for what in which module, and the members of classes."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

Definition = ast.FunctionDef | ast.AsyncFunctionDef
DEEPEST_BASES = 20


class CodeError(Exception):
    """Code cannot be read or followed: file, line, cause and what is expected."""

    def __init__(self, file: str, line: int, problem: str) -> None:
        super().__init__(f"{file}, line {line}: {problem}")


@dataclass(frozen=True)
class Imported:
    """Something that a module imports, by its dotted name; relative imports are resolved."""

    dotted: str


@dataclass(frozen=True, eq=False)
class Module:
    """A parsed file. `file` is its path within the checkout, `dotted` the name under which others import it."""

    file: str
    dotted: str
    tree: ast.Module

    @cached_property
    def names(self) -> Mapping[str, ast.expr | Definition | ast.ClassDef | Imported]:
        """What each name of the module stands for in the end."""
        found: dict[str, ast.expr | Definition | ast.ClassDef | Imported] = {}
        for statement in self.tree.body:
            match statement:
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                    found[statement.name] = statement
                case ast.Import():
                    for alias in statement.names:
                        found[alias.asname or alias.name.partition(".")[0]] = Imported(
                            alias.name if alias.asname else alias.name.partition(".")[0]
                        )
                case ast.ImportFrom():
                    start = self._package(statement)
                    for alias in statement.names:
                        found[alias.asname or alias.name] = Imported(f"{start}.{alias.name}".strip("."))
                case _:
                    found |= dict(assigned(statement))
        return found

    def _package(self, statement: ast.ImportFrom) -> str:
        if not statement.level:
            return statement.module or ""
        parts = self.dotted.split(".")
        is_package = self.file.endswith("__init__.py")
        up = statement.level - 1 if is_package else statement.level
        return ".".join([*parts[: len(parts) - up], *([statement.module] if statement.module else [])])

    def error(self, node: ast.AST, problem: str) -> CodeError:
        """The error that something at a node cannot be followed."""
        return CodeError(self.file, getattr(node, "lineno", 1), problem)


def assigned(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """The names that a statement gives a value to."""
    match statement:
        case ast.Assign(targets=targets, value=value):
            yield from ((target.id, value) for target in targets if isinstance(target, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            yield name, value


@dataclass(frozen=True, eq=False)
class Class:
    """A class at the top level of a module."""

    module: Module
    node: ast.ClassDef


@dataclass(frozen=True, eq=False)
class Member:
    """A member of a class, and where it is defined. `is_of_instance`: `__init__` assigns it to `self`."""

    owner: Class
    value: ast.expr | Definition
    is_of_instance: bool = False


@dataclass(frozen=True)
class Sources:
    """All modules of a checkout."""

    modules: tuple[Module, ...]
    by_name: Mapping[str, Module] = field(default_factory=dict)
    _members: dict[ast.ClassDef, dict[str, Member]] = field(default_factory=dict, repr=False, compare=False)

    def resolved(self, dotted: str) -> tuple[Module, str] | None:
        """Module and name of something that is imported from within the checkout; None where it is from outside.

        A checkout's folder may be anything on Python's path, so the end of the dotted name decides.
        """
        module, _, name = dotted.rpartition(".")
        found = self.by_name.get(module) or self._by_end(module)
        return (found, name) if found else None

    def _by_end(self, dotted: str) -> Module | None:
        ends = [
            m for m in self.modules if dotted and (m.dotted.endswith(f".{dotted}") or dotted.endswith(f".{m.dotted}"))
        ]
        return ends[0] if len(ends) == 1 else None

    def class_named(self, module: Module, name: str) -> Class | None:
        """The class that a name stands for in a module, also if it is imported from another of the checkout."""
        for _ in range(DEEPEST_BASES):
            match module.names.get(name):
                case ast.ClassDef() as node:
                    return Class(module, node)
                case Imported(dotted=dotted) if found := self.resolved(dotted):
                    module, name = found
                case _:
                    return None
        return None

    def members(self, owner: Class, depth: int = 0) -> dict[str, Member]:
        """The members of a class, those of its bases in the checkout too."""
        if owner.node not in self._members:
            self._members[owner.node] = self._collected(owner, depth)
        return self._members[owner.node]

    def _collected(self, owner: Class, depth: int) -> dict[str, Member]:
        found: dict[str, Member] = {}
        for base in reversed(owner.node.bases):
            name = base.id if isinstance(base, ast.Name) else ""
            parent = self.class_named(owner.module, name)
            if parent is not None and depth < DEEPEST_BASES:
                found |= self.members(parent, depth + 1)
        for statement in owner.node.body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                found[statement.name] = Member(owner, statement)
            else:
                found |= {name: Member(owner, value) for name, value in assigned(statement)}
        return found | {name: Member(owner, value, True) for name, value in _of_instances(owner.node)}


def _of_instances(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    """The names that `__init__` assigns to `self`."""
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            for statement in method.body:
                match statement:
                    case (
                        ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=value)
                        | ast.AnnAssign(
                            target=ast.Attribute(value=ast.Name(id="self"), attr=name), value=ast.expr() as value
                        )
                    ):
                        yield name, value
