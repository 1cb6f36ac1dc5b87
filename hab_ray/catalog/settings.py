"""Requested settings that have no effect on a model."""

from dataclasses import dataclass

from hab_ray.calls import Params
from hab_ray.catalog.models import ModelEntry, Sampling, Thinking, accepted


@dataclass(frozen=True)
class Unheeded:
    """A requested setting without effect: its name and value, whether it is sent anyway, and why it has no effect."""

    field: str
    value: str
    sent: bool
    why: str

    def __str__(self) -> str:
        return f"{self.field} {self.value}"


def unheeded(entry: ModelEntry, wanted: Params) -> tuple[Unheeded, ...]:
    """Return the requested settings that are not sent to this model, or that it ignores."""
    why = dict.fromkeys(("temperature", "top_p"), _SAMPLING_WHY[entry.sampling]) | {"effort": _effort_why(entry)}
    pairs = zip(Params.__dataclass_fields__, wanted.canonical(), accepted(entry, wanted).canonical(), strict=True)
    ignored = ("temperature", "top_p") if entry.sampling is Sampling.IGNORED else ()
    return tuple(
        Unheeded(field, asked, sent is not None, why[field])
        for field, asked, sent in pairs
        if asked is not None and (sent is None or field in ignored)
    )


_SAMPLING_WHY = {
    Sampling.BOTH: "",
    Sampling.TEMPERATURE: "the vendor takes a temperature or top_p, not both",
    Sampling.FIXED: "the vendor does not let users set it",
    Sampling.IGNORED: "the vendor ignores it",
}


def _effort_why(entry: ModelEntry) -> str:
    if entry.efforts is None:
        return "the catalogue says `thinking: none`"
    return "this run sends the model none" if entry.thinking is Thinking.NONE else "the vendor refuses every level"
