"""Allowed imports between the rooms of `train/python/armillary_train`."""

from __future__ import annotations

from arrows import House
from conftest import ROOT

ALLOWED: dict[str, set[str]] = {
    "": set(),
    "compiler": set(),
    "process": set(),
    "profile_ranges": set(),
    "tensor_files": set(),
    "torch_check": set(),
    "tables": {"_train", "compiler", "profile_ranges"},
    "net": {"_train", "profile_ranges", "tables"},
    "ranks": {"_train", "compiler", "profile_ranges", "tables"},
    "settings": {"tables"},
    "build": {"compiler", "ranks", "settings", "tables"},
    "data": {"_train", "settings", "tensor_files"},
    "checkpoint": {"build", "data", "net", "ranks", "settings", "tables", "tensor_files"},
    "run": {
        "build",
        "checkpoint",
        "data",
        "net",
        "process",
        "profile_ranges",
        "ranks",
        "settings",
        "tables",
    },
    "bench": {"build", "data", "net", "process", "ranks", "run", "settings", "tables"},
    "report": set(),
    "cli": {"bench", "checkpoint", "data", "ranks", "report", "run", "settings", "torch_check"},
}
"""Room -> rooms it may import, from the ground; "" is the package itself."""

LIBRARIES: dict[str, set[str]] = {
    "msgspec": {"checkpoint", "data", "ranks", "tensor_files"},
    "numpy": {"checkpoint", "data", "net", "ranks", "run", "tables", "tensor_files"},
    "onnx": {"checkpoint"},
    "polars": {"data"},
    "rich": set(),
    "scipy": {"data"},
    "torch": {
        "bench",
        "build",
        "checkpoint",
        "compiler",
        "net",
        "process",
        "profile_ranges",
        "ranks",
        "run",
        "tables",
    },
    "triton": {"tables"},
    "typer": {"cli"},
    "yaml": set(),
}
"""Library -> rooms that may import it."""

TRAIN = House(ROOT / "train/python/armillary_train", ALLOWED, LIBRARIES, frozenset({"armillary"}))


def test_train_arrows() -> None:
    TRAIN.check_arrows()


def test_train_libraries() -> None:
    TRAIN.check_libraries()


def test_train_rooms_stand_on_rooms_above_them_in_the_list() -> None:
    rooms = list(ALLOWED)
    for place, room in enumerate(rooms):
        assert ALLOWED[room] - {"_train"} <= {*rooms[:place]}


def test_no_files_of_the_trainer_import_each_other_in_a_circle() -> None:
    TRAIN.check_files()
