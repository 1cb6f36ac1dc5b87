"""A vendor's own list of the models that it serves today, read page by page. The lists cost nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from hab_ray.providers.base import malformed
from hab_ray.providers.http import StatusError

_MAX_PAGES = 100


@dataclass(frozen=True)
class ModelPage:
    """One page: the names on it, and what names the next one to the vendor; None after the last."""

    names: tuple[str, ...]
    after: str | None

    @classmethod
    def of(cls, names: Iterable[object], after: object) -> ModelPage:
        """A page as it came.

        Raises:
            TypeError: a name is no text.
        """
        found = tuple(names)
        if not all(isinstance(name, str) for name in found):
            raise TypeError("the name of a model is no text")
        return cls(tuple(map(str, found)), str(after) if after else None)


async def all_names(page_after: Callable[[str | None], Awaitable[ModelPage]]) -> frozenset[str]:
    """The names on all pages.

    Raises:
        CallError: the vendor refuses, cannot be reached, or answers with something else.
    """
    names: set[str] = set()
    after: str | None = None
    try:
        for _ in range(_MAX_PAGES):
            page = await page_after(after)
            names.update(page.names)
            after = page.after
            if after is None:
                return frozenset(names)
    except StatusError as refused:
        raise refused.error from None
    raise malformed(f"its list of models has more than {_MAX_PAGES} pages")
