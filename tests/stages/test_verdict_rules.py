"""The readers of verdicts, validations and queries beside an independent scorer of the rules."""

from __future__ import annotations

from collections import Counter

from benchmarks.verdicts import differences, readers, reply

SAMPLE = 2500


def test_a_truncated_reply_is_unreadable_whatever_it_holds() -> None:
    for reader in readers():
        whole = f'{{"{reader.key}": []}}' if reader.key != "queries" else '{"queries": [{"prompt": "What?"}]}'
        assert reader.read(reply(whole, truncated=False)) is not None
        assert reader.read(reply(whole, truncated=True)) is None


def test_fuzzed_replies_are_read_as_an_independent_scorer_reads_them() -> None:
    told: Counter[str] = Counter()
    found = list(differences(SAMPLE, 0, told))
    assert not found, f"{len(found)} of {SAMPLE}, first: {found[0]}"
    assert all(told[f"{reader.key} readable"] > SAMPLE / 50 for reader in readers())
