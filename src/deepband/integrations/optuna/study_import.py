"""Adding what an Optuna study contains to a study, through its public methods."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from deepband.core.criteria import Criteria
from deepband.core.facts import PRECHECK, Config, Outcome, fact_of
from deepband.core.rank_order import Score, ranked
from deepband.core.records import Job
from deepband.core.results import read_any_result, read_result
from deepband.core.state import State
from deepband.core.strategies import FRUGAL
from deepband.errors import InputError, SpaceError
from deepband.execution.precheck import rejection
from deepband.integrations.optuna.findings import (
    Exported,
    ExportedRun,
    Finding,
    Known,
    LeftOut,
    above,
    below,
)
from deepband.integrations.optuna.trial_export import Shown
from deepband.space.search_space import Space
from deepband.study.study import Study

Placed: TypeAlias = tuple[Config, Finding]

REJECTED = "it was rejected before it was trained"
STOPPED = "its training was stopped early"
LATER = "trials of an earlier run are missing: finish that run, then import again"


def configs(space: Space, found: Iterable[Finding]) -> tuple[list[Placed], list[LeftOut]]:
    """The findings with their configs, and those whose parameters do not fit the space."""
    shown = {name: Shown.of(parameter) for name, parameter in space.configspace.items()}
    placed: list[Placed] = []
    left_out: list[LeftOut] = []
    for finding in found:
        try:
            placed.append((space.config(_own(shown, finding.params)), finding))
        except SpaceError as error:
            left_out.append(LeftOut(finding.trial, None, str(error)))
    return placed, left_out


def _own(shown: Mapping[str, Shown], params: Mapping[str, Any]) -> Config:
    return {
        name: shown[name].own(value) if name in shown else value for name, value in params.items()
    }


def by_place(placed: Iterable[Placed]) -> list[Placed]:
    """Sort by their places in deepband, followed by trials that Optuna added."""
    return sorted(placed, key=lambda each: (each[1].place or (math.inf, 0), each[1].trial))


def best_first(state: State, placed: Iterable[Placed]) -> list[Placed]:
    """Sort by highest rung, then in the order of promotion: in this order trials take the slots."""
    by_trial = {each[1].trial: each for each in placed}
    scores = {trial: _score(state, each[1].known[-1]) for trial, each in by_trial.items()}
    order: list[int] = []
    rung_of = {trial: each[1].known[-1].rung for trial, each in by_trial.items()}
    for rung in sorted(set(rung_of.values()), reverse=True):
        order += ranked({trial for trial, of in rung_of.items() if of == rung}, scores)
    return [by_trial[trial] for trial in order]


def _score(state: State, known: Known) -> Score:
    """What ranks a result."""
    outcome = read_any_result(_result(known, state.criteria), state.criteria)
    return state.standings.score(fact_of((0, 0, known.rung), 0, outcome))


def add_results(study: Study, placed: Iterable[Placed]) -> list[LeftOut]:
    """Add all results as imported ones. Returns those for which there is no slot."""
    left_out: list[LeftOut] = []
    highest: dict[str | None, int] = {}
    for each in study.evaluations:
        highest[each.origin] = max(each.rung, highest.get(each.origin, -1))
    highest |= {each.origin: each.rung for each in study.session.state.ahead.results.values()}
    for config, finding in placed:
        left_out += _add(study, config, above(finding, highest.get(finding.origin, -1)))
    return left_out


def _add(study: Study, config: Config, finding: Finding) -> list[LeftOut]:
    """Add the results of one config from the lowest rung with a free slot on. Returns those below
    it."""
    unusable = [(each, why) for each in finding.known if (why := _why_unusable(each))]
    left_out = [LeftOut(finding.trial, each.step, why) for each, why in unusable]
    if unusable:
        finding = below(finding, min(each.rung for each, _ in unusable))
    for start, first in enumerate(finding.known):
        try:
            _add_known(study, config, finding.known[start:], finding.origin)
            break
        except InputError as error:
            left_out.append(LeftOut(finding.trial, first.step, str(error)))
    return left_out


def _why_unusable(known: Known) -> str | None:
    """Why a result says nothing about a config in another study; None if it does."""
    if known.rejected:
        return REJECTED
    return STOPPED if "stopped_after" in known.details else None


def _add_known(
    study: Study,
    config: Config,
    known: Sequence[Known],
    origin: str,
    place: tuple[int, int] | None = None,
) -> None:
    schedule = study.session.state.schedule
    criteria = study.session.state.criteria
    results = [(schedule.budget(each.rung), _result(each, criteria)) for each in known]
    study.add_evaluations(config, results, origin, place)


def _result(known: Known, criteria: Criteria) -> object:
    """A result as `Study.tell` accepts it."""
    error = known.details.get("error")
    if error is not None and known.failed:
        return _failure(error)
    names = criteria.names or ("loss",)
    metrics = known.details.get("metrics", {})
    return {**metrics, **dict(zip(names, known.values, strict=True))}


def _failure(error: str) -> Exception:
    """An exception that is recorded with the same text: its type, a colon, and the rest."""
    kind, _, message = error.partition(": ")
    failure: Exception = type(kind, (Exception,), {})(message)
    return failure


def replay(study: Study, exported: Exported, placed: Sequence[Placed]) -> list[LeftOut]:
    """Restore an exported study: its configs in their places, its runs, and its own results. Trials
    that did not come from deepband are imported like those of any other study."""
    places = {finding.place: (config, finding) for config, finding in placed if finding.place}
    late: list[Job] = []
    for run, started in enumerate(exported.runs):
        if run >= len(study.runs):
            if not study.done and not exported.runs[run - 1].unfinished:
                break
            late += study.ask_all()
            _extend(study, started)
            late = _tell_late(study, places, late)
        _enqueue(study, places, run)
        _tell(study, places)
    rest = [(config, _missing(study, config, finding)) for config, finding in placed]
    if len(study.runs) >= len(exported.runs):
        return add_results(study, rest)
    return [LeftOut(each.trial, known.step, LATER) for _, each in rest for known in each.known]


def _extend(study: Study, run: ExportedRun) -> None:
    """Start the next run of an exported study."""
    study.extend(
        run.strategy or "preserving",
        max_budget=run.max_budget,
        width=None if run.strategy == FRUGAL else run.width,
        brackets=None if run.strategy == FRUGAL else run.brackets,
        unfinished=True,
    )


def _tell_late(study: Study, places: Mapping[Any, Placed], late: Sequence[Job]) -> list[Job]:
    """Record the results that arrived after their unfinished run was extended. Returns the other
    jobs: their results may have arrived in a later run."""
    still_open = [job for job in late if study.session.expects(job)]
    found = {job: each for job in still_open if (each := _outcome(study, job, places))}
    _record(study, found)
    rest = [job for job in still_open if job not in found]
    for job in rest:
        study.release(job)
    return rest


def _enqueue(study: Study, places: Mapping[Any, Placed], run: int) -> None:
    """Add the configs of each bracket up to the first missing one, where the sampler takes over."""
    state = study.session.state
    schedule = state.full.schedule
    for bracket in schedule.brackets:
        for index in range(len(state.configs[bracket]), schedule.start_size(bracket)):
            if (bracket, index) not in places:
                break
            config, finding = places[bracket, index]
            origin = _origin(finding.known[0])
            if origin is None:
                study.enqueue(config, bracket)
            else:
                imported = (each for each in finding.known if _origin(each))
                known = [each for each in imported if each.details["run"] <= run]
                _add_known(study, config, known, origin, (bracket, index))


def _origin(known: Known) -> str | None:
    """Where an imported result comes from."""
    return None if known.rejected else known.details.get("origin")


def _record(study: Study, found: Mapping[Job, tuple[Outcome, bool]]) -> None:
    """Record outcomes, each with whether its config was rejected before it was trained."""
    for is_rejected, origin in ((False, None), (True, PRECHECK)):
        pairs = [(job, outcome) for job, (outcome, each) in found.items() if each is is_rejected]
        study.session.record_outcomes(pairs, origin)


def _tell(study: Study, places: Mapping[Any, Placed]) -> None:
    """Record the results of the current run, until no open job has one."""
    while True:
        jobs = study.ask_all()
        found = {job: each for job in jobs if (each := _outcome(study, job, places))}
        _record(study, found)
        for job in jobs:
            if job not in found:
                study.release(job)
        if not found:
            return


def _outcome(study: Study, job: Job, places: Mapping[Any, Placed]) -> tuple[Outcome, bool] | None:
    """The outcome of a job, and whether its config was rejected before it was trained."""
    config, finding = places.get((job.bracket, job.index), (None, None))
    if finding is None or config != job.config:
        return None
    run, criteria = study.session.state.run.number, study.session.state.criteria
    for known in finding.known:
        if known.rung == job.rung and known.details.get("run", 0) <= run:
            if known.rejected:
                return rejection(criteria), True
            outcome = read_result(_result(known, criteria), criteria)
            error = known.details.get("error", outcome.error)
            timed = outcome._replace(error=error, seconds=known.details.get("seconds"))
            return timed._replace(stopped_after=_stopped_after(known, timed)), False
    return None


def _stopped_after(known: Known, outcome: Outcome) -> float | None:
    """The budget after which training was stopped, if deepband exported one."""
    after = known.details.get("stopped_after")
    valid = isinstance(after, int | float) and 0 < after < math.inf and outcome.loss == math.inf
    return float(after) if after is not None and valid else None


def _missing(study: Study, config: Config, finding: Finding) -> Finding:
    """A finding without the results that the study has in the same place."""
    if finding.place is None:
        return finding
    bracket, index = finding.place
    own = study.session.state.configs[bracket : bracket + 1]
    if not own or index >= len(own[0]) or own[0][index] != config:
        return finding
    rungs = [
        each.rung for each in finding.known if study.session.state.result(*finding.place, each.rung)
    ]
    return above(finding, max(rungs, default=-1))
