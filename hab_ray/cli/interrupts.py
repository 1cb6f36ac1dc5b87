"""Ctrl-C and SIGTERM for the command `hab`, from its first import to its last line."""

from __future__ import annotations

from hab_ray.stopping import Stop

stop = Stop()
