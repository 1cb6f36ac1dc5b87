"""Requests in imported wording: as they must be sent, by the rubric's pieces, and as the simulator knows them.

Nothing here is taken from what renders them for a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from textwrap import dedent

from hab_ray.calls import clean_text
from hab_ray.errors import ConfigError
from hab_ray.rubric.literal import Apply, Each, Insert, LiteralJudging, Operation, Piece
from hab_simulator import Place, PlantedForm


def request_in(literal: LiteralJudging, values: Mapping[str, str]) -> str:
    """The user's message that a judge must be sent, its values by name."""
    return clean_text("".join(_said(piece, values) for piece in literal.user))


def _said(piece: Piece, values: Mapping[str, str]) -> str:
    match piece:
        case str():
            return piece
        case Insert():
            return values[piece.value]
        case Each():
            return ""
    inside = "".join(_said(part, values) for part in piece.to)
    if piece.apply is Operation.DEDENT:
        return dedent(inside)
    strip = {Operation.STRIP: str.strip, Operation.LSTRIP: str.lstrip, Operation.RSTRIP: str.rstrip}[piece.apply]
    return strip(inside, piece.characters)


def form_of(dimension: str, literal: LiteralJudging) -> PlantedForm:
    """The same request as the simulator finds its values again.

    Raises:
        ConfigError: it shows no test, by which answers are told apart, or takes signs off them.
    """
    pieces = tuple(_flat(dimension, literal.user))
    if not any(piece == Place(value="prompt") for piece in pieces):
        raise ConfigError(
            f"rubrics: the imported wording of {dimension} shows its judge no test, by which a rehearsal tells answers "
            "apart; rehearse the sweep without it"
        )
    return PlantedForm(pieces=pieces, system=literal.system, key=literal.key)


def _flat(dimension: str, pieces: Sequence[Piece]) -> Iterator[str | Place]:
    for piece in pieces:
        match piece:
            case str():
                yield piece
            case Insert():
                yield Place.model_validate({"value": piece.value})
            case Apply():
                if piece.characters is not None:
                    raise ConfigError(
                        f"rubrics: the imported wording of {dimension} strips {piece.characters!r}, so that a "
                        "rehearsal cannot find the answer again; rehearse the sweep without it"
                    )
                yield from _flat(dimension, piece.to)
