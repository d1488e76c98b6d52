"""Texts for people: numbers of things, times, and records that print as tables."""

from __future__ import annotations

from fractions import Fraction
from types import MappingProxyType

import pytest

import deepband
from deepband.analysis.text import about, duration, shortened
from deepband.errors import NoResultError, ObjectiveError, counted
from driving import finish, noisy, open_study


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0001, "under 1 ms"),
        (0.0033, "3.3 ms"),
        (0.25, "250 ms"),
        (4.321, "4.3 s"),
        (9.96, "10 s"),
        (43.2, "43 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (90, "1 min 30 s"),
        (599.6, "10 min"),
        (754, "13 min"),
        (7500, "2 h 05 min"),
        (47.99 * 3600, "47 h 59 min"),
        (50 * 3600, "2 d 2 h"),
        (72 * 3600, "3 d"),
    ],
)
def test_times(seconds: float, text: str) -> None:
    assert duration(seconds) == text
    assert about(seconds) == f"about {text}"


def test_a_long_text_keeps_its_ends() -> None:
    assert shortened("abcdefgh", 8) == "abcdefgh"
    assert shortened("the_rate_of_layer_10", 12) == "the_rate…_10"
    assert len(shortened("\x1b" * 9, 9)) == 9


def test_singular_and_plural() -> None:
    assert [counted(n, "job") for n in (0, 1, 2)] == ["0 jobs", "1 job", "2 jobs"]
    assert "the only evaluation on rung 2 has no finite result" in str(NoResultError(1, 2))
    assert str(ObjectiveError(["no"])).startswith("the first evaluation failed; ")
    study = open_study(max_budget=1)
    assert repr(study).endswith("1 job open>")
    assert "1 config, 1 evaluation, cost 1 " in str(study.plan())
    finish(study, noisy(1))
    lines = dict(study.quote("frugal").lines())
    assert lines["reused"] == "1 config, 1 of 1 evaluation"
    assert lines["new"] == "0 configs, 1 evaluation"


def test_no_repr_shows_how_numbers_are_stored() -> None:
    study = open_study(min_budget=0.5, max_budget=4.5)
    finish(study, noisy(1))
    best = study.best._replace(metrics=MappingProxyType({"accuracy": 0.5}))
    shown = [repr(each) for each in (study.runs[0], study.plan(), study.quote(), study.advice())]
    assert not [text for text in [*shown, repr(best)] if "Fraction" in text or "proxy" in text]
    assert "cost=39," in shown[0]
    assert study.runs[0].cost == Fraction(39)
    assert "metrics={'accuracy': 0.5}" in repr(best)


def test_an_evaluation_prints_as_text() -> None:
    study = open_study(max_budget=3, space={"lr": (0.0, 1.0)})
    finish(study, lambda job: {"loss": 0.25 + job.index, "accuracy": 0.1234567})
    value = study.best.config["lr"]
    first, *rest = str(study.best).splitlines()
    assert first == "loss 0.25 with budget 3 (bracket 0, index 0, rung 1)"
    assert rest == [f"  lr = {value!r}", "  accuracy: 0.123457"]
    failed = study.best._replace(loss=None, value=None, error="ValueError: no\n\ntraceback")
    assert str(failed).startswith(
        "failed with budget 3 (bracket 0, index 0, rung 1): ValueError: no"
    )


def test_runs_are_a_tuple_that_prints_as_a_table() -> None:
    study = open_study(max_budget=3)
    finish(study, noisy(1))
    assert repr(study.runs).splitlines()[0].split()[:3] == ["run", "max_budget", "evaluations"]
    study.widen()
    runs = study.runs
    assert isinstance(runs, tuple)
    assert len(runs) == 2
    assert runs[-1] == list(runs)[1]
    header, first, second = repr(runs).splitlines()
    assert {"step", "strategy", "width"} <= set(header.split())
    assert second.split()[:5] == ["1", "widening", "efficient", "3", "2"]
    assert second.endswith("unfinished")
    assert "unfinished" not in first


def test_verdicts_are_a_tuple_of_sentences() -> None:
    study = open_study()
    finish(study, noisy(1))
    verdicts = study.explain(0, 0)
    assert isinstance(verdicts, tuple)
    assert repr(verdicts) == "\n".join(map(str, verdicts))


@pytest.mark.parametrize("wanted", ["best", "runs", "plan", "explain", "quote", "advice"])
def test_tables_in_a_notebook(wanted: str) -> None:
    name = "<script>alert(1)</script>"
    study = deepband.open_study(space={name: (0.0, 1.0)}, max_budget=9)
    finish(study, noisy(1))
    given = {"explain": (0, 0)}.get(wanted, ())
    found = getattr(study, wanted)
    html = (found(*given) if callable(found) else found)._repr_html_()
    assert html.startswith("<table><caption>")
    assert html.endswith("</tbody></table>")
    assert "<th scope='col'></th>" not in html
    assert name not in html
    if wanted == "best":
        assert "&lt;script&gt;" in html
