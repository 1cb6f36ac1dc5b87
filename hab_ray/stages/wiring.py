"""The stages of a run, in the order of the method: their parts, views, sources and models, and how they are made.

A stage may read the rows of any earlier stage. Another distribution adds a stage by an entry point of the group
`hab_ray.stages` that names a `StageSpec`. It takes part in every sweep for which its `parts` yields any.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import product
from math import ceil
from typing import Any

from typing_extensions import override

from hab_ray.config.sections import Validate
from hab_ray.config.sweep import Sweep
from hab_ray.errors import ConfigError
from hab_ray.resources import Extensions, check_type, distribution, hold_to
from hab_ray.rows import Candidate, ChosenTest, Embedded, Rejudged, Response, Validation, Verdict, schema_of
from hab_ray.stages.base import CallStage, ComputeStage, Out, Read, ReadStage
from hab_ray.stages.method.embed import EmbedStage
from hab_ray.stages.method.generate import GenerateStage
from hab_ray.stages.method.judge import JudgeStage
from hab_ray.stages.method.respond import RespondStage
from hab_ray.stages.method.select import SelectStage
from hab_ray.stages.method.validate import ValidateStage
from hab_ray.stages.rejudge import RejudgeStage
from hab_ray.stages.spec import Asks, Grain, Part, ResolvedSweep, Source, StageSpec
from hab_ray.stages.views import (
    candidates_file,
    rejudged_file,
    responses_file,
    tests_file,
    validations_file,
    verdicts_file,
)


class _MakingTests(StageSpec):
    """One part per dimension, if the sweep generates its tests and has a section for the step."""

    @abstractmethod
    def section(self, sweep: Sweep) -> Asks | None:
        """Return the model and mode that the sweep's section names; None without a section."""

    @override
    def parts(self, resolved: ResolvedSweep) -> Iterator[Part]:
        section = self.section(resolved.sweep)
        if resolved.makes_tests and section:
            yield from (Part(section.model, dimension) for dimension in resolved.rubrics)

    @override
    def asks(self, resolved: ResolvedSweep, part: Part) -> Asks:
        section = self.section(resolved.sweep)
        assert section is not None
        return section


class GenerateSpec(_MakingTests):
    """Generates candidates."""

    name = "generate"
    row = Candidate

    @override
    def section(self, sweep: Sweep) -> Asks | None:
        return Asks(sweep.generate.model, sweep.generate.mode) if sweep.generate else None

    @override
    def file(self, part: Part) -> str:
        return candidates_file(part.dimension)

    @override
    def make(self, resolved: ResolvedSweep, part: Part) -> GenerateStage:
        sweep = resolved.sweep
        assert sweep.generate is not None
        return GenerateStage(
            rubric=resolved.rubrics[part.dimension],
            themes=resolved.themes,
            prompts=resolved.prompts,
            model=resolved.models[part.name],
            settings=sweep.generate,
            seed=sweep.seed,
            accept_substitutes=sweep.accept_substitutes,
            deduplicate=sweep.deduplicate,
        )


class ValidateSpec(_MakingTests):
    """Scores candidates, unless the sweep says `validate: off`."""

    name = "validate"
    row = Validation

    @override
    def section(self, sweep: Sweep) -> Asks | None:
        validate = sweep.validation
        return Asks(validate.model, validate.mode) if isinstance(validate, Validate) else None

    @override
    def file(self, part: Part) -> str:
        return validations_file(part.dimension)

    @override
    def sources(self, resolved: ResolvedSweep) -> tuple[Source, ...]:
        """Read candidates: row by row with `deduplicate: off`, else all, since a duplicate depends on earlier rows."""
        return (Source(Candidate, Grain.ROW if resolved.sweep.deduplicate == "off" else Grain.ALL),)

    @override
    def make(self, resolved: ResolvedSweep, part: Part) -> ValidateStage:
        sweep = resolved.sweep
        assert isinstance(sweep.validation, Validate)
        return ValidateStage(
            rubric=resolved.rubrics[part.dimension],
            prompts=resolved.prompts,
            model=resolved.models[part.name],
            settings=sweep.validation,
            accept_substitutes=sweep.accept_substitutes,
        )


class EmbedSpec(_MakingTests):
    """Embeds the kept candidates. Vectors stay in the store."""

    name = "select"  # as in the sweep file, whose key `select.embedding` names the model
    row = Embedded
    has_view = False

    @override
    def section(self, sweep: Sweep) -> Asks | None:
        return Asks(sweep.select.embedding, sweep.select.mode) if sweep.select else None

    @override
    def file(self, part: Part) -> str:
        """Return the path of the tests, which are made from the vectors."""
        return tests_file(part.dimension)

    @override
    def sources(self, resolved: ResolvedSweep) -> tuple[Source, ...]:
        candidates = Source(Candidate, Grain.ALL)
        if not isinstance(resolved.sweep.validation, Validate):
            return (candidates,)
        return (candidates, Source(Validation, Grain.ALL))

    @override
    def make(self, resolved: ResolvedSweep, part: Part) -> EmbedStage:
        sweep = resolved.sweep
        assert sweep.select is not None
        return EmbedStage(
            model=resolved.models[part.name],
            settings=sweep.select,
            validation=sweep.validation if isinstance(sweep.validation, Validate) else None,
            seed=sweep.seed,
            accept_substitutes=sweep.accept_substitutes,
        )


class SelectSpec(StageSpec):
    """One part per dimension, if the sweep generates its tests. Once chosen, the tests of a run never change."""

    name = "choose"
    row = ChosenTest
    makes_calls = False
    is_frozen = True

    @override
    def parts(self, resolved: ResolvedSweep) -> Iterator[Part]:
        if resolved.makes_tests:
            yield from (Part("", dimension) for dimension in resolved.rubrics)

    @override
    def file(self, part: Part) -> str:
        return tests_file(part.dimension)

    @override
    def sources(self, resolved: ResolvedSweep) -> tuple[Source, ...]:
        return (Source(Embedded, Grain.ALL), Source(Candidate, Grain.ALL))

    @override
    def make(self, resolved: ResolvedSweep, part: Part) -> SelectStage:
        assert resolved.sweep.select is not None
        return SelectStage(resolved.rubrics[part.dimension], resolved.sweep.select)


class RespondSpec(StageSpec):
    """One part per dimension and subject."""

    name = "respond"
    row = Response

    @override
    def parts(self, resolved: ResolvedSweep) -> Iterator[Part]:
        subjects = (*resolved.sweep.subjects, *resolved.sweep.varied_subjects)
        return (Part(subject.name, dimension) for dimension in resolved.rubrics for subject in subjects)

    @override
    def file(self, part: Part) -> str:
        return responses_file(part.name, part.dimension)

    @override
    def sources(self, resolved: ResolvedSweep) -> tuple[Source, ...]:
        return (Source(ChosenTest, Grain.ROW),)

    @override
    def asks(self, resolved: ResolvedSweep, part: Part) -> Asks:
        subject = resolved.subject(part.name)
        return Asks(subject.model, subject.mode)

    @override
    def make(self, resolved: ResolvedSweep, part: Part) -> RespondStage:
        sweep, subject = resolved.sweep, resolved.subject(part.name)
        return RespondStage(
            subject=subject,
            model=resolved.models[subject.model],
            rubric_sha256=resolved.rubrics[part.dimension].sha256,
            prompts_sha256=resolved.prompts.sha256,
            samples=sweep.samples,
            accept_substitutes=sweep.accept_substitutes,
            paraphrases=resolved.paraphrases_for(part.name, part.dimension),
        )


class JudgeSpec(StageSpec):
    """One part per dimension, subject and judge, but varied judges do not read varied subjects."""

    name = "judge"
    row = Verdict

    @override
    def parts(self, resolved: ResolvedSweep) -> Iterator[Part]:
        sweep = resolved.sweep
        for dimension in resolved.rubrics:
            varied = [judge for judge in sweep.varied_judges if dimension in resolved.wordings[judge.name]]
            for subject in sweep.subject_names:
                yield from (Part(judge.name, dimension, subject) for judge in (*sweep.judges, *varied))
            for other in sweep.varied_subjects:
                yield from (Part(judge.name, dimension, other.name) for judge in sweep.judges)

    @override
    def file(self, part: Part) -> str:
        return verdicts_file(part.name, part.subject, part.dimension)

    @override
    def sources(self, resolved: ResolvedSweep) -> tuple[Source, ...]:
        """Read the subject's responses, even if some calls stay unanswered, and the tests."""
        return (Source(Response, Grain.ROW, partial=True, own_subject=True), Source(ChosenTest, Grain.ALL))

    @override
    def asks(self, resolved: ResolvedSweep, part: Part) -> Asks:
        judge = resolved.judge(part.name)
        return Asks(judge.model, judge.mode)

    @override
    def make(self, resolved: ResolvedSweep, part: Part) -> JudgeStage:
        judge = resolved.judge(part.name)
        return JudgeStage(
            rubric=resolved.rubric_of(part.name, part.dimension),
            prompts=resolved.prompts,
            judge=judge,
            model=resolved.models[judge.model],
            replicates=resolved.sweep.replicates,
            accept_substitutes=resolved.sweep.accept_substitutes,
            paraphrases=resolved.paraphrases_for(part.subject, part.dimension),
        )


class RejudgeSpec(StageSpec):
    """One part per dimension, unvaried subject and unvaried judge, if the sweep has sentinels."""

    name = "rejudge"
    row = Rejudged
    is_probed = False  # a sentinel read again at once says nothing about the judge's drift

    @override
    def parts(self, resolved: ResolvedSweep) -> Iterator[Part]:
        sweep = resolved.sweep
        if sweep.sentinels:
            for dimension, subject, judge in product(resolved.rubrics, sweep.subject_names, sweep.judges):
                yield Part(judge.name, dimension, subject)

    @override
    def file(self, part: Part) -> str:
        return rejudged_file(part.name, part.subject, part.dimension)

    @override
    def sources(self, resolved: ResolvedSweep) -> tuple[Source, ...]:
        """Read all of the subject's responses and verdicts: sentinels are judged again after everything else."""
        own = (Source(row, Grain.ALL, partial=True, own_subject=True) for row in (Response, Verdict))
        return (*own, Source(ChosenTest, Grain.ALL))

    @override
    def asks(self, resolved: ResolvedSweep, part: Part) -> Asks:
        return JudgeSpec().asks(resolved, part)

    @override
    def make(self, resolved: ResolvedSweep, part: Part) -> RejudgeStage:
        names = resolved.sweep.subject_names
        return RejudgeStage(
            judging=replace(JudgeSpec().make(resolved, part), replicates=1),
            sentinels=sentinels_each(resolved),
            first=names.index(part.subject),
            stride=len(names),
            pauses=resolved.pauses,
        )


def sentinels_each(resolved: ResolvedSweep) -> int:
    """Return how many sentinels each judge reads of every subject in every dimension: an equal share, rounded up."""
    sweep = resolved.sweep
    return ceil(sweep.sentinels / (len(sweep.subject_names) * len(resolved.rubrics)))


METHOD = (GenerateSpec(), ValidateSpec(), EmbedSpec(), SelectSpec(), RespondSpec(), JudgeSpec(), RejudgeSpec())
_READ_FROM_METHOD = (ChosenTest, Response, Verdict, Rejudged)
ADDED = Extensions(group="hab_ray.stages", word="stage", built_in={}, remedy="Install the package that adds it")


@cache
def stages() -> Mapping[str, StageSpec]:
    """Return the stages by name, in order: the method's, and those of other distributions after the stage they name.

    An added stage may follow another one, whatever their entry points are called. Raise ConfigError if an added stage
    is broken, has a name that is taken, follows a stage that does not exist, or makes rows that results are read from,
    or rows of calls without state and reason.
    """
    specs: list[StageSpec] = list(METHOD)
    added = list(_added())
    while added:
        names = [earlier.name for earlier in specs]
        package, spec = following = next((one for one in added if one[1].behind in names), added[0])
        if spec.name in names or spec.behind not in names:
            raise ConfigError(
                f"package {package} adds the stage {spec.name!r} behind {spec.behind!r}; a stage needs an "
                f"unused name and must be behind one of {', '.join(names)}: repair or uninstall that package"
            )
        if spec.row in _READ_FROM_METHOD:
            raise ConfigError(
                f"package {package} adds the stage {spec.name!r}, whose rows are {spec.row.__name__}s. "
                "Results, exports and rating sheets read these from the method's own stage only, and would show other "
                "texts than the next stages read; give the stage a row type of its own, or uninstall that package"
            )
        schema = schema_of(spec.row)
        told = (name in schema.names and schema.field(name).type == "string" for name in ("state", "reason"))
        if spec.makes_calls and not all(told):
            raise ConfigError(
                f"package {package} adds the stage {spec.name!r}, which makes calls, and whose rows, "
                f"{spec.row.__name__}s, lack `state: State` or `reason: str`. A run reads there which calls have "
                "failed, and why: repair or uninstall that package"
            )
        specs.insert(names.index(spec.behind) + 1, spec)
        added.remove(following)
    return {spec.name: spec for spec in specs}


@cache
def packages() -> Mapping[str, str]:
    """Return the packages of the added stages, with their versions, by the stages' names."""
    return {spec.name: package for package, spec in _added()}


def made(spec: StageSpec, resolved: ResolvedSweep, part: Part) -> CallStage[Any, Any] | ComputeStage[Any]:
    """Return the stage of a part, held to its interface if another distribution adds it."""
    stage = spec.make(resolved, part)
    if package := packages().get(spec.name):
        interface = ReadStage if isinstance(stage, ReadStage) else CallStage if spec.makes_calls else ComputeStage
        check_type(stage, interface, package, f"{type(spec).__name__}.make has to return")
        hold_to(interface, stage, package, ((Out, spec.row), (Read, spec.row)))
    return stage


def _added() -> Iterator[tuple[str, StageSpec]]:
    """Yield the added stages, each after its package and held to its interface."""
    for entry in ADDED.added():
        spec = ADDED.load(entry.name, StageSpec)  # type: ignore[type-abstract]
        hold_to(StageSpec, spec, distribution(entry))
        with ADDED.blamed(entry):
            schema_of(spec.row)
        yield distribution(entry), spec
