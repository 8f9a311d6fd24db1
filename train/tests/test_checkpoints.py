"""Checkpoints: what is restored has the same bits, and what is not whole is no checkpoint."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_copies import Copies
from conftest import ROOT
from runs import Runs, digest, runs
from test_criteo import written
from thorough import some, usually

from armillary.model import load_model
from armillary.model.dlrm import parse
from armillary.model.sharding_plan import ShardingPlan, TablePlan
from armillary.model.sharding_plan_file import write_plan
from armillary_train.data.ingest import ingest
from armillary_train.data.recipe import Shuffle, criteo

pytest.importorskip("torch")

from armillary_train.checkpoint.content import Content
from armillary_train.checkpoint.folder import Folder
from armillary_train.tensor_files import Tensors

CLICKS = str(ROOT / "examples/clicks/model.yml")
BASE: dict[str, Any] = {
    "model": "dlrm-small",
    "global_batch": 64,
    "threads": 1,
    "eval_samples": 100,
    "steps": 13,
    "checkpoint_every": 3,
    "learning_rate": 0.05,
    "timeout": 20.0,
}


@pytest.fixture(scope="module")
def started(trainings: Copies) -> Iterator[Runs]:
    with runs(trainings) as made:
        yield made


CASES: dict[str, dict[str, Any]] = {
    "row-wise": {"keep": 9},
    "adam-fp16": {"optimizer": "adam", "table_precision": "fp16"},
    "bf16": {"optimizer": "adagrad", "table_precision": "bf16", "dense_optimizer": "adagrad"},
    "train": {"tensor_train": "rank=4,rows>=100", "optimizer": "adam", "dense_optimizer": "sgd"},
    "host": {"cache": "64 KiB"},
    "disk": {"cache": "16 MiB", "table_dir": "tables", "table_precision": "fp16"},
}


@pytest.mark.parametrize("name", some(CASES))
def test_a_run_that_was_killed_ends_with_the_same_bits(
    name: str, started: Runs, tmp_path: Path
) -> None:
    found = []
    for folder in ("whole", "cut"):
        case = dict(CASES[name])
        if "table_dir" in case:
            case["table_dir"] = str(tmp_path / f"tables-{folder}")
        settings = {**BASE, **case, "checkpoint": str(tmp_path / folder), "resume": True}
        if folder == "cut":
            (said,) = started.run(settings=settings, kill=(4, 0.0))
            assert said == {"killed": 9}
        outcome = started.good(settings=settings)
        outcome.pop("seconds")
        outcome.pop("checkpoints")
        outcome.pop("cache")
        found.append((outcome, digest(tmp_path / folder)))
    assert found[0] == found[1]


def plan_file(folder: Path, ranks: int, *schemes: tuple[str, tuple[int, ...]]) -> str:
    """A plan of the model's tables, with schemes in turn; for one table, columns that are not
    equal."""
    facts = parse(load_model("dlrm-small"))
    planned = []
    for place, table in enumerate(facts.tables):
        scheme, holders = schemes[place % len(schemes)]
        sizes = None
        if scheme == "column":
            sizes = (table.dim - 5 * (len(holders) - 1), *[5] * (len(holders) - 1))
        planned.append(TablePlan(table.name, table.rows, table.dim, scheme, holders, sizes))  # type: ignore[arg-type]
    path = folder / f"plan-{ranks}-{len(schemes)}.json"
    write_plan(ShardingPlan("dlrm-small", ranks, ranks, tuple(planned)), path)
    return str(path)


def test_another_sharding_has_the_same_bits(started: Runs, tmp_path: Path) -> None:
    """Two ranks to one, to three and back to two, each sharded another way; increments too."""
    both = ("row", (0, 1)), ("column", (0, 1)), ("data", (0, 1)), ("table", (1,))
    two = plan_file(tmp_path, 2, *both)
    three = plan_file(tmp_path, 3, ("column", (2, 0, 1)), ("row", (1, 0, 2)), ("table", (2,)))
    settings = {**BASE, "global_batch": 6, "checkpoint_every": 4, "decay": "none", "steps": 12}
    started.good(2, settings={**settings, "checkpoint": str(tmp_path / "a"), "plan": two})
    assert [each.base for each in Folder(tmp_path / "a").chain(12)] == [None, 4, 8]
    wanted = digest(tmp_path / "a")
    for before, after, size, plan in (
        ("a", "b", 1, None),
        ("b", "c", 3, three),
        ("c", "d", 2, two),
    ):
        given = {**settings, "checkpoint": str(tmp_path / before), "plan": plan, "resume": True}
        started.good(size, settings=given, reshard=str(tmp_path / after))
        assert digest(tmp_path / after) == wanted
    given = {**settings, "checkpoint": str(tmp_path / "a"), "resume": True, "steps": 14}
    outcome = started.good(3, settings={**given, "plan": three})
    assert (outcome["steps"], outcome["checkpoints"]["resumed"]) == (14, 12)


def test_tables_on_disk_of_another_number_of_ranks(started: Runs, tmp_path: Path) -> None:
    """They are refused, unless a checkpoint of the run has the rows; then their files are gone."""
    folder = tmp_path / "tables"
    disk = {"cache": "16 MiB", "table_dir": str(folder), "checkpoint": str(tmp_path / "a")}
    settings = {**BASE, **disk, "decay": "none", "steps": 2}
    started.good(2, settings=settings)
    for size in (1, 3):
        for said in started.run(size, settings={**settings, "checkpoint": None}):
            assert said["error"] == "InputError", said
            assert said["problems"][0]["message"] == "the folder has a checkpoint of 2 ranks"
            assert str(folder) in said["problems"][0]["file"]
    for size, steps in ((3, 4), (1, 6), (2, 8)):
        outcome = started.good(size, settings={**settings, "resume": True, "steps": steps})
        assert outcome["checkpoints"]["resumed"] == steps - 2
        held = [each.parent.relative_to(folder) for each in folder.rglob("table-0.rows")]
        place = [Path()] if size == 1 else [Path(f"rank-{at}-of-{size}/0") for at in range(size)]
        assert sorted(held) == place


def test_what_does_not_fit_is_refused(started: Runs, tmp_path: Path) -> None:
    folder = str(tmp_path / "a")
    settings = {**BASE, "checkpoint": folder, "steps": 3}
    started.good(settings=settings)
    (said,) = started.run(settings=settings)
    assert "has a checkpoint of step 3" in said["problems"][0]["message"]
    assert "--resume" in said["problems"][0]["help"]
    other = {"global_batch": 32, "optimizer": "adam", "seed": 5}
    for size in (1, 2):
        for said in started.run(size, settings={**settings, **other, "resume": True}):
            assert said["error"] == "InputError"
            messages = [f"{each['place']} {each['message']}" for each in said["problems"]]
            assert "--global-batch 32 does not fit the checkpoint, which has 64" in messages
            assert any(each.startswith("--optimizer adam") for each in messages)
            assert any("state" in each for each in messages)
    (said,) = started.run(settings={**settings, "steps": 2, "resume": True})
    assert "behind the end at step 2" in said["problems"][0]["message"]
    wide = {**settings, "table_precision": "bf16", "resume": True}
    (said,) = started.run(settings=wide)
    assert any("elements of BF16" in each["message"] for each in said["problems"])


@pytest.fixture(scope="module")
def of_two(started: Runs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints of two ranks after the third and the sixth step."""
    folder = tmp_path_factory.mktemp("of-two")
    settings = {**BASE, "global_batch": 6, "checkpoint": str(folder), "steps": 6}
    started.good(2, settings=settings)
    return folder


@pytest.mark.parametrize("how", ["flip", "header", "cut", "missing", "manifest"])
def test_damage_names_the_file_and_the_table(
    how: str, started: Runs, of_two: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "a"
    shutil.copytree(of_two, folder)
    settings = {**BASE, "global_batch": 6, "checkpoint": str(folder), "steps": 6}
    damaged, good = Folder(folder).of(6), Folder(folder).of(3)
    entry = next(each for each in Folder(folder).manifest(6).entries if each.table == "c3")
    path = damaged / entry.file
    content = bytearray(path.read_bytes())
    if how == "flip":
        content[Tensors.open(path)._starts[entry.key] + 1] ^= 4
    elif how == "header":
        content[20] ^= 1
    elif how == "cut":
        del content[-1]
    elif how == "manifest":
        path = damaged / "manifest.json"
        content = bytearray(path.read_bytes().replace(b'"samples": 36', b'"samples": 37'))
    path.write_bytes(content)
    if how == "missing":
        path.unlink()
    for said in started.run(2, settings={**settings, "resume": True}):
        assert said["error"] == "InputError"
        (problem,) = said["problems"]
        assert problem["file"] == str(path)
        assert (how == "flip") == (problem["place"] == "table 'c3'")
        assert f"remove {damaged}" in problem["help"]
    assert good.exists()
    if how == "manifest":
        for each in damaged.iterdir():
            each.unlink()
        outcome = started.good(1, settings={**settings, "resume": True})
        assert good.exists() and outcome["checkpoints"]["resumed"] == 3


def test_a_full_disk_ends_all_ranks_and_keeps_the_last_checkpoint(
    started: Runs, tmp_path: Path
) -> None:
    """The second rank may write no file of more than 140,000 bytes."""
    folder = tmp_path / "a"
    settings = {**BASE, "global_batch": 6, "checkpoint": str(folder), "resume": True, "steps": 60}
    started.good(2, settings={**settings, "steps": 2, "decay": "none"})
    settings["decay"] = "none"
    for said in started.run(2, settings=settings, limit=140_000):
        assert said["error"] == "InputError"
        assert "the checkpoint can't be written: File too large" in said["problems"][0]["message"]
    steps = Folder(folder).steps()
    assert steps and steps[-1] < 60
    assert started.good(1, settings=settings)["checkpoints"]["resumed"] == steps[-1]


def test_two_runs_in_one_folder(started: Runs, tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.lock()
    for said in started.run(2, settings={**BASE, "checkpoint": str(tmp_path)}):
        assert "another run writes its checkpoints here" in said["problems"][0]["message"]
    folder.unlock()


def shuffled(folder: Path) -> dict[str, Any]:
    """Settings for lines of Criteo's format, ingested and shuffled, which reader processes read.
    A pass has 300 samples: nine batches of 32 and one of 12. The run ends in the middle of the
    third pass, with a batch that is cut off."""
    facts = parse(load_model(CLICKS))
    log = written(folder / "log", range(350))
    recipe = criteo().with_rows([table.rows for table in facts.tables], "")
    ingest([log], folder / "data", replace(recipe, shuffle=Shuffle(3)), threads=1)
    data = str(folder / "data")
    return {"model": CLICKS, "data": data, "readers": 2, "steps": None, "samples": 750}


@pytest.mark.parametrize("data", ["synthetic", "ingested"])
def test_random_kills_lose_no_more_than_the_steps_since_the_last_checkpoint(
    data: str, started: Runs, tmp_path: Path
) -> None:
    """Kills after random steps and moments, of two processes that make a checkpoint every other
    step. Every run goes on from the last one, and the last run has the bits of one without kills.
    ARMILLARY_KILLS is how often; 200 is the number of the acceptance. ARMILLARY_SEED draws other
    moments."""
    kills = int(
        os.environ.get("ARMILLARY_KILLS", usually("2" if data == "synthetic" else "1", "20"))
    )
    seed = int(os.environ.get("ARMILLARY_SEED", "7"))
    settings = {**BASE, "global_batch": 32, "steps": 24, "checkpoint_every": 2, "resume": True}
    settings |= shuffled(tmp_path) if data == "ingested" else {}
    whole = {**settings, "checkpoint": str(tmp_path / "whole"), "readers": None}
    started.good(2, settings=whole)
    wanted = digest(tmp_path / "whole")
    drawn, done, number, resumed = random.Random(seed), 0, 0, 0
    # On a busy machine, the first kills may come before any checkpoint.
    while done < kills or (not resumed and done < kills + 20):
        folder = Folder(tmp_path / f"run-{number}")
        given = {**settings, "checkpoint": str(folder.path)}
        before = folder.steps()[-1:] or [0]
        moment = drawn.randrange(3, 9), drawn.uniform(0, 0.02)
        said = started.run(2, settings=given, kill=moment)
        after = folder.steps()[-1:] or [0]
        assert after >= before
        if after != [0]:
            Content(folder, after[0]).check()
        if all("outcome" in each for each in said):
            assert digest(folder.path) == wanted
            number += 1
            continue
        assert {9} == {each["killed"] for each in said if "killed" in each}, said
        done += 1
        resumed += after != [0]
    folder = Folder(tmp_path / f"run-{number}")
    steps = folder.steps()
    outcome = started.good(2, settings={**settings, "checkpoint": str(folder.path)})
    assert outcome["checkpoints"]["resumed"] == (steps[-1] if steps else None)
    assert digest(folder.path) == wanted
    assert resumed
