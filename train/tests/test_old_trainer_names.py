"""Names that modules of the trainer had in `armillary` until 0.1."""

from __future__ import annotations

import importlib
import sys

import pytest

from armillary import _moved, old_modules

OLD = [old for old in old_modules.MODULES if old.split(".")[0] == "trainer" and "gpu" not in old]
"""Those that need no GPU."""


@pytest.mark.parametrize("old", [*OLD, "trainer.settings", "trainer.data.recipe"])
def test_an_old_name_gives_the_module_of_today(old: str) -> None:
    sys.modules.pop(f"armillary.{old}", None)
    new = _moved.today(f"armillary.{old}")
    with pytest.warns(DeprecationWarning, match="is now armillary_train"):
        module = importlib.import_module(f"armillary.{old}")
    assert module is sys.modules[str(new)]


def test_documented_names_are_found() -> None:
    sys.modules.pop("armillary.trainer.embedding", None)
    with pytest.warns(DeprecationWarning, match="is now armillary_train"):
        old = importlib.import_module("armillary.trainer.embedding")
    new = importlib.import_module("armillary_train.tables.embedding")
    assert old.EmbeddingCollection is new.EmbeddingCollection
