"""How a vendor is played, and where each lives in the URL space.

A folder of this package, or another distribution by an entry point of the group `hab_simulator.vendors`, plays a
vendor by a `SimulatedVendor`. For an API that is OpenAI's with differences see `hab_simulator.openai.compatible`.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache

from aiohttp import web

from hab_simulator.accounts import entry, vendors
from hab_simulator.batch.service import BatchService
from hab_simulator.vendor import Route, Vendor

Handler = Callable[[BatchService, Route, web.BaseRequest], Awaitable[web.StreamResponse]]


def _is_of_openais_batches(path: str) -> bool:
    return path.split("/")[0] in ("files", "batches")


@dataclass(frozen=True)
class SimulatedVendor:
    """How a vendor is played: single calls by `online`, and by `batches` what `is_about_batches` says of a path.

    `versions` are those of the API: the first word of a path but for one of `ways`, which stays in it. `is_keyless`
    says of a path and its query whether the request needs no key.
    """

    online: Vendor
    batches: Handler | None = None
    is_about_batches: Callable[[str], bool] = _is_of_openais_batches
    versions: tuple[str, ...] = ("v1",)
    ways: tuple[str, ...] = ()
    is_keyless: Callable[[str, Mapping[str, str]], bool] = lambda path, query: False

    def below_version(self, parts: list[str]) -> list[str] | None:
        """The path below the API version; None where the path names no version."""
        match parts:
            case [version, *rest] if version in self.versions:
                return rest
            case [way, version, *rest] if way in self.ways and version in self.versions:
                return [way, *rest]
            case _:
                return None


@cache
def played(kind: str) -> SimulatedVendor:
    """How accounts of a kind are played.

    Raises:
        ValueError: nobody plays it.
        TypeError: another distribution names something else.
    """
    found = entry(kind).load()
    if not isinstance(found, SimulatedVendor):
        raise TypeError(f"{entry(kind).value} is a {type(found).__name__} and not a SimulatedVendor")
    return found


def route(path: str, kind_of: Callable[[str], str]) -> tuple[Route, SimulatedVendor] | None:
    """Where a URL path leads: /openai/v1, /v1, /anthropic/v1, /google/{v1,v1beta}, /xai/v1, /x/<name>/v1.

    An account under /x/<name> has the paths of its kind. Gemini's uploads (/google/upload/{v1,v1beta}) and downloads
    (/google/download/...) keep that word in the path.
    """
    match path.strip("/").split("/"):
        case ["v1", *_] as versioned:
            account = "openai"
        case ["x", name, *versioned]:
            account = f"x/{name}"
        case [account, *versioned] if account in vendors():
            pass
        case _:
            return None
    vendor = played(kind_of(account))
    below = vendor.below_version(versioned)
    return None if below is None else (Route(account, vendor.online, "/".join(below)), vendor)
