"""The sweeps included in the package, each with its size and the first sentence of its file."""

import re
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from hab_ray.config.sweep import Sweep, load_sweep
from hab_ray.errors import ConfigError
from hab_ray.inputs.yaml_text import parse_yaml
from hab_ray.resources import bundled
from hab_ray.rubric import load_rubrics
from hab_ray.visible import counted

_SENTENCE = re.compile(r".+?[.?](?=\s|$)")


@dataclass(frozen=True)
class ShippedSweep:
    """A sweep file of the package. `name` is its path below jobs/ without .yaml, `sentence` its purpose.

    `sweep` is None if the file cannot be loaded yet, because it names files that the user must provide.
    """

    name: str
    path: Path
    sentence: str
    sweep: Sweep | None

    @property
    def size(self) -> str:
        """Subjects x tests x dimensions, and judges; `needs files` without a sweep."""
        sweep = self.sweep
        if sweep is None:
            return "needs files"
        dimensions = len(load_rubrics(sweep.rubrics)) if sweep.dimensions == "all" else len(sweep.dimensions)
        judges = counted(len(sweep.judges), "judge")
        return f"{len(sweep.subject_names)} x {_tests(sweep)} x {dimensions}, {judges}"

    @property
    def is_priced_quickly(self) -> bool:
        """Whether the sweep can be priced without reading a file of tests or answers."""
        return self.sweep is not None and self.sweep.responses is None and self.sweep.tests in (None, "seeds")

    @property
    def is_free(self) -> bool:
        """Whether every model runs on this machine."""
        if self.sweep is None:
            return False
        catalog = self.sweep.catalog
        return all(catalog.providers[catalog.find(name).provider].serve for name in self.sweep.model_names())


def shipped_sweeps() -> list[ShippedSweep]:
    """Load every sweep of the package, experiments last."""
    folder = Path(str(bundled("jobs")))
    files = sorted(folder.glob("*.yaml")) + sorted(folder.glob("experiments/*.yaml"))
    return [_shipped(path, folder) for path in files if _is_sweep(path)]


def shipped_sweep(name: str) -> ShippedSweep:
    """Load the package's sweep of this name; raise ConfigError if there is none."""
    found = {each.name: each for each in shipped_sweeps()}
    wanted = name.removeprefix("jobs/").removesuffix(".yaml")
    if wanted not in found:
        raise ConfigError(f"hab includes no sweep {name!r}; it includes {', '.join(found)}")
    return found[wanted]


def _is_sweep(path: Path) -> bool:
    keys = parse_yaml(path.read_text(encoding="utf-8"))
    return isinstance(keys, dict) and {"name", "judges"} <= keys.keys()


def _shipped(path: Path, folder: Path) -> ShippedSweep:
    name = path.relative_to(folder).with_suffix("").as_posix()
    lines = path.read_text(encoding="utf-8").splitlines()
    prose = takewhile(lambda line: line.startswith("# ") and not line.startswith("#  "), lines)
    head = " ".join(line.removeprefix("# ") for line in prose)
    found = _SENTENCE.match(head)
    try:
        sweep = load_sweep(path)
    except ConfigError:
        sweep = None
    return ShippedSweep(name, path, found[0] if found else head, sweep)


def _tests(sweep: Sweep) -> str:
    if sweep.tests == "seeds":
        return "seeds"
    return str(sweep.select.tests) if sweep.select and not sweep.gives_tests else "given"
