"""The table of vendors: what a provider's `kind` may be, and which module speaks that vendor's protocol.

`BUILT_IN` has one entry per vendor of this package. Another distribution adds a vendor with an entry point of the
group `hab_ray.providers`. An entry names a `hab_ray.providers.vendor.Vendor`; the table itself imports none of them,
because a vendor's SDK takes about a second to import and reading a sweep file needs the names alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points

from hab_ray.errors import ConfigError

GROUP = "hab_ray.providers"
BUILT_IN: Mapping[str, str] = {
    "openai": "hab_ray.providers.openai:VENDOR",
    "anthropic": "hab_ray.providers.anthropic:VENDOR",
    "google": "hab_ray.providers.google:VENDOR",
    "xai": "hab_ray.providers.xai:VENDOR",
}


def find(kind: str) -> EntryPoint:
    """The entry of a kind, not yet loaded. A built-in vendor cannot be replaced by another distribution.

    Raises:
        ConfigError: there is no such kind, or several distributions have one.
    """
    if kind in BUILT_IN:
        return EntryPoint(kind, BUILT_IN[kind], GROUP)
    found = list(entry_points(group=GROUP, name=kind))
    if len(found) == 1:
        return found[0]
    if not found:
        raise ConfigError(
            f"there is no kind {kind!r}; there are {', '.join(kinds())}. Choose the one whose API the endpoint speaks "
            "(most speak openai's), or install the package that adds this kind"
        )
    raise ConfigError(
        f"the kind {kind!r} is in several packages ({', '.join(map(distribution, found))}); uninstall all but one"
    )


def kinds() -> list[str]:
    """All that `kind` may be: the built-in vendors, then those of other distributions."""
    added = {entry.name for entry in entry_points(group=GROUP)} - BUILT_IN.keys()
    return [*BUILT_IN, *sorted(added)]


def distribution(entry: EntryPoint) -> str:
    """The distribution that an entry comes from: its name and version."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "hab-ray"
