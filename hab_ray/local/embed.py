"""Embeddings by wordllama: averaged static token vectors with 256 dimensions, under a millisecond per text.

wordllama looks for its tokenizer in `<package>/tokenizer` or `<cache>/tokenizers`, but its wheel ships it in
`<package>/tokenizers`. So the package's folder is passed as the cache: nothing is copied or downloaded.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hab_ray.local.errors import INSTALL, LocalError
from hab_ray.local.weights import embedding_weights

Vector = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Embedded:
    """Unit vectors in the order of the texts, and the total number of tokens."""

    vectors: list[Vector]
    tokens: int


class Embedder:
    """A loaded wordllama model."""

    def __init__(self, name: str) -> None:
        """Load the model called `name`; raise LocalError if there is no such model, or wordllama is not installed."""
        package = embedding_weights(name).parents[1]
        try:
            from wordllama import WordLlama
        except ImportError as error:
            raise LocalError(f"{name}: cannot be imported: {error}; {INSTALL}") from error
        self._model = WordLlama.load(cache_dir=package, disable_download=True)

    def embed(self, texts: Sequence[str], dimensions: int) -> Embedded:
        """Embed each text; `dimensions` is 64, 128 or 256 (the model was trained to be cut there).

        Texts are embedded one by one, so that a vector does not depend on the others of a request, and no memory is
        spent on padding to the longest text.
        """
        tokens = sum(len(self._model.tokenize(text)[0].ids) for text in texts)
        return Embedded([self._unit(text, dimensions) for text in texts], tokens)

    def _unit(self, text: str, dimensions: int) -> Vector:
        vector: Vector = self._model.embed(text)[0, :dimensions]
        return vector / max(np.linalg.norm(vector), np.finfo(np.float32).tiny)
