"""The API versions of Gemini, and which one is stated."""

from __future__ import annotations

import os

VERSION_ENV = "GOOGLE_GENAI_API_VERSION"
DEFAULT_VERSION = "v1beta"
VERSIONS = (DEFAULT_VERSION, "v1")


def stated_version(api_version: str | None) -> str | None:
    """The version that the provider's entry or the environment states; None where nobody does."""
    return api_version or os.environ.get(VERSION_ENV) or None
