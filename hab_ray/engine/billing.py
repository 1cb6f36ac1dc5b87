"""What vendors bill, beside what we would: prices that they state, and counts beyond what was asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from hab_ray.calls import Answer
from hab_ray.prices import NANO, Price


@dataclass
class Billing:
    """The answers of one process, counted by model; sums are nano-dollars.

    `stated` counts those whose price the vendor stated, `vendors` adds up these prices and `ours` what our own would
    have been. `beyond` counts those with more tokens than their requests allow.
    """

    stated: Counter[str] = field(default_factory=Counter)
    vendors: Counter[str] = field(default_factory=Counter)
    ours: Counter[str] = field(default_factory=Counter)
    beyond: Counter[str] = field(default_factory=Counter)

    def cost(self, model: str, answer: Answer, price: Price, bound: int) -> int:
        """What an answer cost in nano-dollars: as the vendor states it, else by its usage, else at its `bound`."""
        ours = price.cost(answer.usage) if answer.bill_known else bound
        if answer.stated_nanousd is None:
            return ours
        self.stated[model] += 1
        self.vendors[model] += answer.stated_nanousd
        self.ours[model] += ours
        return answer.stated_nanousd


class HasBilling(Protocol):
    """What a lane or a batch engine tells."""

    @property
    def billing(self) -> Billing:
        """Its answers so far."""


def billing_notes(tallies: Iterable[HasBilling]) -> Iterator[str]:
    """One note for each model whose vendor bills other than we expect, over all lanes and batches."""
    total = Billing()
    for billing in (tally.billing for tally in tallies):
        total.stated.update(billing.stated)
        total.vendors.update(billing.vendors)
        total.ours.update(billing.ours)
        total.beyond.update(billing.beyond)
    for model, calls in sorted(total.stated.items()):
        if abs(total.vendors[model] - total.ours[model]) > calls:  # each side rounds to the nano-dollar
            yield (
                f"{model}: the vendor states ${total.vendors[model] / NANO:.6g} for {calls} calls, our prices give "
                f"${total.ours[model] / NANO:.6g}; the vendor's figure is booked: correct the model's price"
            )
    for model, calls in sorted(total.beyond.items()):
        yield (
            f"{model}: {calls} answers report more tokens than their requests allow; they are booked as reported: "
            "check the vendor's bill, thinking_reserve and max_tokens"
        )
