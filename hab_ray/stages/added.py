"""What a run owes to other packages: its added stages and the kinds of its providers, among the versions it records."""

from collections.abc import Collection, Iterable, Iterator, Mapping

from hab_ray.catalog.vendors import RECORDED, VENDORS
from hab_ray.errors import ConfigError
from hab_ray.resources import distribution
from hab_ray.stages import wiring
from hab_ray.stages.graph import Shard
from hab_ray.stages.spec import ResolvedSweep

_STAGE = "stage "
NO_STAGES = {"stages of other packages": "none"}


def with_added(versions: Mapping[str, str], resolved: ResolvedSweep) -> dict[str, str]:
    """Add to a run's recorded `versions` the packages of the added stages and kinds that its sweep uses now."""
    used = {resolved.sweep.catalog.providers[model.entry.provider].kind for model in resolved.models.values()}
    before = {name: package for name, package in versions.items() if name.startswith((_STAGE, RECORDED))}
    stages = {f"{_STAGE}{name}": package for name, package in wiring.packages().items() if _parts(name, resolved)}
    kinds = {f"{RECORDED}{entry.name}": distribution(entry) for entry in VENDORS.added() if entry.name in used}
    found = before | stages | kinds
    return found if any(name.startswith(_STAGE) for name in found) else found | NO_STAGES


def missing_stages(versions: Mapping[str, str]) -> list[str]:
    """Return the recorded stages that no installed package adds, each with its package."""
    recorded, here = _recorded(versions), wiring.packages()
    return [f"{name} of the package {package}" for name, package in recorded.items() if name not in here]


def stage_changes(versions: Mapping[str, str], resolved: ResolvedSweep, dimensions: Collection[str]) -> Iterator[str]:
    """Yield the stages that a run with these `versions` and `dimensions` has lost, and those that have entered it.

    Runs of versions that recorded no stages are taken as they are.
    """
    for stage in missing_stages(versions):
        yield f"stages: {stage} is missing; install that package"
    recorded = _recorded(versions)
    if not recorded and not versions.items() >= NO_STAGES.items():
        return
    before = {_distribution(package): package for package in recorded.values()}
    for name, package in wiring.packages().items():
        if name not in recorded and not _parts(name, resolved).isdisjoint(dimensions):
            known = before.get(_distribution(package))
            remedy = f"install {known} instead" if known else "uninstall that package"
            yield f"stages: {name} of the package {package} is new; {remedy}"


def changed_packages(versions: Mapping[str, str], resolved: ResolvedSweep) -> Iterator[str]:
    """Yield what comes from another package or version than these `versions` recorded."""
    for name, package in with_added({}, resolved).items():
        before = versions.get(name, package)
        if name not in NO_STAGES and before != package:
            yield f"{name}: this run's earlier rows were made by {before}, and {package} is installed"


def check_files(shards: Iterable[Shard], of_a_run: Collection[str]) -> None:
    """Refuse views of added stages that would replace one another, or be among the files and folders `of_a_run`.

    Raises:
        ConfigError: two parts have one file, or a file is not a Parquet file in the run folder apart from its own.
    """
    packages, users = wiring.packages(), dict[str, Shard]()
    for shard in (one for one in shards if one.stage in packages and one.spec.has_view):
        other, folders = users.setdefault(shard.file, shard), shard.file.split("/")
        if other is not shard:
            raise _wrong_file(shard, f"is the file of {_named(other)} and of {_named(shard)}")
        if folders[0] in of_a_run or {"", ".", ".."} & set(folders) or not shard.file.endswith(".parquet"):
            raise _wrong_file(shard, "is not a `.parquet` file in the run folder, apart from the run's own files")


def _wrong_file(shard: Shard, problem: str) -> ConfigError:
    package = wiring.packages()[shard.stage]
    return ConfigError(
        f"package {package} adds the stage {shard.stage!r}, whose view {shard.file!r} {problem}. Each part of a stage "
        "needs a file of its own: repair or uninstall that package"
    )


def _named(shard: Shard) -> str:
    names = (shard.name, shard.subject, shard.dimension)
    return f"{shard.stage} ({', '.join(name for name in names if name)})"


def _distribution(package: str) -> str:
    return package.rpartition(" ")[0]


def _recorded(versions: Mapping[str, str]) -> dict[str, str]:
    return {name.removeprefix(_STAGE): of for name, of in versions.items() if name.startswith(_STAGE)}


def _parts(stage: str, resolved: ResolvedSweep) -> set[str]:
    """Return the dimensions in which a stage has parts."""
    return {part.dimension for part in wiring.stages()[stage].parts(resolved)}
