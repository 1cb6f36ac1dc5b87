"""The API version to use for a Gemini endpoint: the configured one, or else the one it accepted, kept in the store."""

import json
import os
from collections.abc import Mapping
from dataclasses import replace

from hab_ray.catalog.models import Catalog, ProviderEntry, Purpose, folder_name
from hab_ray.errors import ConfigError
from hab_ray.providers import load_vendor
from hab_ray.providers.access import endpoint_of, has_secrets
from hab_ray.providers.base import Endpoint
from hab_ray.providers.google import DEFAULT_VERSION, PROTOCOL, VERSION_ENV, VERSIONS, stated_version
from hab_ray.storage.folder import Folder
from hab_ray.work import Work

WITHIN_S = 10.0


def unsure(work: Work) -> dict[str, str]:
    """Return the Gemini providers of a sweep without a configured version, with the wire name of a model to ask for."""
    found: dict[str, str] = {}
    for entry in (model.entry for model in work.models.values()):
        provider = work.catalog.providers[entry.provider]
        is_asked = entry.purpose is Purpose.CHAT and entry.api_version is None and provider.url
        if is_asked and is_unsure(provider):
            found.setdefault(entry.provider, entry.wire)
    return found


def is_gemini(entry: ProviderEntry) -> bool:
    """Return whether an endpoint uses Gemini's protocol."""
    try:
        return load_vendor(entry.kind).protocol is PROTOCOL
    except ConfigError:
        return False


def is_unsure(entry: ProviderEntry) -> bool:
    """Return whether an endpoint uses Gemini's protocol and neither its entry nor the environment sets a version."""
    return is_gemini(entry) and stated_version(entry.api_version) is None


def stated(entry: ProviderEntry) -> str | None:
    """Return the configured version of an endpoint and where it was set; None if there is none."""
    version = stated_version(entry.api_version)
    return version and f"{version}, from {'`api_version`' if entry.api_version else VERSION_ENV}"


def remembered(folder: Folder, provider: str, entry: ProviderEntry) -> str | None:
    """Return the version kept in the store for an endpoint; None if none can be read for its current URL."""
    try:
        kept = json.loads(folder.get(_file(provider)))
        version = str(kept["version"]) if kept["url"] == entry.url else None
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return version if version in VERSIONS else None


def as_remembered(folder: Folder, provider: str, entry: ProviderEntry) -> ProviderEntry:
    """Return a provider's entry with the version kept in the store, unless one is configured."""
    version = remembered(folder, provider, entry) if is_unsure(entry) else None
    return entry.model_copy(update={"api_version": version}) if version else entry


async def with_api_versions(work: Work, folder: Folder) -> Work:
    """Return the work with the version that each Gemini endpoint accepts. Requires the lease.

    Endpoints without a version in the store are asked, if their keys are set. If that fails, the default is used and
    the endpoint is asked again next time.
    """
    from hab_ray.providers.google.version_question import taken_version

    versions: dict[str, str] = {}
    for provider, wire in unsure(work).items():
        entry = work.catalog.providers[provider]
        version = remembered(folder, provider, entry)
        if version is None and has_secrets(entry, os.environ):
            version = await taken_version(endpoint(provider, entry), wire)
            if version is not None:
                folder.put(_file(provider), json.dumps({"url": entry.url, "version": version}).encode())
        versions[provider] = version or DEFAULT_VERSION
    return under(work, versions)


def endpoint(provider: str, entry: ProviderEntry) -> Endpoint:
    """Return the endpoint to ask, with a timeout of `WITHIN_S` at most."""
    found = endpoint_of(provider, entry, entry.url or "")
    return replace(found, timeout_s=min(found.timeout_s, WITHIN_S))


def under(work: Work, versions: Mapping[str, str]) -> Work:
    """Return the work with these versions of providers; the default version needs no entry."""
    changed = {
        name: work.catalog.providers[name].model_copy(update={"api_version": version})
        for name, version in versions.items()
        if version != DEFAULT_VERSION
    }
    if not changed:
        return work
    return replace(work, catalog=Catalog(providers={**work.catalog.providers, **changed}, models=work.catalog.models))


def _file(provider: str) -> str:
    return f"versions/{folder_name(provider)}.json"
