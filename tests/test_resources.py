"""Data folders are found in a checkout and in an installed package."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hab_ray.errors import ConfigError
from hab_ray.resources import bundled

PACKAGE = Path(__file__).parents[1] / "hab_ray"
PRINT_FOLDER = "from hab_ray.resources import bundled; print(bundled('rubrics'))"


def test_a_folder_of_the_checkout_is_found_beside_the_package() -> None:
    assert bundled("rubrics").joinpath("themes.yaml").is_file()


def test_a_folder_inside_an_installed_package_wins_over_one_beside_it(tmp_path: Path) -> None:
    installed = tmp_path / "hab_ray"
    (installed / "rubrics").mkdir(parents=True)
    (tmp_path / "rubrics").mkdir()
    for module in ("__init__.py", "errors.py", "resources.py", "visible.py"):
        shutil.copy(PACKAGE / module, installed / module)
    run = [sys.executable, "-c", PRINT_FOLDER]
    answer = subprocess.run(run, cwd=tmp_path, env={}, capture_output=True, text=True, check=True, timeout=60)
    assert Path(answer.stdout.strip()) == installed / "rubrics"


def test_a_missing_folder_is_named_with_the_remedy() -> None:
    with pytest.raises(ConfigError, match=r"nowhere: the folder is missing.*install hab-ray again"):
        bundled("nowhere")
