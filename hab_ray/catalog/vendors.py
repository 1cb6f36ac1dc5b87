"""The table of vendors: the values of a provider's `kind`, and the `hab_ray.providers.vendor.Vendor` of each.

Other distributions add vendors with entry points of the group `hab_ray.providers`. The table imports no vendor until it
is used, because an SDK takes about a second to import and reading a sweep file needs the names only.
"""

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
RECORDED = "kind "  # before a kind, among the versions that a run records
