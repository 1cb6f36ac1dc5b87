"""What a run says of bills that are not as expected."""

from __future__ import annotations

import re

from hab_ray.visible import usd
from tests.conftest import Desk, Vendors
from tests.sweep.crashing import TESTS, sweep_file


def test_the_vendors_own_price_is_booked_and_the_difference_is_told(desk: Desk, vendor: Vendors) -> None:
    model = {"serves": ["chat"], "thinking": "always", "price": {"input": 5, "output": 30}}
    sim = vendor(accounts={"xai": {"models": {"*": model}}})
    said = re.sub(r"\s+", " ", desk.says("run", sweep_file(desk.folder, "xai", sim.url, "dear"), "--yes"))
    paid = sim.meter()["batch"]["nanousd"]
    assert f"{usd(paid)} paid" in said and paid > 0
    stated = re.search(r"note: grok-4\.3: the vendor states \$(\S+) for (\d+) calls, our prices give \$(\S+);", said)
    assert stated, said
    assert round(float(stated[1]), 6) == round(paid / 1e9, 6) and int(stated[2]) == 2 * TESTS
    assert 2 * float(stated[3]) < float(stated[1])
