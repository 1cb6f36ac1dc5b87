"""Makes the plan of a resolved sweep: lines, times, budgets."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace

from hab_ray.catalog.models import Limits, ModelEntry, Purpose
from hab_ray.catalog.prices import NANO
from hab_ray.config.sections import SpendingLimit
from hab_ray.config.sweep import spending_limit
from hab_ray.engine.books import all_batches, balance_of
from hab_ray.engine.ledger import Batch, Ledger, Phase, body_hashes
from hab_ray.planning.counting import Counting
from hab_ray.planning.figures import Figures, Plan, PlanLine, StageTime, added_up
from hab_ray.planning.rounds import BatchedCalls, StageCosts, budget_outlook, likely_rounds
from hab_ray.stages import wiring
from hab_ray.storage.folder import open_folder
from hab_ray.storage.registry import Registry
from hab_ray.storage.replies.store import Store
from hab_ray.storage.spending import online_spending
from hab_ray.work import Shard, Work, wants_batch

FIRST_TOKEN_S = 1.0
TOKENS_A_SECOND = 60.0

Latencies = Mapping[tuple[str, str], float]


def make_plan(work: Work, latencies: Latencies | None = None, failures_since: int = 0) -> Plan:
    """Plan what a run of this sweep still has to do. Writes nothing and calls no vendor.

    `latencies` are measured seconds per call, by stage and model. Permanent failures of epochs before `failures_since`
    count as open calls. Raise ConfigError if a model has no price, or given tests do not fit.
    """
    store = Store(open_folder(work.sweep.store), failures_since)
    counting = Counting(work, store)
    counted = sorted(counting.lines(), key=lambda line: list(wiring.stages()).index(line.stage))
    lines = tuple(_routed(work, counted))
    times = tuple(_times(work, lines, latencies or {}))
    batched = tuple(line for line in lines if line.by_batch)
    online = tuple(line for line in lines if not line.by_batch)
    online_seconds = sum(time.seconds for time in _times(work, online, latencies or {}))
    unhindered = sum(line.figures.most_batch for line in batched) + _online_budget(work, online)
    stages, limit = tuple(_stage_costs(work, batched, online)), spending_limit(work.sweep)
    registry = Registry(work.sweep.store)
    epochs = registry.epochs(work.run_id, work.run_path)
    batches = list(all_batches(store.folder))
    online_spent = online_spending(store.folder, epochs, registry.released_up_to(work.run_id))
    opening = balance_of(online_spent, [batch for batch in batches if batch.epoch in epochs], work.models)
    inexact = {line.model for line in lines if not line.exact}
    of_others, unasked_calls, unasked = _in_batches(work, store, epochs, batches, counting, inexact)
    outlook = budget_outlook(
        stages,
        likely_rounds(stages, (limit or SpendingLimit(usd=0)).risk),
        max((line.largest for line in lines), default=0),
        unhindered,
        opening.spent + opening.out_of_reach + unasked,
        None if limit is None else round(limit.usd * NANO),
    )
    as_sent = sum(line.figures.batch for line in batched) + sum(line.figures.online for line in online)
    budgets = _online_budget(work, lines), _batch_budget(work, lines)
    return Plan(
        lines,
        times,
        *budgets,
        as_sent,
        online_seconds,
        outlook,
        at_vendors=opening.committed - unasked,
        of_others=of_others,
        unasked_calls=unasked_calls,
        unasked=unasked,
    )


def _routed(work: Work, lines: Sequence[PlanLine]) -> Iterator[PlanLine]:
    """Set for each line whether the sweep's modes send it by batch."""
    together: Counter[tuple[str, str]] = Counter()
    for line in lines:
        together[line.stage, line.model] += line.figures.to_pay
    for line in lines:
        shard = Shard(line.stage, line.name, line.dimension)
        yield replace(line, by_batch=wants_batch(work, shard, together[line.stage, line.model]))


def _stage_costs(work: Work, batched: Sequence[PlanLine], online: Sequence[PlanLine]) -> Iterator[StageCosts]:
    by_model = added_up(((line.stage, line.model), line.figures) for line in batched)
    asked = added_up((line.stage, line.figures) for line in online)
    for stage in wiring.stages():
        calls = tuple(_batched(work, sums, name) for (mine, name), sums in by_model.items() if mine == stage)
        yield StageCosts(stage, calls, asked.get(stage, Figures()).online)


def _batched(work: Work, sums: Figures, name: str) -> BatchedCalls:
    limits = work.models[name].entry.limits
    at_once = None
    if limits and limits.enqueued_tokens and sums.input:
        at_once = max(1, limits.enqueued_tokens * sums.to_pay // sums.input)
    return BatchedCalls(sums.to_pay, sums.batch, sums.most_batch, at_once)


def _in_batches(
    work: Work, store: Store, epochs: Set[int], batches: Iterable[Batch], counting: Counting, inexact: Set[str]
) -> tuple[int, int, int]:
    """Count calls in the open ones of these batches of the sweep's models.

    Return how many that the sweep asks for are in batches of other runs, and how many that it does not ask for are in
    the run's own, with the nano-dollars reserved for these. Batches of vectors by models in `inexact` are left out:
    candidates are kept once all have a score, so that the plan does not know yet which ones are.
    """
    of_others = unasked = nanousd = 0
    for batch in batches:
        intent = batch.intent
        is_counted = intent.model in work.models and not (intent.embeds and intent.model in inexact)
        if is_counted and batch.phase is not Phase.DONE:
            keys = body_hashes(Ledger(store.folder, batch.provider).rows(batch)).keys()
            others = len(keys - counting.asked(intent.model))
            if batch.epoch in epochs:
                unasked += others
                nanousd += intent.nanousd * others // intent.rows
            else:
                of_others += len(keys) - others
    return of_others, unasked, nanousd


def _times(work: Work, lines: Sequence[PlanLine], latencies: Latencies) -> Iterator[StageTime]:
    for stage in wiring.stages():
        by_model = added_up((line.model, line.figures) for line in lines if line.stage == stage)
        taken = {
            name: _seconds(work.models[name].entry, sums, latencies.get((stage, name)))
            for name, sums in by_model.items()
        }
        if taken:
            slowest = max(taken, key=lambda name: taken[name][0])
            seconds, by_tokens = taken[slowest]
            limits = work.models[slowest].entry.limits
            decides = limits.tokens_per_minute if limits and 0 < by_tokens == seconds else None
            yield StageTime(stage, slowest, seconds, latencies.get((stage, slowest)), decides)


def _seconds(entry: ModelEntry, sums: Figures, latency: float | None) -> tuple[float, float]:
    """Return the seconds that a model's open calls take by its tightest limit, and by tokens per minute alone.

    The latter is 0 without such a limit. A call counts its input plus its output limit, as in the engine: OpenAI counts
    so when a request arrives, whatever the answer.
    """
    if not sums.to_pay:
        return 0.0, 0.0
    limits = entry.limits or Limits()
    requests = sums.to_pay / (entry.list_size if entry.purpose is Purpose.EMBEDDING else 1)
    assumed = FIRST_TOKEN_S + sums.output / sums.to_pay / TOKENS_A_SECOND
    a_call = assumed if latency is None else latency
    by_tokens = by_requests = 0.0
    if limits.tokens_per_minute:
        by_tokens = 60.0 * (sums.input + sums.most_output) / limits.tokens_per_minute
    if limits.requests_per_minute:
        by_requests = 60.0 * requests / limits.requests_per_minute
    return max(a_call, requests * a_call / limits.concurrent, by_tokens, by_requests), by_tokens


def _online_budget(work: Work, lines: Sequence[PlanLine]) -> int:
    """Return the estimate plus the reservations of as many calls per model as may be in flight."""
    total = 0
    for name, model in work.models.items():
        mine = [line for line in lines if line.model == name]
        sums = sum((line.figures for line in mine), Figures())
        in_flight = min(sums.to_pay, (model.entry.limits or Limits()).concurrent)
        dearest = max((line.dearest for line in mine), default=0)
        total += min(sums.online + in_flight * dearest, max(sums.online, sums.most_online))
    return total


def _batch_budget(work: Work, lines: Sequence[PlanLine]) -> int:
    """Return the budget by batch, where a batch reserves all its calls; other models reserve as online."""
    batched = [line for line in lines if work.models[line.model].entry.batch]
    others = [line for line in lines if not work.models[line.model].entry.batch]
    return sum(line.figures.most_batch for line in batched) + _online_budget(work, others)
