"""Sending the age of the lease's last renewal to spenders in actors; see `storage.lease.watches`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ray
from ray.exceptions import RayError

from hab_ray.cluster.session import finished
from hab_ray.storage.lease.watches import RenewalAge


class Listener:
    """An actor with the method `hear` of RemoteWatch. `age_s` returns the age of the last renewal in seconds."""

    def __init__(self, actor: Any, age_s: Callable[[], float]) -> None:
        self._actor, self._age_s = actor, age_s
        self._answer = actor.hear.remote(None)

    def tell(self) -> None:
        """Send the current age, unless the last message is unanswered. Errors of a dead actor are ignored."""
        if not finished([self._answer]):
            return
        try:
            stamp: float = ray.get(self._answer)
        except RayError:  # Ray may restart the actor, with another clock
            self._answer = self._actor.hear.remote(None)
            return
        self._answer = self._actor.hear.remote(RenewalAge(self._age_s(), stamp))
