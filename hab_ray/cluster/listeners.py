"""Tells spenders in actors how old the lease's last renewal is; see `storage.watches`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ray
from ray.exceptions import RayError

from hab_ray.cluster.session import finished
from hab_ray.storage.lease.watches import RenewalAge


class Listener:
    """One actor with a method `hear`, as of RemoteWatch. `age_s` gives the age of the last renewal in seconds."""

    def __init__(self, actor: Any, age_s: Callable[[], float]) -> None:
        self._actor, self._age_s = actor, age_s
        self._answer = actor.hear.remote(None)

    def tell(self) -> None:
        """Send what is new, unless the last message is unanswered. An actor that died is somebody else's concern."""
        if not finished([self._answer]):
            return
        try:
            stamp: float = ray.get(self._answer)
        except RayError:  # it may be started again, and then it has a clock of its own
            self._answer = self._actor.hear.remote(None)
            return
        self._answer = self._actor.hear.remote(RenewalAge(self._age_s(), stamp))
