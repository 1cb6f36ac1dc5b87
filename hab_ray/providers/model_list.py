"""Reads a vendor's list of the models that it serves today, page by page. The lists are free."""

from collections.abc import Awaitable, Callable, Iterable

from hab_ray.providers.base import malformed, reading
from hab_ray.providers.http import StatusError

_MAX_PAGES = 100

PageAfter = Callable[[str | None], Awaitable[tuple[Iterable[object], object]]]
"""Fetches the page after a cursor (None = the first); returns its names and its own cursor, falsy on the last page."""


async def all_names(page_after: PageAfter, close: Callable[[], Awaitable[None]]) -> frozenset[str]:
    """Return the names on all pages, and close the connection.

    Raises:
        CallError: the vendor refuses, cannot be reached, or sends something else.
    """
    names: set[str] = set()
    cursor: str | None = None
    try:
        for _ in range(_MAX_PAGES):
            with reading():
                page, following = await page_after(cursor)
                names.update(map(_text, page))
            if not following:
                return frozenset(names)
            cursor = str(following)
    except StatusError as refused:
        raise refused.error from None
    finally:
        await close()
    raise malformed(f"its list of models has more than {_MAX_PAGES} pages")


def _text(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError("the name of a model is not text")
    return name
