"""Failures: evaluations with the same error form a group, and a run ends with a summary of them."""

from __future__ import annotations

import warnings
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

import deepband
import hostile
from deepband import FailedEvaluationsWarning, Job, Study
from deepband.analysis.failures import FailureWatch, failures, first_line
from deepband.core.results import read_any_result
from driving import finish, open_study


def raised(error: Exception) -> str:
    """The text that is recorded for an exception that an objective raised."""
    try:
        raise error
    except Exception as caught:
        found = read_any_result(caught).error
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("error", "line"),
    [
        ("nan: the objective returned nan", "nan: the objective returned nan"),
        ("WorkerDied: exit code 9", "WorkerDied: exit code 9"),
        ("ValueError: ", "ValueError"),
        (
            "RuntimeError: \n\n  CUDA error: out of memory \nmore",
            "RuntimeError: CUDA error: out of memory",
        ),
        (raised(ValueError("two\nlines")), "ValueError: two"),
        (raised(ValueError()), "ValueError"),
        (raised(KeyError("lr")), "KeyError: 'lr'"),
        (None, "unknown"),
    ],
)
def test_the_first_line_is_the_type_and_the_start_of_the_message(
    error: str | None, line: str
) -> None:
    assert first_line(error) == line


def test_messages_that_differ_in_numbers_and_addresses_are_one_group() -> None:
    study = open_study(max_budget=3)

    def objective(job: Job) -> object:
        at = hex(id(job))
        return RuntimeError(f"{job.config['x']!r} MiB of {1.5e-7 * job.index} at <Model {at}>")

    finish(study, objective)
    (group,) = study.failures()
    assert (group.count, len(group.jobs), len(group.configs)) == (6, 6, 6)
    assert group.error.startswith("RuntimeError: 0.")
    assert group.messages > 1
    assert group.title.endswith("(numbers vary)")


def test_groups_are_sorted_by_count_and_name_their_jobs_configs_and_traceback() -> None:
    study = open_study()

    def objective(job: Job) -> object:
        if job.rung == 0 and job.index < 2:
            return KeyError("lr")
        if job.rung == 0 and job.index < 5:
            return {"loss": float("nan")}
        return job.config["x"]

    finish(study, objective)
    found = study.failures()
    assert [(each.count, each.error) for each in found] == [
        (3, "nan: the objective returned nan"),
        (2, "KeyError: 'lr'"),
    ]
    assert found.total == 5
    assert found[1].jobs == ((0, 0, 0), (0, 1, 0))
    assert found[1].configs == tuple(study.evaluations[n].config for n in (0, 1))
    assert found[1].traceback is None  # it was reported, not raised
    assert "3 x nan: the objective returned nan" in str(found)


def test_the_traceback_of_a_raised_error_is_kept() -> None:
    study = open_study(max_budget=3)

    def objective(config: dict[str, float], budget: int) -> float:
        raise ValueError("no")

    with pytest.warns(FailedEvaluationsWarning, match=r"^6 of 6 evaluations failed: 6 x ValueErr"):
        study.optimize(objective, first_failures=0)
    (group,) = study.failures()
    assert group.error == "ValueError: no"
    assert group.traceback is not None
    assert group.traceback.startswith("Traceback (most recent call last):")
    assert group.traceback.endswith("ValueError: no")
    assert "no" in repr(study.failures())
    assert "raise ValueError" in repr(study.failures())


def test_hostile_texts_are_harmless_in_texts_and_tables() -> None:
    study = open_study(max_budget=27)
    names = cycle(hostile.NAMES)
    finish(study, lambda job: RuntimeError(next(names)))
    found = study.failures()
    assert all(line.isprintable() for line in str(found).split("\n"))
    hostile.check_harmless(found._repr_html_())


def failing(study: Study, *errors: Exception) -> None:
    """Run jobs of a study, the first of which fail with these errors."""
    left = list(errors)

    def objective(config: dict[str, float], budget: int) -> float:
        if left:
            raise left.pop()
        return config["x"]

    study.optimize(objective, first_failures=0)


def test_a_run_without_failures_ends_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        failing(open_study())


def test_one_error_makes_one_line() -> None:
    with pytest.warns(FailedEvaluationsWarning) as warned:
        failing(open_study(), *(RuntimeError("CUDA out of memory") for _ in range(4)))
    (warning,) = warned
    assert warning.filename == __file__
    first, last = str(warning.message).splitlines()
    assert first == "4 of 22 evaluations failed: 4 x RuntimeError: CUDA out of memory"
    assert last == "study.failures() shows their configs and tracebacks."


def test_several_errors_make_several_lines_the_most_frequent_first() -> None:
    errors = [KeyError("a"), ValueError("b"), ValueError("c"), TypeError("d"), OSError("e")]
    with pytest.warns(FailedEvaluationsWarning) as warned:
        failing(open_study(), *errors, ValueError("b"), RuntimeError("f"))
    lines = str(warned[0].message).splitlines()
    assert lines[:2] == ["7 of 22 evaluations failed:", "  2 x ValueError: b"]
    assert [line[:6] for line in lines[2:4]] == ["  1 x "] * 2
    assert lines[4:] == [
        "  and 3 other errors",
        "study.failures() shows their configs and tracebacks.",
    ]


def test_the_summary_is_that_of_the_run_and_comes_only_after_new_failures() -> None:
    study = open_study()
    with pytest.warns(FailedEvaluationsWarning, match="^1 of 1 evaluation failed"):
        study.optimize(lambda config, budget: 1 / 0, max_cost=1, first_failures=0)
    with pytest.warns(FailedEvaluationsWarning, match="^2 of 22 evaluations failed: 2 x ZeroDiv"):
        failing(study, ZeroDivisionError("division by zero"))
    failing(study)  # nothing is left to do
    study.deepen()
    failing(study)
    study.deepen()
    with pytest.warns(FailedEvaluationsWarning, match="^1 of .* evaluations of run 2 failed: 1 x"):
        failing(study, ValueError())


def test_automatic_extension_summarises_all_runs_that_it_made() -> None:
    study = open_study()
    finish(study, lambda job: job.config["x"])
    study.deepen()
    failed: list[int] = []

    def objective(config: dict[str, float], budget: int) -> float:
        if budget >= 27 and len(failed) < 2:
            failed.append(budget)
            raise ValueError("no")
        return config["x"] + 1 / budget

    with pytest.warns(FailedEvaluationsWarning, match=r"^2 of \d+ evaluations of runs 1 to \d fa"):
        study.auto_extend(objective, max_cost=3000, first_failures=0)


def test_imported_failures_do_not_count_in_a_summary() -> None:
    study = open_study()
    watch = FailureWatch(study.session.state)
    study.add_evaluation({"x": 0.5}, 1, ValueError("elsewhere"))
    assert watch.summary(study.session.state) is None
    assert failures(study.session.state).total == 1


def test_failures_are_told_from_those_of_another_process(tmp_path: Path) -> None:
    """A study that was opened before another process wrote to it reads it again."""
    path, fails = tmp_path / "a.study", [True, False, True]

    def objective(config: dict[str, Any], budget: float) -> float:
        if fails.pop(0):
            raise ValueError("no")
        return float(config["x"])

    deepband.open_study(path, space={"x": (0.0, 1.0)}, max_budget=9).close()
    study = deepband.open_study(path)
    with (
        deepband.open_study(path) as other,
        pytest.warns(FailedEvaluationsWarning, match="^1 of 1"),
    ):
        other.optimize(objective, max_cost=1, first_failures=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        study.optimize(objective, max_cost=1, first_failures=0)
    study.close()
    study = deepband.open_study(path)
    with deepband.open_study(path) as other:
        other.enqueue({"x": 0.5}, 1)
    with study, pytest.warns(FailedEvaluationsWarning, match="^2 of 3 evaluations failed"):
        study.optimize(objective, max_cost=1, first_failures=0)
