"""The sweeps that ship with the package, each with its size and the first sentence of its file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from hab_ray.config.sweep import Sweep, load_sweep
from hab_ray.errors import ConfigError
from hab_ray.inputs.yaml_text import parse_yaml
from hab_ray.resources import bundled
from hab_ray.rubric import load_rubrics

_SENTENCE = re.compile(r".+?[.?](?=\s|$)")


@dataclass(frozen=True)
class ShippedSweep:
    """A sweep file of the package. `name` is its path below jobs/ without the ending, `sentence` what it is for."""

    name: str
    path: Path
    sentence: str
    sweep: Sweep | None

    @property
    def size(self) -> str:
        """Subjects x tests x dimensions, and judges; what it needs, where it cannot be read yet."""
        if self.sweep is None:
            return "needs files"
        found = self.sweep
        dimensions = len(load_rubrics(found.rubrics)) if found.dimensions == "all" else len(found.dimensions)
        judges = f"{len(found.judges)} judge{'s' * (len(found.judges) > 1)}"
        return f"{len(found.subject_names)} x {_tests(found)} x {dimensions}, {judges}"

    @property
    def is_priced_quickly(self) -> bool:
        """Whether its price follows from the sweep alone: no file of tests or answers has to be read."""
        return self.sweep is not None and self.sweep.responses is None and self.sweep.tests in (None, "seeds")

    @property
    def is_free(self) -> bool:
        """Whether every model runs on this machine."""
        if self.sweep is None:
            return False
        catalog = self.sweep.catalog
        return all(catalog.providers[catalog.find(name).provider].serve for name in self.sweep.model_names())


def shipped_sweeps() -> list[ShippedSweep]:
    """Every sweep of the package, those of experiments last."""
    folder = Path(str(bundled("jobs")))
    files = sorted(folder.glob("*.yaml")) + sorted(folder.glob("experiments/*.yaml"))
    return [_shipped(path, folder) for path in files if _is_sweep(path)]


def shipped_sweep(name: str) -> ShippedSweep:
    """The sweep of this name.

    Raises:
        ConfigError: none of those that ship is called so.
    """
    found = {each.name: each for each in shipped_sweeps()}
    wanted = name.removeprefix("jobs/").removesuffix(".yaml")
    if wanted not in found:
        raise ConfigError(f"no sweep that ships is called {name!r}; there are {', '.join(found)}")
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
