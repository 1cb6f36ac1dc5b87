"""Lists the keys in which two versions of a sweep differ, for the message that refuses to mix them in a run."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel

from hab_ray.visible import one_line

_MAX_SHOWN = 80


def differences(key: str, before: object, now: object) -> Iterator[str]:
    """Yield a line for each value below `key` that differs, such as `select.tests: 50 before, 60 now`.

    `mode` is ignored: how calls are sent changes no reply.
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
        given = ", ".join(f"{name}: {part}" for name, part in value.model_dump(exclude_unset=True).items())
        return one_line(f"{{{given}}}", _MAX_SHOWN)
    return one_line(str(value), _MAX_SHOWN)
