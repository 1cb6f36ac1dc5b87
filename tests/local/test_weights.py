import hashlib
import os
from pathlib import Path

import pytest

from hab_ray.local import LocalError, default_cache, embedding_weights, known_weights, locate, sha256_of
from tests.loading import modules_after


def test_importing_the_package_loads_no_engine() -> None:
    assert not {"xllamacpp", "wordllama", "gguf", "numpy"} & modules_after("import hab_ray.local")


def test_every_known_weight_has_its_own_file() -> None:
    files = [weights.file for weights in known_weights().values()]
    assert len(set(files)) == len(files) > 0


def test_cache_folder_is_named_by_the_environment() -> None:
    assert default_cache({"HAB_CACHE": "/somewhere"}) == Path("/somewhere/weights")
    assert default_cache({}).parts[-2:] == ("hab_ray", "weights")
    assert default_cache({"HAB_CACHE": "~/cache"}) == Path.home() / "cache/weights"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nope", "unknown weights. Name one of smollm2-135m-instruct"),
        ("hf:owner/file.gguf", "write hf:<owner>/<repo>/<file>.gguf"),
        ("hf:owner/repo/../../outside.gguf", "write hf:"),
        ("hf:../../outside.gguf", "write hf:"),
    ],
)
def test_bad_names_are_explained(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(LocalError, match=message):
        locate(name, tmp_path)


def test_only_wordllama_embeds() -> None:
    assert embedding_weights("wordllama").is_file()
    with pytest.raises(LocalError, match="only local embedding model is wordllama"):
        embedding_weights("nope")


def test_a_hash_follows_the_file_and_is_remembered_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    for content, note in ((b"one", None), (b"three", None), (b"three", "{")):
        path.write_bytes(content)
        if note:
            (tmp_path / "a.gguf.sha256.json").write_text(note)
        assert sha256_of(path) == hashlib.sha256(content).hexdigest()
    stat = path.stat()
    path.write_bytes(b"other")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert sha256_of(path) == hashlib.sha256(b"three").hexdigest(), "same size and time: the note is believed"
