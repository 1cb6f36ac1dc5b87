from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from gguf import GGUFWriter

from hab_ray.local import LocalServer, default_cache, pull

CHAT = "smollm2-135m-instruct"


@pytest.fixture(scope="session")
def weights() -> Path:
    return pull(CHAT, cache=default_cache())


@pytest.fixture(scope="session")
def server(weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    folder = tmp_path_factory.mktemp("local-server")
    with LocalServer.start({CHAT: weights}, ["wordllama"], log=folder / "log", slots=2) as running:
        yield running


@contextmanager
def written(path: Path) -> Iterator[GGUFWriter]:
    """A file of weights, with what is added to it in the block."""
    writer = GGUFWriter(path, arch="llama")
    yield writer
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
