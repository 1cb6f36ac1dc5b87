"""What the tests and sentinels of a planned run can detect. Imports SciPy: a fifth of the time of `hab plan`."""

from collections.abc import Iterator
from math import sqrt

from hab_ray.analysis.power import ASSUMED_READING_SD, SHIFT, Design, distinct_groups, sentinels
from hab_ray.stages.wiring import sentinels_each
from hab_ray.visible import counted
from hab_ray.work import Work, given_tests


def detectable_effects(work: Work) -> Iterator[str]:
    """Yield the smallest differences between subjects that the tests can show, and the judge drift sentinels can."""
    subjects, select, given = len(work.sweep.subject_names), work.sweep.select, given_tests(work)
    sizes: dict[tuple[int, int], list[str]] = {}
    for dimension in work.rubrics:
        own = given.get(dimension)
        tests = len(own) if own is not None else select.tests if select else 0
        calls = _generation_calls(work, tests) if own is None else len({test.own_call for test in own})
        sizes.setdefault((tests, calls), []).append(dimension.replace("_", " "))
    all_tests = sum(tests * len(named) for (tests, _), named in sizes.items())
    if subjects > 1:
        for (tests, calls), named in sizes.items():
            if tests:
                yield _describe(Design(subjects, calls), ", ".join(named), tests)
        designs = [Design(subjects, calls) for (_, calls), named in sizes.items() for _ in named]
        if len(designs) > 1 and all(design.calls for design in designs):
            yield _describe(Design.together(designs), "overall", all_tests)
    each = sentinels_each(work)
    read = [(subjects * min(each, tests), calls) for (tests, calls), named in sizes.items() for _ in named]
    yield _detectable_drift(sum(number for number, _ in read), sum(min(number, calls) for number, calls in read))


def _generation_calls(work: Work, tests: int) -> int:
    """Return from how many generation calls so many of the candidates come, on average over random choices."""
    generate = work.sweep.generate
    return distinct_groups(generate.candidates, generate.per_call, tests) if generate else tests


def _describe(design: Design, what: str, tests: int) -> str:
    return design.describe(what) if design.calls == tests else design.describe(what, "generation calls", tests=tests)


def _detectable_drift(number: int, calls: int) -> str:
    """Describe the shift of a judge that so many sentinels show, of tests from at most so many generation calls."""
    assumption = f"(if two readings of an answer differ by an SD of {ASSUMED_READING_SD})"
    if not number:
        return f"judge drift is not checked: `sentinels: {sentinels()}` would show a shift of {SHIFT} {assumption}"
    design = Design(2, calls, ASSUMED_READING_SD * sqrt(calls / number))
    shown = f"show a shift of {design.smallest:.3f} {assumption}" if design.can_show_any else "cannot show it"
    return f"if a vendor silently changes a judge: {counted(number, 'sentinel')} {shown}"
