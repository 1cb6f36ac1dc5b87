"""Checks the choice of tests, recomputed from the simulator's records: candidates, scores, kept ones, tests.

It implements the described method with float64 and scikit-learn, independently of the stages' code.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from threadpoolctl import threadpool_limits

from hab_ray.config.sections import Generate, Select, Validate
from hab_ray.rehearse.profile import marks_of
from hab_ray.rehearse.requests import shown_parts
from hab_ray.rows import Candidate, ChosenTest, State, Validation
from hab_ray.stages.method.select import MANY
from hab_ray.stages.views import candidates_file, tests_file
from hab_ray.work import Work
from hab_simulator import SimulatedModel, SimulatorClient, WrittenQueries, embed, fingerprint

_TOP = 1000
_NEAR = 1e-9
_Parts = frozenset[tuple[str, str]]


def wrong_choice(work: Work, client: SimulatorClient) -> list[str]:
    """Return all deviations from the planted choice of tests, for a sweep that generates its tests."""
    generate, select = work.sweep.generate, work.sweep.select
    if not work.makes_tests or generate is None or select is None:
        return []
    written = client.queries()
    checked = {frozenset(each.parts.items()): each.letters for each in client.checks()}
    problems = []
    for dimension in work.rubrics:
        choice = _Choice(work, dimension, generate, select, written, checked)
        problems += [f"{dimension}: {problem}" for problem in choice.wrong()]
    return problems


def order(count: int, *seed: str | int) -> list[int]:
    """Return the numbers below `count`, sorted by the sha256 of seed and number joined by slashes."""
    return sorted(range(count), key=lambda n: sha256("/".join(map(str, (*seed, n))).encode()).digest())


@dataclass(frozen=True)
class _Choice:
    """The choice of one dimension's tests; `checked` maps the texts shown to a validator to the letters it named."""

    work: Work
    dimension: str
    generate: Generate
    select: Select
    written: Sequence[WrittenQueries]
    checked: Mapping[_Parts, str]

    def wrong(self) -> Iterator[str]:
        """Yield all problems, including consequences of earlier ones."""
        rows = self.work.run.read(Candidate, candidates_file(self.dimension))
        candidates = {row.id: row for row in rows}
        yield from self._wrong_queries(candidates)
        good = self._without_repeats(rows)
        found = {row.id for row in rows if row.state is State.OK}
        if found != good:
            yield f"candidates {_few(found ^ good)} are wrongly kept or rejected as repeats"
        kept = [candidates[id_] for id_ in sorted(good)]
        if isinstance(self.work.sweep.validation, Validate):
            scores = {row.id: self._score(row) for row in kept}
            yield from self._wrong_scores(scores)
            kept = [candidates[id_] for id_ in _best(scores, self.work.sweep.validation, self.work.sweep.seed)]
        yield from self._wrong_tests(kept)

    def _wrong_queries(self, candidates: Mapping[str, Candidate]) -> Iterator[str]:
        work, per_call, rubric = self.work, self.generate.per_call, self.work.rubrics[self.dimension]
        template, by_seeds = work.prompts.generate.user, self._by_seeds()
        for slot in range(-(-self.generate.candidates // per_call)):
            theme = work.themes[order(len(work.themes), work.sweep.seed, self.dimension, "theme", slot)[0]]
            drawn = order(len(rubric.seeds), work.sweep.seed, self.dimension, "seeds", slot)[
                : self.generate.seeds_shown
            ]
            own = [c for c in (candidates.get(f"{self.dimension}-{slot:05d}-{n}") for n in range(per_call)) if c]
            if any(row.theme != theme for row in own):
                yield f"the candidates of slot {slot} do not have its theme {theme!r}"
            requests = by_seeds.get(frozenset(drawn), []) if "seed" in template else self.written
            if not requests:
                yield f"slot {slot} was not asked for with its own seed queries"
                continue
            requests = [each for each in requests if theme in each.asked] if "theme" in template else requests
            if not requests:
                yield f"slot {slot} was not asked for with its own theme, {theme!r}"
            elif not any(self._holds(each, own) for each in requests):
                yield f"the candidates of slot {slot} are not the queries that were written for it"

    def _by_seeds(self) -> Mapping[frozenset[int], Sequence[WrittenQueries]]:
        seeds = list(enumerate(self.work.rubrics[self.dimension].seeds))
        found: dict[frozenset[int], list[WrittenQueries]] = {}
        for request in self.written:
            shown = frozenset(at for at, seed in seeds if seed.prompt in request.asked)
            found.setdefault(shown, []).append(request)
        return found

    def _holds(self, request: WrittenQueries, own: Sequence[Candidate]) -> bool:
        queries = [
            (fingerprint(query.get("prompt") or " ".join(query.values())), fingerprint(query.get("context", "")))
            for query in request.queries
        ]
        rows = [
            (int(c.id.rpartition("-")[2]), (fingerprint(c.prompt), fingerprint(c.context))) for c in own if c.prompt
        ]
        return all(at < len(queries) and queries[at] == row for at, row in rows)

    def _without_repeats(self, rows: Sequence[Candidate]) -> set[str]:
        whole = [row for row in sorted(rows, key=lambda row: row.id) if row.prompt]
        if self.work.sweep.deduplicate == "off":
            return {row.id for row in whole}
        first: dict[str, str] = {}
        for row in whole:
            first.setdefault(" ".join(row.prompt.casefold().split()), row.id)
        return set(first.values())

    def _score(self, row: Candidate) -> int | None:
        """Compute a candidate's points from the letters named for its texts; None if they were not checked."""
        wanted = shown_parts(marks_of(self.work.prompts.validation.user), prompt=row.prompt, context=row.context)
        points = {each.letter: each.deduction for each in self.work.rubrics[self.dimension].criteria}
        letters = self.checked.get(frozenset(wanted.items()))
        return None if letters is None else max(0, _TOP - sum(points[letter] for letter in letters))

    def _wrong_scores(self, scores: Mapping[str, int | None]) -> Iterator[str]:
        rows = self.work.run.read(Validation, f"validations/{self.dimension}.parquet")
        found = {row.candidate_id: row.score for row in rows}
        for id_ in sorted(found.keys() | scores.keys()):
            if id_ in scores and scores[id_] is None:
                yield f"candidate {id_}: the validator was not shown message and context between the right marks"
            elif found.get(id_) != scores.get(id_):
                yield f"candidate {id_} has {found.get(id_)} points, planted {scores.get(id_)}"

    def _wrong_tests(self, kept: Sequence[Candidate]) -> Iterator[str]:
        tests = self.work.run.read(ChosenTest, tests_file(self.dimension))
        found = {(test.prompt, test.context) for test in tests}
        known = {(row.prompt, row.context): row.id for row in kept}
        if unknown := found - known.keys():
            yield f"{len(unknown)} of {len(found)} tests are not among the {len(known)} best candidates"
        if len(kept) < MANY:
            expected = {(row.prompt, row.context) for row in self._chosen(kept)}
            if found != expected:
                ids = {known[each] for each in (found ^ expected) & known.keys()}
                yield f"other tests were chosen than the nearest to the cluster centres: {_few(ids)}"

    def _chosen(self, kept: Sequence[Candidate]) -> list[Candidate]:
        """Return the candidate nearest to the centre of each cluster; of equally near ones, the first."""
        if not kept:
            return []
        vectors = np.stack([embed(self._text(row), SimulatedModel().vector, None) for row in kept]).astype(np.float64)
        first = {vector.tobytes(): row for vector, row in zip(vectors[::-1], kept[::-1], strict=True)}
        if len(first) <= self.select.tests:
            return list(first.values())
        from sklearn.cluster import KMeans
        from sklearn.decomposition import PCA

        seed, clusters = self.select.seed, self.select.tests
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            width = min(self.select.components, *vectors.shape)
            points = PCA(width, random_state=seed).fit_transform(vectors)
            fitted = KMeans(clusters, random_state=seed).fit(points)
        centres, chosen = fitted.cluster_centers_, []
        near = _NEAR * float(np.abs(centres).max())
        for cluster in set(fitted.labels_.tolist()):
            members = np.flatnonzero(fitted.labels_ == cluster)
            distances = np.sqrt(((points[members] - centres[cluster]) ** 2).sum(axis=1))
            chosen.append(kept[int(members[distances <= distances.min() + near][0])])
        return chosen

    def _text(self, row: Candidate) -> str:
        return row.prompt.replace("\n", " ") if self.select.newlines == "space" else row.prompt


def _best(scores: Mapping[str, int | None], settings: Validate, seed: int) -> list[str]:
    """Return the sorted ids of the best `keep` candidates at or above the floor; ties are broken by a hashed order."""
    ids = sorted(id_ for id_, score in scores.items() if score is not None)
    places = {ids[n]: place for place, n in enumerate(order(len(ids), seed, "ties"))}
    good = [id_ for id_ in ids if (scores[id_] or 0) >= settings.floor]
    return sorted(sorted(good, key=lambda id_: (-(scores[id_] or 0), places[id_]))[: settings.keep])


def _few(ids: set[str]) -> str:
    shown = sorted(ids)[:3]
    return ", ".join(shown) + (f" and {len(ids) - len(shown)} more" if len(ids) > len(shown) else "")
