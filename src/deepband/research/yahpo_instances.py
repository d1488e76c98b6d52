"""The data sets of YAHPO Gym that the comparison uses, in two lists that do not overlap.

Parameters of our methods are chosen on the tuning list only. Its first four data sets of each
scenario had been used before there was a comparison. The others, in both lists, were sampled at
random from those whose best config, of 20,000 random ones, is at least 0.02 better than the median
config (88 of 96 of rbv2_svm, 102 of 114 of rbv2_ranger; the only one of nb301 is not). Two
scenarios are in the reporting list only: nothing was ever tuned on them. Data sets in neither list
are reserved for later use.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

# fmt: off
TUNING: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "lcbench": (
            "3945", "7593", "34539", "126025", "167104", "167185", "168335", "168868",
        ),
        "rbv2_xgboost": (
            "12", "28", "40981", "54", "470", "1478", "1501", "4538",
        ),
    }
)
REPORTING: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "lcbench": (
            "126026", "146212", "167149", "167152", "167161", "167168", "167190", "168329",
        ),
        "rbv2_xgboost": (
            "15", "42", "44", "181", "1067", "1220", "1510", "4134",
        ),
        "rbv2_svm": (
            "1476", "29", "41142", "41156", "41157", "50",
        ),
        "rbv2_ranger": (
            "1468", "1478", "29", "40498", "40979", "458",
        ),
    }
)
# fmt: on
INSTANCES = MappingProxyType({"tuning": TUNING, "reporting": REPORTING})
"""By the name of the list, then by scenario."""
