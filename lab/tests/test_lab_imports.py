"""Allowed imports between the rooms of `lab/python/armillary_lab`."""

from __future__ import annotations

from arrows import House
from conftest import ROOT

ALLOWED: dict[str, set[str]] = {
    "": set(),
    "clone": set(),
    "command": set(),
    "study": set(),
    "measured": set(),
    "peers": {"_peers"},
    "predict": {"measured"},
    "score": {"command", "measured", "predict", "study"},
    "fit": {"clone", "command", "measured", "predict"},
    "studies": {"_peers", "score", "study"},
    "pages": {"clone", "fit", "score", "studies", "study"},
    "cli": {"pages", "studies", "study"},
}
"""Room -> rooms it may import; "" is the package itself. A measured row goes down this list."""

LIBRARIES: dict[str, set[str]] = {
    "numpy": {"fit"},
    "polars": set(),
    "rich": set(),
    "scipy": {"fit"},
    "torch": {"studies"},
    "typer": {"cli"},
    "yaml": {"fit"},
}
"""Library -> rooms that may import it."""

LAB = House(
    ROOT / "lab/python/armillary_lab",
    ALLOWED,
    LIBRARIES,
    frozenset({"armillary", "armillary_train"}),
)


def test_lab_arrows() -> None:
    LAB.check_arrows()


def test_lab_libraries() -> None:
    LAB.check_libraries()


def test_lab_rooms_have_no_cycle() -> None:
    LAB.check_rooms()


def test_no_files_of_the_lab_import_each_other_in_a_circle() -> None:
    LAB.check_files()
