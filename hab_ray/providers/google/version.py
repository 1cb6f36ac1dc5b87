"""The API versions of Gemini."""

from __future__ import annotations

import os

VERSION_ENV = "GOOGLE_GENAI_API_VERSION"
DEFAULT_VERSION = "v1beta"
VERSIONS = (DEFAULT_VERSION, "v1")


def stated_version(api_version: str | None) -> str | None:
    """Return the version that the provider's entry or the environment states, or None."""
    return api_version or os.environ.get(VERSION_ENV) or None
