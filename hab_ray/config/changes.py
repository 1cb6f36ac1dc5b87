"""What two versions of a sweep say differently: each key with its value before and now, for the refusal to mix them."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel

from hab_ray.visible import one_line

_MAX_SHOWN = 80


def differences(key: str, before: object, now: object) -> Iterator[str]:
    """A line for each value below `key` that differs, such as `select.tests: 50 before, 60 now`.

    How calls are sent (`mode`) changes nothing that is compared.
    """
    if isinstance(before, BaseModel) and type(before) is type(now):
        for name, field in type(before).model_fields.items():
            if name != "mode":
                yield from differences(f"{key}.{field.alias or name}", getattr(before, name), getattr(now, name))
    elif before != now:
        yield f"{key}: {_shown(before)} before, {_shown(now)} now"


def _shown(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, BaseModel):
        said = ", ".join(f"{name}: {part}" for name, part in value.model_dump(exclude_unset=True).items())
        return one_line(f"{{{said}}}", _MAX_SHOWN)
    return one_line(str(value), _MAX_SHOWN)
