"""The environment of a process: data folders of the project, extensions in other distributions, Ray's job server."""

import platform
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, wraps
from importlib.metadata import Distribution, EntryPoint, PackageNotFoundError, distributions, entry_points, version
from importlib.resources import files
from importlib.resources.abc import Traversable
from inspect import iscoroutinefunction
from pathlib import Path
from traceback import walk_tb
from types import FunctionType, NoneType, UnionType
from typing import Any, ClassVar, TypeVar, Union, get_args, get_origin, get_type_hints

from hab_ray.errors import ConfigError

T = TypeVar("T")

RAY_JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"  # set by Ray's job server, for the entry point only
_GROUPS = ("hab_ray.", "hab_simulator.")
_REPAIR = "update or repair that package, or uninstall it"
_ALSO = {Iterator: Iterable, list: Sequence, tuple: Sequence}  # what else serves where an interface documents one
_PACKAGES = ("hab-ray", "ray", "openai", "anthropic", "aiohttp", "scikit-learn", "numpy", "pyarrow")


def bundled(name: str) -> Traversable:
    """Return a data folder ("rubrics", "jobs"), which is in the package in a wheel and beside it in a checkout.

    The folders are at the top level of the repository, where people look for them; the build of the wheel copies them
    into the package. Raise ConfigError if there is no such folder.
    """
    packaged = files("hab_ray").joinpath(name)
    if packaged.is_dir():
        return packaged
    checkout = Path(__file__).resolve().parent.parent / name
    if checkout.is_dir():
        return checkout
    raise ConfigError(f"{packaged}: the folder is missing and there is none at {checkout}; install hab-ray again")


def installed_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that a run's results may depend on."""
    return {"python": platform.python_version(), **{package: _version(package) for package in _PACKAGES}}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


OWN_VERSION = _version("hab-ray")


def is_ray_job(environment: Mapping[str, str]) -> bool:
    """Return whether this process is the entry point of a Ray job, or one of its child processes."""
    return bool(environment.get(RAY_JOB))


@dataclass(frozen=True)
class Extensions:
    """Extensions of one kind by name: built-in ones, and those that other distributions register as entry points.

    `group` is the entry point group, and `word` names one extension in messages. `built_in` has the addresses
    ("module:attribute") of ours, which cannot be replaced: while another distribution uses one of their names, that
    name is refused. `remedy` is a sentence for users who name an unknown one.
    Extensions are imported only by `load`.
    """

    group: str
    word: str
    built_in: Mapping[str, str]
    remedy: str

    def added(self) -> list[EntryPoint]:
        """Return the extensions of other distributions, sorted by name."""
        found = (
            entry for entry in installed_extensions() if entry.group == self.group and entry.name not in self.built_in
        )
        return sorted(found, key=lambda entry: entry.name)

    def names(self) -> list[str]:
        """Return all names: built-in ones, then those of other distributions."""
        return [*self.built_in, *dict.fromkeys(entry.name for entry in self.added())]

    def find(self, name: str) -> EntryPoint:
        """Return the entry point with this name without loading it.

        Raises:
            ConfigError: the name is unknown, or several distributions register it.
        """
        ours = [EntryPoint(name, self.built_in[name], self.group)] if name in self.built_in else []
        theirs = [entry for entry in installed_extensions() if (entry.group, entry.name) == (self.group, name)]
        found = [*ours, *theirs]
        if len(found) == 1:
            return found[0]
        if not found:
            raise ConfigError(
                f"there is no {self.word} {name!r}; there are {', '.join(self.names())}. {self.remedy}{_unread()}"
            )
        raise ConfigError(
            f"the {self.word} {name!r} is in several packages ({', '.join(map(distribution, found))}); uninstall all "
            f"but {'hab-ray' if ours else 'one'}"
        )

    def load(self, name: str, sort: type[T]) -> T:
        """Import an extension and check that it is a `sort`.

        Raises:
            ConfigError: the name cannot be found, or its distribution is broken.
        """
        entry = self.find(name)
        with self.blamed(entry):
            if EntryPoint.pattern.match(entry.value) is None:
                raise ValueError("its entry point is not written MODULE:ATTRIBUTE")
            loaded = entry.load()
            if not isinstance(loaded, sort):
                raise TypeError(f"it is a {type(loaded).__name__} and not a {sort.__module__}.{sort.__qualname__}")
            return loaded

    @contextmanager
    def blamed(self, entry: EntryPoint) -> Iterator[None]:
        """Blame the distribution of an entry for any error raised in this block, and for ending the process."""
        try:
            yield
        except (Exception, SystemExit) as error:
            if entry.dist is None or isinstance(error, ConfigError):
                raise
            raise ConfigError(
                f"the {self.word} {entry.name!r} comes from the package {distribution(entry)} ({entry.value}), which "
                f"is broken: {type(error).__name__}: {error}; {_REPAIR}"
            ) from error


def broken_package(package: str | None, what: str) -> ConfigError:
    """Return the error of a package that does not keep to an interface, and what it does instead."""
    return ConfigError(f"the package {package} is broken: {what}; {_REPAIR}")


def hold_to(
    interface: type, made: object, package: str, known: tuple[tuple[object, type], ...] = (), but: tuple[str, ...] = ()
) -> None:
    """Make what a package defines for an interface refuse other types than it documents.

    The methods of the object's class are replaced, `but` for these. `known` gives types for the interface's type
    variables. An iterator may also be another iterable, and a list or tuple another sequence. Raise ConfigError if an
    attribute of the object, or later what a method returns, is of another type.
    """
    owner: Any = type(made)
    for name, hint in get_type_hints(interface).items():
        if hasattr(made, name):
            expected = get_args(hint)[0] if get_origin(hint) is ClassVar else hint
            check_type(getattr(made, name), expected, package, f"{owner.__name__}.{name} has to be")
    _hold_methods(interface, owner, package, known, but)


@cache
def _hold_methods(
    interface: type, made: type, package: str, known: tuple[tuple[object, type], ...], but: tuple[str, ...]
) -> None:
    for name in set(dir(interface)).difference(but):
        documented, given = getattr(interface, name), getattr(made, name, None)
        if isinstance(documented, FunctionType) and isinstance(given, FunctionType) and not _is_ours(given):
            hint = get_type_hints(documented).get("return", NoneType)
            if parameters := getattr(hint, "__parameters__", ()):
                hint = hint[tuple(dict(known).get(one, Any) for one in parameters)]
            if hint is not NoneType:
                said = f"{made.__name__}.{name} has to return"
                setattr(made, name, _checked(given, hint, package, said, iscoroutinefunction(documented)))


def _is_ours(function: FunctionType) -> bool:
    return function.__module__.partition(".")[0] == __package__


def _checked(method: FunctionType, hint: Any, package: str, said: str, is_awaited: bool) -> Callable[..., Any]:
    async def check_later(value: Awaitable[Any]) -> Any:
        return check_type(await value, hint, package, said)

    @wraps(method)
    def checking(*given: Any, **named: Any) -> Any:
        value = method(*given, **named)
        if is_awaited:
            return check_later(check_type(value, Awaitable, package, said))
        check_type(value, hint, package, said)
        return value if get_origin(hint) is not Iterator else _check_each(value, get_args(hint)[0], package, said)

    return checking


def _check_each(values: Iterable[Any], hint: Any, package: str, said: str) -> Iterator[Any]:
    return (check_type(value, hint, package, f"{said} an iterator of") for value in values)


def check_type(value: Any, hint: Any, package: str, said: str) -> Any:
    """Return a value that a package made; raise ConfigError if it is not of the type `hint`, as is `said`."""
    if not _fits(value, hint):
        expected = hint.__name__ if isinstance(hint, type) and not get_args(hint) else hint
        inner = dict.fromkeys(type(one).__name__ for one in value) if isinstance(value, list | tuple) else ()
        parts = f"[{', '.join(inner)}]" if inner else ""
        raise broken_package(package, f"{said} {expected}, not {type(value).__name__}{parts}")
    return value


def _fits(value: Any, hint: Any) -> bool:
    sort, inner = get_origin(hint) or hint, get_args(hint)
    if sort in (Union, UnionType):
        return any(_fits(value, one) for one in inner)
    if sort is Any or not isinstance(value, _ALSO.get(sort, sort)):
        return sort is Any
    if sort is tuple and inner[-1] is not Ellipsis:
        return len(value) == len(inner) and all(map(_fits, value, inner))
    return sort not in (list, tuple, Sequence) or all(_fits(one, inner[0]) for one in value)


def package_of(module: str) -> str | None:
    """Return the name and version of the other distribution that adds this module to hab_ray, if one does."""
    return _adding().get(module.partition(".")[0])


def package_blamed(error: BaseException) -> str | None:
    """Return the other distribution whose code raised an error or called what did, with the place there.

    An attribute that is missing is the fault of its object's class. None = the error is hab_ray's own.
    """
    adding = _adding()
    for frame, line in reversed(list(walk_tb(error.__traceback__))):
        if package := adding.get(str(frame.f_globals.get("__name__")).partition(".")[0]):
            return f"{package} ({Path(frame.f_code.co_filename).name}, line {line})"
    return package_of(type(error.obj).__module__) if isinstance(error, AttributeError) else None


def package_at_fault(error: BaseException, called: object) -> str | None:
    """Return the other distribution whose code, or a library that it called, raised an error, with the place there.

    An error that `called` raises through code of ours that it calls is not its fault, but one in calling it is. None =
    the error is hab_ray's own, or that of the data.
    """
    adding = _adding()
    for frame, line in list(walk_tb(error.__traceback__))[:0:-1]:
        top = str(frame.f_globals.get("__name__")).partition(".")[0]
        if package := adding.get(top):
            return f"{package} ({Path(frame.f_code.co_filename).name}, line {line})"
        if top == __package__:
            return None
    return package_of(getattr(called, "__module__", ""))


@contextmanager
def exits_refused() -> Iterator[None]:
    """Make an error of the SystemExit of a package: it would end hab without a word, or only one of its threads.

    Raises:
        ConfigError: the block raised SystemExit.
    """
    try:
        yield
    except SystemExit as end:
        raise ConfigError(
            f"the package {package_blamed(end) or f'hab-ray {OWN_VERSION}'} ended the process (SystemExit: {end}), "
            "and must not; update, repair or uninstall it. What the run has stored is kept"
        ) from end


def _adding() -> Mapping[str, str]:
    """Return the other distributions that add to hab_ray, by the top-level modules of what they add."""
    entries = sorted((entry for entry in installed_extensions() if entry.dist), key=lambda entry: entry.group)
    return {re.split("[.:]", entry.value)[0].strip(): distribution(entry) for entry in reversed(entries)}


@cache
def installed_extensions() -> tuple[EntryPoint, ...]:
    """Return the entry points of all distributions in our groups, as of the first call: reading them takes 20 ms.

    A distribution whose entry points cannot be read is left out.
    """
    try:
        installed = entry_points()
    except Exception:  # whatever its file holds
        entries = (entry for each in distributions() for entry in _entries(each) or ())
        return tuple(dict.fromkeys(entry for entry in entries if entry.group.startswith(_GROUPS)))
    groups = [group for group in installed.groups if group.startswith(_GROUPS)]
    return tuple(entry for group in groups for entry in installed.select(group=group))


def _entries(installed: Distribution) -> Iterable[EntryPoint] | None:
    """Return the entry points of a distribution, None if they cannot be read."""
    try:
        return installed.entry_points
    except Exception:  # whatever its file holds
        return None


def _unread() -> str:
    """Return a sentence on the distributions whose entry points cannot be read, "" for none."""
    names = {f"{each.name} {each.version}" for each in distributions() if _entries(each) is None}
    if not names:
        return ""
    return f". What these packages add cannot be read ({', '.join(sorted(names))}): repair or uninstall them"


def distribution(entry: EntryPoint) -> str:
    """Return the name and version of the distribution that an entry comes from."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "hab-ray"
