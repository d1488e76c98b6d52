"""Jobs as they leave a study and return to it: made from keys, and checked when they come back."""

from __future__ import annotations

from collections.abc import Sequence

from deepband.core import hyperband
from deepband.core.facts import JobKey, own_copy
from deepband.core.records import Job, whole_key
from deepband.core.state import State
from deepband.errors import InputError, JobError, shown


def jobs_of(state: State, keys: Sequence[JobKey]) -> list[Job]:
    """The jobs with these keys, for the current run or ahead of the next one."""
    budgets, study = state.run.budgets, state.created.study
    if max(keys)[0] >= len(budgets):  # ahead, in the next run's new bracket
        budgets = state.coming.job_budgets(state.created.integer_budgets)
    return [
        Job(bracket, index, rung, budgets[rung], own_copy(state.config(bracket, index)), study)
        for bracket, index, rung in keys
    ]


def check_open(state: State, job: Job, learns: bool) -> JobKey:
    """The key of a job whose result can be recorded, or an error that says why it cannot. If the
    sampler learns, its config must have been sampled."""
    if not isinstance(job, Job):
        raise InputError(
            f"{shown(job)} is not a job: give what ask() returned, or a deepband.Job with the same "
            "values."
        )
    bracket, index, rung, _, _, study, _ = job
    if not (type(bracket) is type(index) is type(rung) is int):
        bracket, index, rung = whole_key(job)
    if study and study != state.created.study:
        raise JobError(bracket, index, rung, "it belongs to another study.")
    if not hyperband.is_open(state, bracket, index, rung):
        known = index in state.results.get((bracket, rung), {})
        if known or (bracket, index, rung) in state.ahead.results:
            raise JobError(bracket, index, rung, "its result is already recorded.")
        raise JobError(bracket, index, rung, "the current run does not need it.")
    if learns and index >= len(state.configs[bracket]):
        raise JobError(bracket, index, rung, "its config is not sampled yet: ask for it first.")
    return bracket, index, rung


def is_expected(state: State, job: Job, learns: bool) -> bool:
    """Whether the result of a job can be recorded, and the job has the study's config."""
    try:
        bracket, index, _ = check_open(state, job, learns)
    except (JobError, InputError):
        return False
    configs = state.configs[bracket] if bracket < len(state.configs) else []
    return index < len(configs) and state.config(bracket, index) == job.config


def resumable_rungs(state: State, job: Job) -> list[int]:
    """The rungs below a job's own on which its config was evaluated to the end and did not fail."""
    bracket, index, top, *_ = job
    found = ((rung, state.results[bracket, rung].get(index)) for rung in range(bracket, top))
    complete = ((rung, each) for rung, each in found if each and each.stopped_after is None)
    return [rung for rung, result in complete if result.loss is not None]
