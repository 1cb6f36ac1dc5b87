"""Lists the keys in which two versions of a sweep, a section or a rubric differ, with both values."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile

from pydantic import BaseModel

from hab_ray.config.sweep import Sweep
from hab_ray.location import Location
from hab_ray.visible import one_line

_MAX_SHOWN = 80
_LEAD = 15
_A_FILE = "a file"
_MAKE_TESTS = ("seed", "generate", "validate", "select", "deduplicate", "rubric ", "themes", "prompts")
_TEST_KEYS = ("seed", "generate", "validation", "select", "tests", "deduplicate")


@dataclass(frozen=True, slots=True)
class Change:
    """A key whose value differs, and both values as they are shown; of long texts, the part that differs first."""

    key: str
    before: str
    now: str

    def __str__(self) -> str:
        return f"{self.key}: {self.before} before, {self.now} now"


def changes_of_tests(before: Sweep, now: Sweep) -> Iterator[Change]:
    """Yield the changes of all keys by which tests are made. Files of tests are taken for equal; their hashes tell."""
    for key in _TEST_KEYS:
        name = Sweep.model_fields[key].alias or key
        yield from changes(name, _without_path(getattr(before, key)), _without_path(getattr(now, key)))


def changes(key: str, before: object, now: object) -> Iterator[Change]:
    """Yield a change for each value below `key` that differs, such as `select.tests: 50 before, 60 now`.

    `mode` is ignored: how calls are sent changes no reply. Items of lists are named by their `letter` or number.
    """
    if isinstance(before, BaseModel) and type(before) is type(now):
        for name, field in type(before).model_fields.items():
            if name != "mode":
                yield from changes(f"{key}.{field.alias or name}", getattr(before, name), getattr(now, name))
    elif isinstance(before, Mapping) and isinstance(now, Mapping):
        for name in {**before, **now}:
            yield from changes(f"{key}.{name}".lstrip("."), before.get(name), now.get(name))
    elif isinstance(before, tuple) and isinstance(now, tuple) and len(before) == len(now):
        for number, (one, other) in enumerate(zip(before, now, strict=True), 1):
            item = one.get("letter", number) if isinstance(one, Mapping) else number
            yield from changes(f"{key}.{item}", one, other)
    elif before != now:
        yield Change(key, *_shown(before, now))


def remedies(changes: Iterable[str], sweep: Sweep) -> str:
    """Return what to do about changes that a run refuses, and what another run would pay for.

    If the sweep does not give the tests, and the changes suggest that other ones are made, that includes how to keep
    the present ones.
    """
    remedy = (
        "put them back, or give the sweep another `run:`. With the same `store:`, calls of the same text, settings, "
        "model and provider name are not paid for again; all others are new, and `hab plan` shows how many"
    )
    if sweep.gives_tests or not any(change.startswith(_MAKE_TESTS) for change in changes):
        return remedy
    return (
        f"{remedy}. If tests are made otherwise now (a rubric's title, `system:` and `judging:` make none), that run "
        f"gets others, whose answers and verdicts are new. To keep the present tests: `hab export {sweep.run_folder} "
        "--format json --out kept`, and name kept/tests.jsonl as `tests:`"
    )


def _without_path(value: object) -> object:
    return _A_FILE if isinstance(value, Location) else value


def _shown(before: object, now: object) -> Iterator[str]:
    texts = [_text(before), _text(now)]
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*texts, strict=False)))
    start = max(0, same - _LEAD) if max(map(len, texts)) > _MAX_SHOWN else 0
    return (one_line(f"{'...' if start else ''}{text[start:]}", _MAX_SHOWN) for text in texts)


def _text(value: object) -> str:
    if value is None or value == "":
        return "none"
    if isinstance(value, BaseModel):
        given = ", ".join(f"{name}: {part}" for name, part in value.model_dump(exclude_unset=True).items())
        return f"{{{given}}}"
    return str(value)
