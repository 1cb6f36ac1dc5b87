"""The shape of the code: no circles, classes and modules that can be seen whole, tests that mirror the tree.

What falls short today is listed by name beside its check and is on its way out: a check fails for what is not on its
list, and also for what is on it without need.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parent.parent
PACKAGE, SIMULATOR, TESTS = ROOT / "hab_ray", ROOT / "hab_simulator", ROOT / "tests"
MAX_METHODS, MAX_LINES, MAX_MODULES = 15, 500, 20

CROWDED: set[str] = set()
PRIVATE_READERS = {
    "tests/cluster/test_limits.py",
    "tests/rehearse/test_campaign.py",  # it puts mutants in the places of what is private
}
WITHOUT_COUNTERPART: set[str] = set()
OF_THE_WHOLE = {"contracts", "docs", "readme", "structure", "traces", "upgrade"}
DOCUMENTED_PRIVATES = {"_request_id"}  # openai's and anthropic's documentation names it

pytestmark = pytest.mark.xdist_group("structure")  # one process reads all files


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def modules() -> list[Path]:
    return [*files(PACKAGE), *files(SIMULATOR)]


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def agrees(found: Iterable[str], listed: set[str]) -> None:
    """Fail for what was found and is not listed, and for what is listed and was not found."""
    have = set(found)
    assert not have - listed, f"new: {sorted(have - listed)}"
    assert not listed - have, f"no longer needed on the list: {sorted(listed - have)}"


def test_no_import_circles() -> None:
    """Imports for type checkers count too: what must be known to read a module is part of its floor."""
    graph = grimp.build_graph("hab_ray", "hab_simulator", cache_dir=None, exclude_type_checking_imports=False)
    assert len(graph.modules) > 100
    TopologicalSorter({module: graph.find_modules_directly_imported_by(module) for module in graph.modules}).prepare()


def verbs() -> set[str]:
    """What a vendor has to offer: the methods that a protocol in hab_ray/providers names."""
    protocols = (
        cls
        for path in files(PACKAGE / "providers")
        for cls in classes(path)
        if any(isinstance(base, ast.Name) and base.id == "Protocol" for base in cls.bases)
    )
    return {method for protocol in protocols for method in methods(protocol)}


def classes(path: Path) -> list[ast.ClassDef]:
    return [node for node in ast.walk(tree(path)) if isinstance(node, ast.ClassDef)]


def methods(cls: ast.ClassDef) -> list[str]:
    return [node.name for node in cls.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def test_no_class_is_crowded() -> None:
    """At most 15 methods; a vendor's verbs, which lie flat beside one another, are not counted."""
    flat = verbs()
    assert {"submit", "poll", "results"} <= flat

    def counted(path: Path, cls: ast.ClassDef) -> int:
        is_vendors = PACKAGE / "providers" in path.parents
        return sum(not (is_vendors and name in flat) for name in methods(cls))

    every = ((path, cls) for path in modules() for cls in classes(path))
    agrees((f"{named(path)} {cls.name}" for path, cls in every if counted(path, cls) > MAX_METHODS), CROWDED)


def test_no_name_stands_for_three_classes() -> None:
    """One name, one meaning; twice only where the packages make it plain."""
    named_so = Counter(cls.name for path in modules() for cls in classes(path))
    assert len(named_so) > 500 and {name for name, count in named_so.items() if count > 2} == set()


def test_no_module_is_long() -> None:
    long = {named(path) for path in modules() if len(path.read_text().splitlines()) > MAX_LINES}
    assert long == set()


def test_no_package_is_crowded() -> None:
    """At most 20 modules beside `__init__`, so that a folder can be seen at a glance; more become a room by meaning."""
    held = Counter(named(path.parent) for path in modules() if path.name != "__init__.py")
    assert len(held) > 50 and {name: count for name, count in held.items() if count > MAX_MODULES} == {}


@cache
def imported(path: Path) -> set[str]:
    """The modules that a file imports, with what is imported from them: either may be a module."""
    found: set[str] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def reached(path: Path) -> set[str]:
    """What a test imports, itself or through helpers of the tests and benchmarks."""
    found: set[str] = set()
    open_files = [path]
    while open_files:
        new = imported(open_files.pop()) - found
        found |= new
        helpers = (ROOT / f"{name.replace('.', '/')}.py" for name in new if name.startswith(("tests.", "benchmarks.")))
        open_files += [helper for helper in helpers if helper.is_file()]
    return found


def runs_the_command(path: Path) -> bool:
    """Whether a test has `hab` run: it takes a desk, from which a user would."""
    functions = (node for node in ast.walk(tree(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return any(argument.arg in ("desk", "cluster_desk") for function in functions for argument in function.args.args)


def has_counterpart(path: Path) -> bool:
    """Whether a test stands where what it tests stands.

    tests/test_<x>.py has a module or package hab_ray/<x>, whose name may be followed by what it is about;
    tests/<package>/test_<x>.py uses something of hab_ray/<package>, or of the simulator's package beside it.
    """
    subject = path.stem.removeprefix("test_")
    folders = path.relative_to(TESTS).parts[:-1]
    if not folders:
        names = {module.stem for module in PACKAGE.iterdir()}
        return subject in OF_THE_WHOLE or any(subject == name or subject.startswith(f"{name}_") for name in names)
    package = SIMULATOR.name if folders == ("simulator",) else ".".join(("hab_ray", *folders))
    if package == "hab_ray.cli" and runs_the_command(path):
        return True
    return any(name == package or name.startswith(f"{package}.") for name in reached(path))


def test_tests_mirror_the_tree() -> None:
    tests = [path for path in files(TESTS) if path.name.startswith("test_")]
    agrees((named(path) for path in tests if not has_counterpart(path)), WITHOUT_COUNTERPART)


def test_a_lease_is_taken_in_one_place() -> None:
    """Whoever spends does so in a session, which hears signals, gives the lease back and knows whose the money is."""

    def takes_one(path: Path) -> bool:
        called = (node.func for node in ast.walk(tree(path)) if isinstance(node, ast.Call))
        return any("acquire_lease" in (getattr(name, "id", ""), getattr(name, "attr", "")) for name in called)

    assert [named(path) for path in files(PACKAGE) if takes_one(path)] == ["hab_ray/sweep/session.py"]


def private_reads(path: Path) -> Iterator[str]:
    """Names with one leading underscore that are taken from elsewhere: attributes, imports, what is patched."""
    for node in ast.walk(tree(path)):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                continue
            case ast.Attribute(attr=name) if is_private(name):
                yield name
            case ast.ImportFrom(names=names):
                yield from (alias.name for alias in names if is_private(alias.name))
            case ast.Call(func=ast.Attribute(attr="setattr" | "delattr"), args=[_, ast.Constant(value=str(name)), *_]):
                if is_private(name):
                    yield name


def is_private(name: str) -> bool:
    return re.match(r"_[a-z]", name) is not None and name not in {*DOCUMENTED_PRIVATES, "_exit"}


def test_tests_read_nothing_private() -> None:
    """`tests/forking.py` ends a forked process as the interpreter would, by what threading and atexit keep private."""
    readers = {named(path) for path in files(TESTS) if any(private_reads(path))} - {"tests/forking.py"}
    agrees(readers, PRIVATE_READERS)


def test_tests_take_what_they_share_from_helpers() -> None:
    """What several files need stands in conftest or in a helper beside them, in no file of tests."""

    def takes_from_tests(path: Path) -> bool:
        return any(name.split(".")[0] == "tests" and ".test_" in name for name in imported(path))

    assert [named(path) for path in files(TESTS) if takes_from_tests(path)] == []


def test_a_public_method_is_documented_where_its_protocol_or_base_declares_it() -> None:
    """Its overrides need no docstring, and none that only refers to it."""
    named_so: dict[str, list[str | None]] = {}
    for path in modules():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                for method in node.body:
                    if not isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) or method.name.startswith("_"):
                        continue
                    if "override" not in map(ast.unparse, method.decorator_list):
                        named_so.setdefault(method.name, []).append(ast.get_docstring(method))
    assert not {name for name, docstrings in named_so.items() if not any(docstrings)}
    assert not [said for docstrings in named_so.values() for said in docstrings if said and said.startswith("See ")]
