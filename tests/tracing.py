"""Follows what a piece of work does: every call between functions of ours, in all threads, with what it was handed."""

from __future__ import annotations

import asyncio
import inspect
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import hab_ray

PACKAGE = Path(hab_ray.__file__).parent
NOT_CALLS = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR


@dataclass(frozen=True)
class Function:
    """A function by its module and the name it has there, such as `Sender.send`."""

    module: str
    name: str

    @property
    def dotted(self) -> str:
        return f"{self.module}.{self.name}"

    @property
    def is_public(self) -> bool:
        """Whether it may be named elsewhere: it and its class have no leading underscore, and it is nested in none."""
        return not any(part.startswith(("_", "<")) for part in self.name.split("."))

    @property
    def package(self) -> str:
        """The package or module of hab_ray that it stands in."""
        return self.module.split(".")[1] if "." in self.module else self.module


@dataclass(eq=False)
class Step:
    """One call. `caller` is the step that made it, also through a library or by handing it to another thread.

    `arguments` are those it was handed, by name; `result` is what it returned. A generator or lambda that begins is a
    step, but `is_call` is false: whoever reads it or was given it has it begin, and need not know it.
    """

    function: Function
    caller: Step | None
    arguments: Mapping[str, Any]
    is_call: bool
    result: Any = None

    def callers(self) -> Iterator[Step]:
        """Who made the call, who made that one, and so on."""
        step = self.caller
        while step is not None:
            yield step
            step = step.caller


@dataclass
class Trace:
    """The steps in the order in which they began."""

    steps: list[Step] = field(default_factory=list)
    _of: dict[FrameType, Step] = field(default_factory=dict)
    _handed_over: dict[tuple[CodeType, int], Step] = field(default_factory=dict)
    _functions: dict[CodeType, Function | None] = field(default_factory=dict)

    @contextmanager
    def on(self) -> Iterator[None]:
        """Trace this thread, and those that begin meanwhile."""
        threading.settrace(self._enter)
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(None)
            threading.settrace(None)
            self._of.clear()

    def _enter(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        if frame in self._of:  # a coroutine goes on
            return self._leave
        if frame.f_code is asyncio.to_thread.__code__:
            self._hand_over(frame)
            return None
        function = self._function(frame.f_code)
        if function is None:
            return None
        code = frame.f_code
        is_call = not code.co_flags & NOT_CALLS and not code.co_name.startswith("<")
        step = Step(function, self._caller(frame), _arguments(frame), is_call)
        self.steps.append(step)
        self._of[frame] = step
        frame.f_trace_lines = False
        return self._leave

    def _leave(self, frame: FrameType, event: str, result: Any) -> Callable[..., Any]:
        if event == "return" and frame in self._of:
            self._of[frame].result = result
        return self._leave

    def _caller(self, frame: FrameType) -> Step | None:
        back = frame.f_back
        while back is not None:
            if back in self._of:
                return self._of[back]
            back = back.f_back
        return self._handed_over.get((frame.f_code, id(frame.f_locals.get("self"))))

    def _hand_over(self, frame: FrameType) -> None:
        """Note who has a thread call a function."""
        called, by = frame.f_locals["func"], self._caller(frame)
        code = getattr(getattr(called, "__func__", called), "__code__", None)
        if by is not None and code is not None:
            self._handed_over[code, id(getattr(called, "__self__", None))] = by

    def _function(self, code: CodeType) -> Function | None:
        """The function of ours that has this code."""
        if code not in self._functions:
            path = Path(code.co_filename)
            ours = Function(_module(path), code.co_qualname) if path.is_relative_to(PACKAGE) else None
            self._functions[code] = ours
        return self._functions[code]


def _module(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def _arguments(frame: FrameType) -> Mapping[str, Any]:
    code = frame.f_code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return {name: frame.f_locals.get(name) for name in names}
