"""Distributions of others, by which vendors, stages, export formats and commands are added."""

import importlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hab_ray.resources import installed_extensions
from hab_ray.stages import wiring
from hab_simulator.accounts import installed_vendors


@dataclass(frozen=True)
class Distributions:
    """Distributions of others, installed in a folder of their own that is on the path of this process.

    `hab` in a process of its own finds them where `PYTHONPATH` names `site`.
    """

    site: Path

    def install(self, name: str, version: str, module: str, code: str, **vendors: str) -> None:
        """A distribution with one module, and entries of the table of vendors (`kind="module:attribute"`)."""
        self.install_modules(name, version, {module: code}, {"hab_ray.providers": vendors})

    def install_modules(
        self, name: str, version: str, modules: Mapping[str, str], groups: Mapping[str, Mapping[str, str]]
    ) -> None:
        """A distribution with these modules, and entry points by group."""
        for module, code in modules.items():
            (self.site / f"{module}.py").write_text(code)
        info = self.site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        lines = (
            line
            for group, found in groups.items()
            for line in (f"[{group}]", *(f"{k} = {v}" for k, v in found.items()))
        )
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
        forget_installed()

    def uninstall_all(self) -> None:
        for info in self.site.glob("*.dist-info"):
            shutil.rmtree(info)
        forget_installed()


def forget_installed() -> None:
    """Let the next look-up read the entry points anew."""
    importlib.invalidate_caches()
    installed_extensions.cache_clear()
    installed_vendors.cache_clear()
    wiring.stages.cache_clear()
    wiring.packages.cache_clear()
