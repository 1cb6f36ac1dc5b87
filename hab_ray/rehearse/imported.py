"""Expected requests in imported wording, and their forms for the simulator.

They are rendered here independently of the code under test.
"""

from collections.abc import Iterator, Mapping, Sequence
from textwrap import dedent

from hab_ray.calls import clean_text
from hab_ray.errors import ConfigError
from hab_ray.rubric.literal import Apply, Each, Insert, LiteralJudging, Piece
from hab_simulator import Place, PlantedForm


def request_in(literal: LiteralJudging, values: Mapping[str, str]) -> str:
    """Return the expected user message to a judge, with `values` by name."""
    return clean_text("".join(_rendered(piece, values) for piece in literal.user))


def _rendered(piece: Piece, values: Mapping[str, str]) -> str:
    match piece:
        case str():
            return piece
        case Insert():
            return values[piece.value]
        case Each():
            return ""
    return dedent("".join(_rendered(part, values) for part in piece.to))


def form_of(dimension: str, literal: LiteralJudging) -> PlantedForm:
    """Return the form of a request by which the simulator extracts its values.

    Raises:
        ConfigError: the request does not show the test, so answers cannot be identified.
    """
    pieces = tuple(_flat(literal.user))
    if not any(piece == Place(value="prompt") for piece in pieces):
        raise ConfigError(
            f"rubrics: the imported wording of {dimension} shows its judge no test, so a rehearsal cannot tell answers "
            "apart; rehearse the sweep without it"
        )
    return PlantedForm(pieces=pieces, system=literal.system, key=literal.key)


def _flat(pieces: Sequence[Piece]) -> Iterator[str | Place]:
    for piece in pieces:
        match piece:
            case str():
                yield piece
            case Insert():
                yield Place.model_validate({"value": piece.value})
            case Apply():
                yield from _flat(piece.to)
