"""Words of `armillary train` and `bench` that were replaced: each still works, and warns."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import Armillary

from armillary import old_words
from armillary.errors import InputError
from armillary_train.checkpoint import restore
from armillary_train.settings import Settings

OLD: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "--nproc": ({"nproc": 2}, {"ranks": 2}),
    "--batch": ({"batch": 64}, {"global_batch": 64}),
    "--cache-memory": ({"cache_memory": "2 GiB"}, {"cache": "2 GiB"}),
    "row-wise-adagrad": ({"optimizer": "row-wise-adagrad"}, {"optimizer": "rowwise_adagrad"}),
    "row_wise_adagrad": ({"optimizer": "row_wise_adagrad"}, {"optimizer": "rowwise_adagrad"}),
}


@pytest.mark.parametrize("word", OLD)
def test_an_old_keyword_is_read_as_the_new_one(word: str) -> None:
    old, new = OLD[word]
    with pytest.warns(DeprecationWarning, match="is now called") as warned:
        found = Settings("dlrm-small", **old)
    assert found == Settings("dlrm-small", **new)
    assert warned[0].filename == __file__


def test_every_old_word_of_the_trainer_is_tried() -> None:
    declared = {each.old for each in old_words.WORDS if "train" in each.places}
    assert declared == set(OLD)


def test_an_old_keyword_next_to_another_value_is_refused() -> None:
    with pytest.raises(InputError, match="old name of ranks"):
        Settings("dlrm-small", nproc=2, ranks=3)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("verb", "old", "new"),
    [
        ("train", ["--nproc", "0"], "0 is out of range in: --ranks"),
        ("train", ["--batch=0"], "0 is out of range in: --global-batch"),
        ("train", ["--cache-memory", "2 seconds"], 'invalid size: "2 seconds" in: --cache'),
        ("bench", ["--nproc", "0"], "0 is out of range in: --ranks"),
        ("bench", ["--batch", "0"], "0 is out of range in: --global-batch"),
    ],
)
def test_an_old_option_is_read_as_the_new_one(
    verb: str, old: list[str], new: str, armillary: Armillary
) -> None:
    run = armillary(verb, "dlrm-small", *old)
    assert run.returncode == 2
    assert new in " ".join(run.stderr.split())
    assert f"warning: {old[0].partition('=')[0]} is now called" in run.stderr


@pytest.mark.parametrize("size", ["65536", "64K", "64 KiB"])
def test_a_cache_has_a_size_with_or_without_a_unit(size: str) -> None:
    assert Settings("dlrm-small", cache=size).cache_bytes == 65536


def test_settings_of_an_old_checkpoint_fit_the_same_run() -> None:
    old = {"model": "m", "nproc": 4, "batch": 64, "optimizer": "row-wise-adagrad", "seed": 0}
    last = SimpleNamespace(settings=old, step=3)
    content: Any = SimpleNamespace(last=last, folder=SimpleNamespace(of=Path), tables={})
    content.folder.of = lambda step: Path(f"run/{step}")
    restore.require_fit(content, asdict(Settings("m", global_batch=64)), [])
    with pytest.raises(InputError, match="--global-batch: 32 does not fit"):
        restore.require_fit(content, asdict(Settings("m", global_batch=32)), [])
