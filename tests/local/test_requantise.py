import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from gguf import GGMLQuantizationType as Coding
from gguf import GGUFReader, LlamaFileType
from gguf.quants import dequantize, quantize

from hab_ray.local import LocalError
from hab_ray.local.fetch import requantise
from tests.local.conftest import written

WORDS = ["one", "zwei", "três"]


@pytest.fixture
def values() -> npt.NDArray[np.float32]:
    return np.random.default_rng(7).normal(size=(4, 64)).astype(np.float32)


@pytest.fixture
def original(tmp_path: Path, values: npt.NDArray[np.float32]) -> Path:
    """Weights in Q4_1 but for a norm in F32 and an embedding in Q8_0 already, as SmolLM2's are."""
    path = tmp_path / "original.gguf"
    with written(path) as writer:
        writer.add_file_type(LlamaFileType.MOSTLY_Q4_1)
        writer.add_block_count(30)
        writer.add_token_list(WORDS)
        writer.add_bool("tokenizer.ggml.add_bos_token", False)
        writer.add_float32("llama.rope.freq_base", 100000.0)
        for name, coding in (("layer", Coding.Q4_1), ("embedding", Coding.Q8_0)):
            writer.add_tensor(name, quantize(values, coding), raw_dtype=coding)
        writer.add_tensor("norm", values[0])
    return path


@pytest.fixture
def made(original: Path, tmp_path: Path) -> Path:
    requantise(original, tmp_path / "made.gguf")
    return tmp_path / "made.gguf"


def _decoded(path: Path) -> dict[str, tuple[Coding, npt.NDArray[np.float32]]]:
    return {t.name: (t.tensor_type, dequantize(t.data, t.tensor_type)) for t in GGUFReader(path).tensors}


def test_coded_tensors_become_q8_0_and_keep_their_values(original: Path, made: Path) -> None:
    (_, before), (coding, after) = _decoded(original)["layer"], _decoded(made)["layer"]
    assert coding is Coding.Q8_0
    half_a_step = np.abs(before).max() / 127 / 2
    assert 0 < np.abs(after - before).max() <= 1.01 * half_a_step


@pytest.mark.parametrize("name", ["embedding", "norm"])
def test_other_tensors_stay_bit_for_bit(name: str, original: Path, made: Path) -> None:
    before, after = ({t.name: t for t in GGUFReader(path).tensors}[name] for path in (original, made))
    assert after.tensor_type is before.tensor_type
    assert after.data.tobytes() == before.data.tobytes()


def test_metadata_stay_but_for_the_name_of_the_coding(original: Path, made: Path) -> None:
    before, after = (
        {name: field.contents() for name, field in GGUFReader(path).fields.items()} for path in (original, made)
    )
    assert after.pop("general.file_type") == LlamaFileType.MOSTLY_Q8_0 != before.pop("general.file_type")
    assert after == before
    assert after["tokenizer.ggml.tokens"] == WORDS


def test_the_same_original_gives_the_same_bytes(original: Path, made: Path, tmp_path: Path) -> None:
    requantise(original, tmp_path / "again.gguf")
    assert (tmp_path / "again.gguf").read_bytes() == made.read_bytes()


def test_a_missing_package_is_named(original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(LocalError, match=r"made\.gguf: made from original\.gguf .* pip install 'gguf>=0\.19"):
        requantise(original, tmp_path / "made.gguf")
    assert not (tmp_path / "made.gguf").exists()
