"""One word for each fact: every verb, every family of models and Python call it alike."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from conftest import Armillary

import armillary as arm
from armillary import documents, old_words
from armillary.cli.app import application
from armillary.errors import InputError, flag
from armillary.model.files import FAMILIES, Model
from armillary.plan.roofline import roofline
from armillary.sizes import byte_count
from armillary.workload import families
from armillary.workload.servers import ServerOptions, parameter_servers
from armillary_train.settings import RunOptions

FACTS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "ranks": ("--ranks", ("train", "bench", "plan"), ("--nproc", "--processes", "--world-size")),
    "samples of all ranks": (
        "--global-batch",
        ("train", "bench", "plan", "dlrm", "transformer", "moe"),
        ("--batch", "--batch-size"),
    ),
    "samples of a rank": ("--local-batch", ("plan", "dlrm", "cnn"), ("--batch-per-rank",)),
    "numbers of the MLPs": (
        "--precision",
        ("train", "plan", "dlrm", "cnn", "transformer", "moe"),
        ("--width", "--dtype"),
    ),
    "numbers of gradients": (
        "--gradient-precision",
        ("plan", "dlrm", "cnn"),
        ("--gradient-width",),
    ),
    "numbers in tables": (
        "--table-precision",
        ("train", "plan", "dlrm"),
        ("--embedding-width", "--embedding-precision"),
    ),
    "formats on the network": (
        "--messages",
        ("train", "plan", "dlrm"),
        ("--message-width", "--forward-width", "--backward-width"),
    ),
    "optimizer": ("--optimizer", ("train", "plan", "dlrm", "cnn"), ("--table-optimizer",)),
    "optimizer of the MLPs": ("--dense-optimizer", ("train", "dlrm"), ()),
    "cache": ("--cache", ("train", "plan", "dlrm"), ("--cache-memory", "--cache-size")),
    "memory for tables": ("--capacity", ("plan", "dlrm"), ("--memory",)),
    "exchange of the next batch": ("--pipeline", ("train", "dlrm"), ("--pipelined",)),
    "computation during exchanges": ("--overlap", ("plan", "dlrm", "cnn"), ("--overlapped",)),
    "ranks of a node": ("--ranks-per-node", ("plan", "dlrm"), ("--npus-per-node",)),
    "rule that shards tables": ("--sharding", ("dlrm",), ("--shard", "--sharding-rule")),
    "time of the host in a step": ("--host-us", ("dlrm",), ("--host-time",)),
    "measured parts of a step": ("--bench", ("dlrm",), ()),
    "measured steps of a job": ("--measured", ("plan",), ("--measured-steps",)),
    "sharding plan": ("--plan", ("train", "dlrm"), ("--sharding-plan",)),
    "steps between checkpoints": ("--checkpoint-every", ("train", "dlrm"), ()),
}
"""Fact -> the word, where it is, and words that it must not have anywhere."""

OTHER = {("collective", "--dtype")}
"""Words of other programs: `collective` has the options of nccl-tests."""


def spelled() -> dict[str, set[str]]:
    """The options of each verb and of each family of models."""
    found = {family: {flag(name) for name in families.options(family)} for family in FAMILIES}
    for verb, command in typer.main.get_command(application()).commands.items():  # type: ignore[attr-defined]
        shown = (each for each in command.params if not getattr(each, "hidden", False))
        found[verb] = {name for each in shown for name in each.opts}
    return found


def test_no_two_verbs_spell_a_fact_differently() -> None:
    known = spelled()
    for fact, (word, places, others) in FACTS.items():
        for place in places:
            assert word in known[place], f"{fact}: {place} has no {word}"
        wrong = [
            (place, other)
            for place, options in known.items()
            for other in others
            if other in options and (place, other) not in OTHER
        ]
        assert not wrong, f"{fact} is called {word}"


def test_python_has_the_words_of_the_command_line() -> None:
    known = spelled()
    named = {"learning_rate": "--lr", "dense_learning_rate": "--dense-lr", "eval_every": "--eval"}
    for name in RunOptions.__dataclass_fields__:
        assert named.get(name, flag(name)) in known["train"]


def test_optimizers_have_one_name() -> None:
    from armillary.model.sharding import OPTIMIZERS

    assert set(OPTIMIZERS) < set(RunOptions.__annotations__ and _optimizers())


def _optimizers() -> tuple[str, ...]:
    from typing import get_args

    from armillary_train.settings import OptimizerName

    return get_args(OptimizerName)


OLD: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "npus_per_node": (
        {"sharding": "table_row", "npus_per_node": 4},
        {"sharding": "table_row", "ranks_per_node": 4},
    ),
    "pipelined": ({"pipelined": False}, {"pipeline": False}),
    "width": ({"width": 2}, {"precision": "bf16"}),
    "gradient_width": ({"gradient_width": 2}, {"gradient_precision": "fp16"}),
    "embedding_width": ({"embedding_width": 4}, {"table_precision": "fp32"}),
    "forward_width": ({"forward_width": 2}, {"messages": "forward=fp16,reduce-scatter=fp16"}),
    "backward_width": ({"backward_width": 4}, {"messages": "backward=fp32"}),
    "row-wise-adagrad": ({"optimizer": "row-wise-adagrad"}, {"optimizer": "rowwise_adagrad"}),
    "row_wise_adagrad": ({"optimizer": "row_wise_adagrad"}, {"optimizer": "rowwise_adagrad"}),
}


def words_of(family: str) -> Iterator[str]:
    for each in old_words.WORDS:
        if each.kind.startswith("model") and family in each.places:
            yield each.old


def test_every_old_word_of_dlrm_is_tried() -> None:
    assert set(words_of("dlrm")) == set(OLD)


@pytest.mark.parametrize("word", OLD)
@pytest.mark.parametrize("model", ["dlrm-neo-a", "dlrm-hoti"])
def test_an_old_option_of_a_model_gives_the_same_step(word: str, model: str) -> None:
    old, new = OLD[word]
    with pytest.warns(DeprecationWarning, match=f"{word}.* is now called"):
        before = arm.workload.dlrm(model, dp=8, passes=2, **old)
    after = arm.workload.dlrm(model, dp=8, passes=2, **new)
    assert _step(before) == _step(after)


def _step(workload: arm.Workload) -> tuple[str, float]:
    found = arm.simulate(workload, arm.Platform.load("dgx-h100", npus=8))
    return found.report["digest"], found.step_time_ns


@pytest.mark.parametrize("sharding", ["table", "row", "table_row"])
def test_both_old_widths_of_messages_are_one_option(sharding: str) -> None:
    given = {"dp": 8, "sharding": sharding}
    with pytest.warns(DeprecationWarning):
        old = arm.workload.dlrm("dlrm-neo-a", forward_width=2, backward_width=4, **given)
    text = "forward=fp16,backward=fp32,reduce-scatter=fp16"
    assert _step(old) == _step(arm.workload.dlrm("dlrm-neo-a", messages=text, **given))


MODEL = """
family: dlrm
dense_features: 4
bottom: [8, 4]
top: [8, 1]
interaction: {kind: dot}
tables: [{count: 2, rows: 1000, dim: 4, pooling: 2}]
"""
OLD_KEYS = "width: 2\ngradient_width: 4\nembedding_width: 2\n"
KEYS = "precision: fp16\ngradient_precision: fp32\ntable_precision: fp16\n"


def test_old_keys_of_a_model_file_give_the_same_step(tmp_path: Path) -> None:
    steps, noted = [], []
    for name, keys in (("old", OLD_KEYS), ("new", KEYS)):
        path = tmp_path / name / "m.yml"
        path.parent.mkdir()
        path.write_text(MODEL + keys)
        steps.append(_step(arm.workload.dlrm(str(path), dp=8)))
        noted.append(arm.workload.load_model(str(path)).notes)
    assert steps[0] == steps[1]
    assert [len(each) for each in noted] == [3, 0]
    assert "width is now called precision" in noted[0][0]
    path.write_text(MODEL + "width: 3\n")
    with pytest.raises(InputError, match="no format has 3 bytes"):
        arm.workload.dlrm(str(path), dp=8)


def test_old_keys_of_a_model_in_python_warn() -> None:
    fields = documents.parse_yaml(MODEL + OLD_KEYS, "m.yml", "a model").value
    fields.pop("family")
    with pytest.warns(DeprecationWarning, match="is now called"):
        arm.workload.dlrm(Model("m", "dlrm", fields), dp=8)


def test_migrate_names_keys_and_options_of_today(tmp_path: Path, armillary: Armillary) -> None:
    path = tmp_path / "m.yml"
    path.write_text(MODEL + OLD_KEYS)
    done = armillary("migrate", str(path), "-o", "-")
    assert (done.returncode, done.stdout) == (0, MODEL + KEYS), done.stderr


def test_a_width_that_no_format_has_is_refused() -> None:
    with pytest.raises(InputError, match="no format has 3 bytes"):
        arm.workload.dlrm("dlrm-neo-a", dp=8, width=3)
    with pytest.raises(InputError, match="int8 and fp8 also send a scale"):
        arm.workload.dlrm("dlrm-neo-a", dp=8, forward_width=1)
    with (
        pytest.warns(DeprecationWarning),
        pytest.raises(InputError, match="'forward' is named twice"),
    ):
        arm.workload.dlrm("dlrm-neo-a", dp=8, forward_width=2, messages="forward=fp32")


def test_old_words_of_convolutional_networks() -> None:
    assert set(words_of("cnn")) == {"width", "gradient_width"}
    with pytest.warns(DeprecationWarning):
        old = arm.workload.cnn(dp=8, width=2, gradient_width=2)
    new = arm.workload.cnn(dp=8, precision="fp16", gradient_precision="bf16")
    assert _step(old) == _step(new)


def test_old_words_of_parameter_servers() -> None:
    assert set(words_of("parameter_servers")) == {"batch", "width", "embedding_width"}
    given = {"trainers": 2, "servers": 2, "steps": 2, "sync_every": 2}
    with pytest.warns(DeprecationWarning):
        old = parameter_servers("dlrm-small", batch=64, width=2, embedding_width=2, **given)
    new = parameter_servers(
        "dlrm-small", local_batch=64, precision="fp16", table_precision="fp16", **given
    )
    ranks = ServerOptions(trainers=2, servers=2).ranks
    platform = arm.Platform.load("dgx-h100", npus=ranks)
    assert (
        arm.simulate(old, platform).report["digest"] == arm.simulate(new, platform).report["digest"]
    )


def test_old_words_of_plans_and_rooflines() -> None:
    given: dict[str, Any] = {"simulate": False}
    with pytest.warns(DeprecationWarning):
        old = arm.plan("dlrm-small", "dgx-a100", embedding_width=2, forward_width=2, **given)
    text = "forward=fp16,reduce-scatter=fp16"
    new = arm.plan("dlrm-small", "dgx-a100", table_precision="fp16", messages=text, **given)
    assert old.to_dict() == new.to_dict()
    with pytest.warns(DeprecationWarning, match="width is now called precision"):
        parts = roofline("dlrm-small", "dgx-a100", dp=8, width=2)
    assert parts == roofline("dlrm-small", "dgx-a100", dp=8, precision="bf16")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["--embedding-width", "2"], ["--table-precision", "bf16"]),
        (
            ["--message-width", "2"],
            ["--messages", "forward=fp16,backward=fp16,reduce-scatter=fp16"],
        ),
        (["--optimizer", "row-wise-adagrad"], ["--optimizer", "rowwise_adagrad"]),
        (["--optimizer=row_wise_adagrad"], []),
    ],
)
def test_old_options_of_plan(armillary: Armillary, old: list[str], new: list[str]) -> None:
    words = ["plan", "dlrm-small", "-p", "dgx-a100", "--no-simulate", "--json", "-"]
    one, other = armillary(*words, *old), armillary(*words, *new)
    assert (one.returncode, other.returncode) == (0, 0), one.stderr + other.stderr
    before, after = (json.loads(each.stdout) for each in (one, other))
    assert "is now called" in one.stderr
    before.pop("warnings", None), after.pop("warnings", None)
    assert before == after


def test_old_options_of_a_model_on_the_command_line(armillary: Armillary) -> None:
    words = ["run", "dlrm-neo-a", "--dp", "8", "-p", "dgx-a100", "--json", "-"]
    old = ["--npus-per-node", "4", "--no-pipelined", "--width", "2", "--forward-width", "2"]
    new = ["--ranks-per-node", "4", "--no-pipeline", "--precision", "fp16"]
    new += ["--messages", "forward=fp16,reduce-scatter=fp16"]
    one, other = armillary(*words, *old), armillary(*words, *new)
    assert (one.returncode, other.returncode) == (0, 0), one.stderr + other.stderr
    assert json.loads(one.stdout)["digest"] == json.loads(other.stdout)["digest"]
    for word in ("npus_per_node", "pipelined", "width", "forward_width"):
        assert any(f"{word} is now called" in each for each in json.loads(one.stdout)["warnings"])


@pytest.mark.parametrize(
    ("given", "count"),
    [(0, 0), (64, 64), ("64K", 65536), ("64 KiB", 65536), ("20 GB", 20 * 10**9), ("1.5 kB", 1500)],
)
def test_sizes_have_units_or_none(given: str | int, count: int) -> None:
    assert byte_count(given, "cache") == count


@pytest.mark.parametrize("given", [-1, "1.5", "2 seconds", "1.5 B", "much", ""])
def test_what_is_no_size_is_refused(given: str | int) -> None:
    with pytest.raises(InputError, match="cache: invalid size"):
        byte_count(given, "cache")


def test_a_size_with_a_unit_is_that_of_its_bytes() -> None:
    given: dict[str, Any] = {"dp": 8, "tier": "host"}
    platform = arm.Platform.load("dgx-h100", {"npus": "8", "remote_memory.bandwidth": "64 GB/s"})
    one, other, larger = (
        arm.simulate(arm.workload.dlrm("dlrm-small", cache=size, capacity=most, **given), platform)
        for size, most in (("20 kB", "2 MB"), (20 * 10**3, 2 * 10**6), ("30 kB", "2 MB"))
    )
    assert one.step_time_ns == other.step_time_ns > larger.step_time_ns
