"""What a view is derived by: the settings that decide which rows it has and which replies they accept."""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import sha256

from hab_ray.catalog.models import ModelEntry
from hab_ray.config.sweep import Sweep


def derivation_sha256(sweep: Sweep, models: Iterable[ModelEntry]) -> str:
    """Return the digest of the settings by which a view is derived from the replies of these models.

    Views of equal digest differ only in how many rows they have: a run's tests, and the store's replies, are only added
    to. So the number of rows tells whether such a view is complete.
    """
    settings = [sweep.accept_substitutes, sweep.samples, sweep.replicates, sweep.sentinels]
    own_names = sorted({(model.wire, *sorted(model.reports)) for model in models if model.reports is not None})
    return sha256(json.dumps([settings, own_names]).encode()).hexdigest()
