"""Requantises a model into an encoding that llama.cpp reads faster on a CPU.

llama.cpp has fast kernels for blocks of prompt tokens in some encodings (Q8_0, Q4_0) but not in others (Q4_1), and not
every model is published in a fast one. Q8_0 is precise enough for Q4_1: its rounding error is a sixteenth of the
original's. The result depends only on the original, so its hash can be pinned.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hab_ray.local.errors import LocalError

if TYPE_CHECKING:
    from gguf import GGUFReader, GGUFWriter

MAKER = "gguf>=0.19,<0.20"


def requantise(original: Path, target: Path) -> None:
    """Write `original` to `target` with its quantised tensors as Q8_0; F32 tensors and metadata stay.

    Raises:
        LocalError: the package gguf is missing.
    """
    try:
        from gguf import GGUFReader, GGUFWriter
    except ImportError as error:
        raise LocalError(
            f"{target.name}: made from {original.name} with the package gguf, which is not installed: "
            f"pip install '{MAKER}' ({error})"
        ) from error
    reader = GGUFReader(original)
    architecture = reader.fields["general.architecture"].contents()
    writer = GGUFWriter(target, arch=architecture)
    _copy_metadata(reader, writer)
    _copy_tensors(reader, writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _copy_metadata(reader: GGUFReader, writer: GGUFWriter) -> None:
    from gguf import GGUFValueType, LlamaFileType

    writer.add_file_type(LlamaFileType.MOSTLY_Q8_0)
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        element = field.types[-1] if kind is GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), kind, sub_type=element)


def _copy_tensors(reader: GGUFReader, writer: GGUFWriter) -> None:
    from gguf import GGMLQuantizationType
    from gguf.quants import dequantize, quantize

    kept = (GGMLQuantizationType.F32, GGMLQuantizationType.Q8_0)
    for tensor in reader.tensors:
        if tensor.tensor_type in kept:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
        else:
            values = dequantize(tensor.data, tensor.tensor_type)
            quantised = quantize(values, GGMLQuantizationType.Q8_0)
            writer.add_tensor(tensor.name, quantised, raw_dtype=GGMLQuantizationType.Q8_0)
