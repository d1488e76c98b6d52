"""How advice shows itself: its text, its table, its prices."""

from __future__ import annotations

import pytest

from advised import finished, rank
from deepband import Job, UnfinishedError
from deepband.core.strategies import NAMES
from driving import finish, open_study


def test_advice_contains_the_prices() -> None:
    study = finished(rank)
    advice = study.advice()
    assert [each.strategy for each in advice.quotes] == [*NAMES, *NAMES[:3]]
    assert advice.quotes[1] == study.quote("preserving")
    assert advice.quotes[-1] == study.quote("efficient", width=2)
    study.deepen("frugal")
    finish(study, rank)
    assert [each.fills for each in study.advice().quotes] == [True] * 3 + [False] * 7


def test_advice_as_text_and_html() -> None:
    advice = finished(rank).advice()
    text = str(advice)
    assert text.startswith("widen at 27: 49 more configs are expected to gain 62 % of the spread\n")
    for piece in (
        "Kendall's tau 1.00",
        "0 pairs beyond the noise",
        "9 to 27",
        "frugal, ",
        "width 2",
        "same cost",
        "why not deepen  ",
    ):
        assert piece in text
    html = advice._repr_html_()
    assert html.startswith("<div>widen at 27")
    assert "Kendall&#x27;s tau" in html


def test_columns_are_aligned_whatever_the_budgets_are() -> None:
    study = finished(rank, max_budget=100 / 3, min_budget=0.1234567)
    lines = str(study.advice()).splitlines()[1:]
    width = len("0.137174 to 0.411523")
    assert "  0.137174 to 0.411523  best " in lines[4]
    assert all(line[2 + width : 4 + width] == "  " != line[4 + width] for line in lines)


def test_singular_and_plural() -> None:
    advice = finished(rank, max_budget=3).advice()
    assert ("on both rungs", "1 config") in advice.lines()

    def trembling(job: Job) -> float:
        first = job.index == 0 and job.bracket < 2
        return float((job.bracket + job.rung) % 2) if first else 100.0 + rank(job)

    lines = dict(finished(trembling, eta=2, max_budget=16).advice().lines())
    assert lines["noise"] == "1 (1 pair crosses back and forth)"
    assert lines["exchanges"] == "0 pairs beyond the noise"


@pytest.mark.parametrize(("times", "shown"), [(0.04, "only 3.8 %"), (2, "67 %"), (1000, "100 %")])
def test_shares_of_the_spread(times: float, shown: str) -> None:
    """A share below 10 % has two digits, any other no decimals."""
    flat = finished(rank).advice()
    assert flat.spread is not None
    step = times * flat.spread
    advice = finished(lambda job: rank(job) - step * (job.rung == 3)).advice()
    assert f"gained {shown} of the spread" in advice.deepening.reason


def test_the_step_that_does_not_pay_is_explained() -> None:
    advice = finished(rank).advice()
    assert (advice.step, advice.deepening.pays) == ("widen", False)
    assert ("why not deepen", advice.deepening.reason) in advice.lines()


def test_advice_on_an_unfinished_run_says_what_to_do() -> None:
    with pytest.raises(UnfinishedError) as raised:
        open_study().advice()
    assert str(raised.value).startswith("cannot give advice: the current run is not finished")
    assert "unfinished=True" not in str(raised.value)
