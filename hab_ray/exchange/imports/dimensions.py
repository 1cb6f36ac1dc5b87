"""From the classes of a checkout to rubrics: which class is which dimension, which method makes which request."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hab_ray.exchange.imports.checkout import Checkout
from hab_ray.exchange.imports.following import Frame, attribute_of, called, defaults, parameters
from hab_ray.exchange.imports.naming import Role, attribute_values, role_of, snake, values_of
from hab_ray.exchange.imports.scopes import Class, CodeError, Definition, Member
from hab_ray.exchange.imports.values import NotUnderstood, OpenText, described, pieces_of
from hab_ray.rubric import SCORE_START, Criterion, Piece
from hab_ray.rubric.literal import inserts

_DEDUCTIONS = re.compile("deduction|penalt", re.IGNORECASE)
_ENDINGS = ("dimension", "prompts", "prompt", "evaluator", "evaluation", "rubric", "benchmark", "test", "class")
_LIST_KEY = re.compile(r"[\"'](\w{1,40})[\"']\s*:\s*\[")


@dataclass(frozen=True)
class Names:
    """What a user says of names that do not speak for themselves: a method's role, a parameter's value."""

    means: Mapping[str, str] = field(default_factory=dict)

    def role(self, name: str) -> Role | None:
        """The role of a method or attribute."""
        word = self.means.get(name, "")
        return Role(word) if word in list(Role) else role_of(name)


@dataclass(frozen=True)
class Dimension:
    """One dimension as its class has it. `origins` says for each request which member it was read from."""

    id: str
    owner: Class
    issues: tuple[Criterion, ...]
    requests: Mapping[Role, str | OpenText]
    origins: Mapping[Role, str]

    def pieces(self, role: Role) -> tuple[Piece, ...]:
        """The pieces of a request; none where the class does not make it."""
        return pieces_of(self.requests.get(role, ""))

    def system(self, role: Role) -> str:
        """A system prompt, "" = none."""
        return "".join(map(str, self.pieces(role)))

    @property
    def uses(self) -> set[str]:
        """The values that its requests put in."""
        return {insert.value.value for role in self.requests for insert in inserts(self.pieces(role))}


def dimensions_of(checkout: Checkout, names: Names, known: tuple[str, ...]) -> list[Dimension]:
    """The dimensions of a checkout, sorted; `known` are ids that names of classes may hold.

    Raises:
        CodeErrors: some class cannot be followed; every problem that was found.
    """
    found: list[Dimension] = []
    problems: list[CodeError] = []
    sources = checkout.sources
    for module in sources.modules:
        for node in module.tree.body:
            name = getattr(node, "name", "")
            owner = sources.class_named(module, name) if name else None
            if owner is None or owner.node is not node:
                continue
            try:
                if deductions := _deductions(owner, checkout):
                    found.append(_Reading(checkout, owner, names).dimension(_id(owner, known), *deductions))
            except CodeError as problem:
                problems.append(problem)
            except RecursionError:
                problems.append(module.error(node, "it is nested too deeply to be followed"))
    for number, each in enumerate(found):
        if each.id in {earlier.id for earlier in found[:number]}:
            problems.append(
                each.owner.module.error(each.owner.node, f"{each.id} has a class already; leave one of them")
            )
    if problems:
        raise CodeErrors(*problems)
    return sorted(found, key=lambda each: each.id)


class CodeErrors(Exception):
    """Everything in a checkout that cannot be followed; its arguments are the CodeErrors."""

    def __str__(self) -> str:
        return "\n".join(map(str, self.args))


def _frame(checkout: Checkout, owner: Class) -> Frame:
    return Frame(checkout.sources, owner.module, owner, attribute_values())


def _deductions(owner: Class, checkout: Checkout) -> tuple[str, Any] | None:
    """Name and content of the class' own dict of deductions."""
    members = checkout.sources.members(owner)
    names = [name for name in members if _DEDUCTIONS.search(name) and not isinstance(members[name].value, Definition)]
    frame, found, problems = _frame(checkout, owner), [], []
    for name in [name for name in names if role_of(name) is not Role.VALIDATION]:
        try:
            content = _guarded(owner, members[name], partial(attribute_of, owner, name, frame))
        except CodeError as problem:
            problems.append(problem)
        else:
            found += [(name, content)] if isinstance(content, dict) and content else []
    if len(found) > 1:
        several = ", ".join(name for name, _ in found)
        raise owner.module.error(owner.node, f"{several} may each hold the deductions; one dict is expected")
    if problems and not found:
        raise problems[0]
    return found[0] if found else None


def _guarded(owner: Class, member: Member, read: Callable[[], Any]) -> Any:
    try:
        return read()
    except NotUnderstood as problem:
        raise member.owner.module.error(member.value, str(problem)) from None


def _id(owner: Class, known: tuple[str, ...]) -> str:
    words = snake(owner.node.name)
    stem = snake(owner.module.dotted.rpartition(".")[2])
    for each in known:
        if each in words or each in stem:
            return each
    parts = words.split("_")
    while len(parts) > 1 and parts[-1] in _ENDINGS:
        parts.pop()
    return "_".join(parts)


@dataclass(frozen=True)
class _Reading:
    """One class being read."""

    checkout: Checkout
    owner: Class
    names: Names

    def dimension(self, id: str, deductions_name: str, deductions: Mapping[Any, Any]) -> Dimension:
        """The dimension of the class.

        Raises:
            CodeError: it cannot be followed, or has no method that makes the judge's request.
        """
        members = self.checkout.sources.members(self.owner)
        requests: dict[Role, str | OpenText] = {}
        origins: dict[Role, str] = {}
        for role, name in self._roles(members).items():
            requests[role] = self._text(role, name, members[name])
            origins[role] = f"{name} ({members[name].owner.module.file}, line {members[name].value.lineno})"
        if Role.JUDGING not in requests:
            raise self._error(
                "no method makes the judge's request; a method such as `evaluation_prompt(self, question, answer)` is "
                f"expected: name it with --means NAME={Role.JUDGING}"
            )
        found = Dimension(id, self.owner, (), requests, origins)
        judged = (
            found.system(Role.JUDGING_SYSTEM)
            + "\n"
            + "\n".join(p for p in found.pieces(Role.JUDGING) if isinstance(p, str))
        )
        return Dimension(id, self.owner, self._issues(deductions_name, deductions, judged), requests, origins)

    def _error(self, problem: str) -> CodeError:
        return self.owner.module.error(self.owner.node, f"class {self.owner.node.name}: {problem}")

    def _roles(self, members: Mapping[str, Member]) -> dict[Role, str]:
        """The member for each role: one that the user names, else a method, else an attribute."""
        found: dict[Role, list[tuple[int, str]]] = {}
        for name, member in members.items():
            is_method = isinstance(member.value, Definition)
            role = self.names.role(name)
            if role is None or (name.startswith("_") and name not in self.names.means) or _DEDUCTIONS.search(name):
                continue
            if is_method or role.is_system:
                rank = 0 if name in self.names.means else 1 if is_method else 2
                found.setdefault(role, []).append((rank, name))
        chosen = {}
        for role, ranked in found.items():
            best = [name for rank, name in sorted(ranked) if rank == min(ranked)[0]]
            if len(best) > 1:
                raise self._error(f"{', '.join(best)} may each be {role}; name the right one with --means NAME={role}")
            chosen[role] = best[0]
        return chosen

    def _text(self, role: Role, name: str, member: Member) -> str | OpenText:
        text = _guarded(self.owner, member, lambda: self._returned(role, name, member))
        if text is None and role.is_system:
            return ""
        if not isinstance(text, str | OpenText) or (role.is_system and not isinstance(text, str)):
            wanted = "a fixed text" if role.is_system else "a text"
            problem = f"{name} gives {described(text)}, and {wanted} is expected ({role})"
            raise member.owner.module.error(member.value, problem)
        return text

    def _returned(self, role: Role, name: str, member: Member) -> Any:
        frame = _frame(self.checkout, self.owner)
        definition = member.value
        if not isinstance(definition, Definition):
            return attribute_of(self.owner, name, frame)
        wanted = [arg.arg for arg in parameters(definition)]
        given = values_of(wanted, role, self.names.means)
        for unknown in wanted:
            if unknown not in given and unknown not in defaults(definition):
                raise NotUnderstood(
                    f"it is not known what the parameter {unknown!r} of {name} stands for ({role}); say it with "
                    f"--means {unknown}=prompt (or response, context, theme, count, seeds)"
                )
        return called(member, self.owner, [], given, frame)

    def _issues(self, name: str, deductions: Mapping[Any, Any], judged: str) -> tuple[Criterion, ...]:
        found = []
        for letter, content in sorted(deductions.items(), key=lambda pair: str(pair[0])):
            points, text = _points(content)
            if not isinstance(letter, str) or not letter.strip() or points is None or not 1 <= points <= SCORE_START:
                raise self._error(f"{name}: {letter!r} has no whole number of points from 1 to {SCORE_START}")
            found.append(Criterion(letter=letter, deduction=points, text=text or _described(letter, judged)))
        return tuple(found)


def _points(content: Any) -> tuple[int | None, str]:
    """Points and text of an entry: a number, or a number and a text in a dict or list."""
    parts = list(content.values()) if isinstance(content, dict) else content if isinstance(content, list) else [content]
    numbers = [abs(part) for part in parts if isinstance(part, int | float) and part == int(part)]
    texts = [part for part in parts if isinstance(part, str) and part.strip()]
    return (int(numbers[0]) if len(numbers) == 1 else None), (texts[0] if len(texts) == 1 else "")


def _described(letter: str, judged: str) -> str:
    """The words behind a letter in the judge's request, where one line begins with it."""
    lines = re.findall(rf"(?m)^[ \t]*(?:[-*][ \t]*)?\(?\**{re.escape(letter)}\**[).:][ \t]*(\S.*)$", judged)
    return lines[0].strip() if len(lines) == 1 else f"Deduction {letter} of the imported wording."


def verdict_key(judged: str) -> str | None:
    """The one key of a JSON list that a judge's request shows; None where there is none or several."""
    keys = set(_LIST_KEY.findall(judged))
    return keys.pop() if len(keys) == 1 else None
