"""The models of the catalogue that `hab init` suggests: usable today, without a date on which they end."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from hab_ray.catalog.models import ModelEntry, Purpose, load_catalog
from hab_ray.catalog.prices import priced

MAX_EXAMPLES = 4
_JUDGES = ("gpt-6.1-terra", "claude-sonnet-5-5", "gemini-3.8-flash")


@dataclass(frozen=True)
class Examples:
    """Suggests models `today`, those of providers in `with_key`, whose API key is set, before others."""

    with_key: frozenset[str]
    today: date

    def models(self, vendor: str | None) -> tuple[str, ...]:
        """Return the cheapest models of a vendor; without one, the cheapest model of each of several vendors."""
        if vendor is not None:
            return self._cheapest(vendor)[:MAX_EXAMPLES]
        vendors = sorted(load_catalog().vendors, key=lambda name: name not in self.with_key)
        return tuple(name for each in vendors for name in self._cheapest(each)[:1])[:MAX_EXAMPLES]

    def judge(self, vendor: str | None) -> str:
        """Return a judge: one of the vendor's models, else one of a provider whose key is set."""
        models = load_catalog().models
        if vendor is not None:
            own = [name for name in _JUDGES if models[name].provider == vendor]
            return (own or self.models(vendor)[-1:] or list(_JUDGES))[0]
        return min(_JUDGES, key=lambda name: models[name].provider not in self.with_key)

    def _cheapest(self, vendor: str) -> tuple[str, ...]:
        catalog = load_catalog()
        entries = {name: catalog.find(name) for name, model in catalog.models.items() if model.provider == vendor}
        prices = {name: self._price(entry) for name, entry in entries.items()}
        return tuple(sorted((name for name in prices if prices[name]), key=lambda name: prices[name] or 0))

    def _price(self, entry: ModelEntry) -> float | None:
        """Return the dollars per million tokens of output, or None for a model that is not suggested."""
        now = priced(entry, self.today)
        if now.purpose is not Purpose.CHAT or now.lifecycle is not None or now.price is None:
            return None
        return now.price.output
