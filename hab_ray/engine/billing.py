"""Compares what vendors bill with our own prices, and counts answers longer than their requests allow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from hab_ray.calls import Answer
from hab_ray.catalog.prices import NANO, Price


@dataclass
class Billing:
    """Counts and sums of one process's answers, by model. Sums are nano-dollars.

    `stated` counts answers that came with the vendor's price; `vendors` adds up these prices, `ours` our own for the
    same answers. `beyond` counts answers with more tokens than their requests allow.
    """

    stated: Counter[str] = field(default_factory=Counter)
    vendors: Counter[str] = field(default_factory=Counter)
    ours: Counter[str] = field(default_factory=Counter)
    beyond: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: Billing) -> Billing:
        return Billing(
            stated=self.stated + other.stated,
            vendors=self.vendors + other.vendors,
            ours=self.ours + other.ours,
            beyond=self.beyond + other.beyond,
        )

    def cost(self, model: str, answer: Answer, price: Price, bound: int) -> int:
        """The cost of an answer in nano-dollars: as stated by the vendor, else by its usage, else its `bound`."""
        ours = price.cost(answer.usage) if answer.bill_known else bound
        if answer.stated_nanousd is None:
            return ours
        self.stated[model] += 1
        self.vendors[model] += answer.stated_nanousd
        self.ours[model] += ours
        return answer.stated_nanousd


def billing_notes(billings: Iterable[Billing]) -> Iterator[str]:
    """One note for each model that is billed differently from our prices, over all online and batch engines."""
    total = sum(billings, Billing())
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
