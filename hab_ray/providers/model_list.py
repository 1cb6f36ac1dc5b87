"""A vendor's own list of the models that it serves today, read page by page. The lists cost nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from hab_ray.providers.base import malformed, reading
from hab_ray.providers.http import StatusError

_MAX_PAGES = 100

PageAfter = Callable[[str | None], Awaitable[tuple[Iterable[object], object]]]
"""The names on the page after another one, and what names that page to the vendor; nothing after the last."""


async def all_names(page_after: PageAfter, close: Callable[[], Awaitable[None]]) -> frozenset[str]:
    """The names on all pages, after which the connection is closed.

    Raises:
        CallError: the vendor refuses, cannot be reached, or answers with something else.
    """
    names: set[str] = set()
    after: str | None = None
    try:
        for _ in range(_MAX_PAGES):
            with reading():
                found, following = await page_after(after)
                names.update(map(_text, found))
            if not following:
                return frozenset(names)
            after = str(following)
    except StatusError as refused:
        raise refused.error from None
    finally:
        await close()
    raise malformed(f"its list of models has more than {_MAX_PAGES} pages")


def _text(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError("the name of a model is no text")
    return name
