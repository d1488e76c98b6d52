"""Tables to take away, as spreadsheets read them."""

from __future__ import annotations

import csv
import re

import pytest

from deepband.analysis import export
from driving import open_study

STARTS = "=+-@\uff1d\uff0b\uff0d\uff20"


def computed(field: str) -> bool:
    """Whether a spreadsheet would compute a field."""
    return field.strip(" \t\"'") != "" and field.lstrip(' \t\r"')[:1] in STARTS


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize(
    "text",
    ["{}1", "a;{}1", 'a;"{}1', 'a";"{}1"', "a; {}1", ";;{}1;{}2", "\t{}1", "a;\t{}1", "a,{}1"],
)
def test_no_cell_is_computed_wherever_a_line_is_divided(text: str, start: str) -> None:
    given = text.replace("{}", start)
    study = open_study(space={"x;=name": [given, "plain"]}, max_budget=1)
    while job := study.ask():
        study.tell(job, {"loss": 1.0, f"m{given}": [given]})
    lines = list(export.table(study.session.state))
    assert any(
        given.strip() in each["config.x;'=name"] or "'" in each["config.x;'=name"]
        for each in csv.DictReader(lines)
    )
    for line in lines:
        (fields,) = csv.reader([line])
        assert not [field for field in fields[10:] if computed(field)]
        assert not [field for field in line.split(";")[1:] if computed(field)]


def test_other_texts_stay_as_they_are() -> None:
    texts = ["a-b", "x = 1", "mail@example.org", "a; b", "1;2", "-1,2"]
    study = open_study(space={"x": texts}, max_budget=9)
    while job := study.ask():
        study.tell(job, 1.0)
    found = {row["config.x"] for row in csv.DictReader(export.table(study.session.state))}
    assert found <= {re.sub("^-", "'-", text) for text in texts}
    assert len(found) > 2
