"""Who may import what, for every module of the tree: whatever is not named here is forbidden.

That arrows point down is the one contract of `.importlinter`, which also fails for a package without a floor.
"""

import ast
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import grimp
import pytest
from grimp import ImportGraph

from hab_ray.stages.wiring import METHOD

ROOT = Path(__file__).parent.parent
SIMULATOR, LOCAL = "hab_simulator", "hab_ray.local"
PACKAGES = ("hab_ray", SIMULATOR)
MAY_IMPORT: Mapping[str, set[str]] = {
    "ray": {"hab_ray.cluster"},
    "openai": {"hab_ray.providers.openai"},
    "anthropic": {"hab_ray.providers.anthropic"},
    "google": set(),
    "boto3": {"hab_ray.storage.s3"},
    "botocore": {"hab_ray.storage.s3"},
    "inspect_ai": {"hab_ray.exchange.formats.inspect"},
    "huggingface_hub": {"hab_ray.exchange.imports.hub"},
    "matplotlib": {"hab_ray.report.figures"},
    "xllamacpp": {LOCAL},
    SIMULATOR: {
        SIMULATOR,
        "hab_ray.cli.commands.running.rehearse",
        "hab_ray.cli.commands.preparing.simulate",
        "hab_ray.doctor.reference",
        "hab_ray.rehearse",
        "hab_ray.storage.simulated",
    },
}
APART = (SIMULATOR, LOCAL)
WITHOUT_THE_METHOD = ("hab_ray.engine", "hab_ray.providers")
OF_THE_METHOD = ("hab_ray.rubric", "hab_ray.stages", "hab_ray.rows")
PLANTED = "\n" + "\n".join(
    f"import {name}" for name in (*MAY_IMPORT, *OF_THE_METHOD, f"{SIMULATOR}.vendor", "hab_ray.errors")
)
STAGES = {spec.name for spec in METHOD}
CLASSES = {type(spec).__name__ for spec in METHOD} | {
    f"{type(spec).__name__.removesuffix('Spec')}Stage" for spec in METHOD
}
SHORTCUTS = (
    'shard.stage == "judge"',
    'spec.name in ("respond", "judge")',
    'stages()["judge"]',
    'wiring.stages().get("respond")',
    'stage != "select"',
    "StageName.JUDGE",
    'match shard.stage:\n    case "judge":\n        pass',
    'class Of(StrEnum):\n    LAST = "judge"',
    '{"judge": 1, "respond": 2}[shard.stage]',
    '{"judge": 1}.get(spec.name, 0)',
    'match shard:\n    case Shard(stage="judge"):\n        pass',
    'shard.stage.startswith("jud") and shard.stage.endswith("judge")',
    "isinstance(stage, JudgeStage)",
    "type(spec) is RespondSpec",
)


def is_below(module: str, packages: Iterable[str]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def graph() -> ImportGraph:
    return grimp.build_graph(*PACKAGES, cache_dir=None, include_external_packages=True)


def ours(found: ImportGraph) -> set[str]:
    return {module for module in found.modules if is_below(module, PACKAGES)}


def importers(found: ImportGraph, name: str) -> set[str]:
    return found.find_modules_that_directly_import(name) if name in found.modules else set()


def uninvited(found: ImportGraph, name: str) -> set[str]:
    """The modules that import what they may not."""
    return {module for module in importers(found, name) if not is_below(module, MAY_IMPORT[name])}


def of_ours(found: ImportGraph, part: str) -> set[str]:
    """The modules of what is apart that import anything of ours."""
    outside = {module for module in ours(found) if not is_below(module, [part])}
    inside = ours(found) - outside
    return {module for module in inside if found.find_modules_directly_imported_by(module) & outside}


def behind_the_face(found: ImportGraph) -> set[str]:
    """The modules that use the simulator otherwise than by its package."""
    modules = {module for module in ours(found) if module.startswith(f"{SIMULATOR}.")}
    return {user for module in modules for user in importers(found, module) if not is_below(user, [SIMULATOR])}


def that_know_the_method(found: ImportGraph, package: str) -> set[str]:
    """What of the method a package reaches, also through others."""
    return {name for name in OF_THE_METHOD if found.find_shortest_chains(package, name, as_packages=True)}


def test_nobody_imports_what_is_not_for_them() -> None:
    found = graph()
    assert {name: left for name in MAY_IMPORT if (left := uninvited(found, name))} == {}
    assert [of_ours(found, part) for part in APART] == [set(), set()] and behind_the_face(found) == set()
    assert [that_know_the_method(found, package) for package in WITHOUT_THE_METHOD] == [set(), set()]


def test_whoever_may_import_something_does() -> None:
    found = graph()
    for name, allowed in MAY_IMPORT.items():
        assert {
            place for place in allowed - {name} if not any(is_below(m, [place]) for m in importers(found, name))
        } == set()


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ImportGraph:
    """The graph of a copy of the tree in which every module imports all that most may not."""
    for package in PACKAGES:
        copy = tmp_path / package
        shutil.copytree(ROOT / package, copy, ignore=lambda folder, names: [n for n in names if n == "__pycache__"])
        for path in copy.rglob("*.py"):
            path.write_text(path.read_text("utf-8") + PLANTED, "utf-8")
        monkeypatch.delitem(sys.modules, package, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    return graph()


def test_a_planted_import_fails_in_every_module_where_it_must_not_be(planted: ImportGraph) -> None:
    every = ours(planted)
    assert len(every) > 400
    for name, allowed in MAY_IMPORT.items():
        assert uninvited(planted, name) == {m for m in every if not is_below(m, allowed)} - {name}
    for part in APART:
        assert of_ours(planted, part) == {m for m in every if is_below(m, [part])}
    assert behind_the_face(planted) == {m for m in every if not is_below(m, [SIMULATOR])}
    for package in WITHOUT_THE_METHOD:
        assert that_know_the_method(planted, package) == set(OF_THE_METHOD)


def shortcuts(tree: ast.AST) -> list[str]:
    """Where a stage is told by its name: compared, matched, looked up, or a member of an enumeration."""
    return [ast.unparse(node) for node in ast.walk(tree) if is_shortcut(node)]


def is_shortcut(node: ast.AST) -> bool:
    match node:
        case ast.Compare(left=left, comparators=[right]):
            return (tells_a_stage(left) and names_a_stage(right)) or (names_a_stage(left) and tells_a_stage(right))
        case ast.Match(subject=subject, cases=cases):
            return tells_a_stage(subject) and any(names_a_stage(case.pattern) for case in cases)
        case (
            ast.Subscript(value=table, slice=key)
            | ast.Call(func=ast.Attribute(value=table, attr="get"), args=[key, *_])
        ):
            is_by_name = isinstance(table, ast.Dict) and tells_a_stage(key) and names_a_stage(table)
            return is_by_name or (ast.unparse(table).endswith("stages()") and names_a_stage(key))
        case ast.Call(func=ast.Attribute(value=told, attr="startswith" | "endswith"), args=[text]):
            return tells_a_stage(told) and names_a_stage(text)
        case ast.MatchClass(kwd_attrs=names, kwd_patterns=patterns):
            return any(name == "stage" and names_a_stage(told) for name, told in zip(names, patterns, strict=True))
        case ast.ClassDef(bases=bases, body=body) if any("Enum" in ast.unparse(base) for base in bases):
            return any(isinstance(line, ast.Assign) and names_a_stage(line.value) for line in body)
        case ast.Attribute(attr=name) if name.lower() in STAGES and name.isupper():
            return True
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name in CLASSES
    return False


def tells_a_stage(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name in ("stage", "name")
    return False


def names_a_stage(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Constant) and part.value in STAGES for part in ast.walk(node))


def test_only_stages_know_stages_by_name() -> None:
    package = ROOT / "hab_ray"
    files = [path for path in package.rglob("*.py") if path.relative_to(package).parts[0] != "stages"]
    assert {path.name: told for path in files if (told := shortcuts(ast.parse(path.read_text("utf-8"))))} == {}


@pytest.mark.parametrize("line", SHORTCUTS)
def test_a_planted_shortcut_is_found(line: str) -> None:
    assert shortcuts(ast.parse(line)) != []
