"""The doctor is quiet where vendors differ from the simulator harmlessly."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from hab_ray.doctor.comparison import ComparedProtocols, Recording
from hab_ray.doctor.examination import Examined
from hab_ray.doctor.recording import Exchange
from tests.doctor.conftest import Doctor
from tests.doctor.recorded import Recorded, exchanges

# What every vendor's front sends with an answer that the simulator's does not, and the other way round.
HEADERS = {"content-type": "application/json", "cf-ray": "9a1-FRA", "alt-svc": 'h3=":443"'}


def heard(doctor: Doctor, one: Recorded) -> ComparedProtocols:
    """What the doctor says of one exchange by itself, in the place of the one at the simulator."""
    (place, *_) = [each for each in doctor.reference.exchanges if is_like(each, one)]
    said = replace(place, status=one.status, headers={**HEADERS, **(one.headers or {})}, body=json.dumps(one.body))
    return doctor.compare(Recording([said], Examined()))


def is_like(exchange: Exchange, one: Recorded) -> bool:
    is_of_refusal = exchange.label.startswith("malformed")
    asked = re.search(f"^{one.verb}", f"{exchange.method} {exchange.path}")
    return exchange.provider == one.provider and is_of_refusal == one.is_refusal and asked is not None


@pytest.mark.parametrize("vendor_name", ["openai", "anthropic", "google", "xai"])
def test_of_thirty_recorded_exchanges_at_most_one_in_twenty_has_a_finding(doctor: Doctor, vendor_name: str) -> None:
    recorded = exchanges(vendor_name)
    found = [(one.verb, str(said)) for one in recorded for said in heard(doctor, one).serious]
    assert len(recorded) == 30
    assert len({verb for verb, _ in found}) <= 1 and len(found) <= len(recorded) // 20, found
    assert all("length" in said or "max_tokens" in said or "MAX_TOKENS" in said for _, said in found)
