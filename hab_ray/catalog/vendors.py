"""The table of vendors: what a provider's `kind` may be, and which module speaks that vendor's protocol.

Another distribution adds a vendor with an entry point of the group `hab_ray.providers`. An entry names a
`hab_ray.providers.vendor.Vendor`; the table itself imports none of them, because a vendor's SDK takes about a second to
import and reading a sweep file needs the names alone.
"""

from __future__ import annotations

from hab_ray.resources import Extensions

VENDORS = Extensions(
    group="hab_ray.providers",
    word="kind",
    built_in={
        "openai": "hab_ray.providers.openai:VENDOR",
        "anthropic": "hab_ray.providers.anthropic:VENDOR",
        "google": "hab_ray.providers.google:VENDOR",
        "xai": "hab_ray.providers.xai:VENDOR",
    },
    remedy="Choose the one whose API the endpoint speaks (most speak openai's), or install the package that adds this "
    "kind",
)
