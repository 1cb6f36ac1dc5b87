"""Compares vendors' bills with our own prices, and counts answers longer than their requests allow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import add

from hab_ray.calls import Answer
from hab_ray.catalog.prices import NANO, Price


@dataclass
class Billing:
    """Counts and sums of one process's answers, by model. Sums are nano-dollars.

    `stated` counts answers that came with the vendor's price; `vendors` is the sum of these prices, `ours` that of our
    own prices for the same answers. `beyond` counts answers with more tokens than their requests allow.
    """

    stated: Counter[str] = field(default_factory=Counter)
    vendors: Counter[str] = field(default_factory=Counter)
    ours: Counter[str] = field(default_factory=Counter)
    beyond: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: Billing) -> Billing:
        return Billing(*map(add, vars(self).values(), vars(other).values()))

    def cost(self, model: str, answer: Answer, price: Price, bound: int) -> int:
        """Return the cost of an answer in nano-dollars: stated by the vendor, else by usage, else its `bound`."""
        ours = price.cost(answer.usage) if answer.bill_known else bound
        if answer.stated_nanousd is None:
            return ours
        self.stated[model] += 1
        self.vendors[model] += answer.stated_nanousd
        self.ours[model] += ours
        return answer.stated_nanousd


def billing_notes(billings: Iterable[Billing]) -> Iterator[str]:
    """Yield one note for each model billed differently from our prices, and one for each with too long answers."""
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
