"""Devices of collectives: tables and meshes against numpy, modes, and ranks as a mesh."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hlo_text import REDUCED, module, parsed, taken
from thorough import usually

import armillary as arm
from armillary.workload.xla import devices, ranks
from armillary.workload.xla.module import Groups
from armillary.workload.xla.steps import Exchange, Permute, read

SIZES = ((2, 4), (4, 2, 2), (3, 2, 4), (8,), (2, 3, 5))


def rows(table: np.ndarray, width: int) -> Groups:
    """The rows of a table of devices."""
    return tuple(tuple(int(each) for each in row) for row in table.reshape(-1, width))


def test_drawn_tables_of_devices_are_those_of_numpy() -> None:
    chance = random.Random(5)
    for _ in range(usually(60, 2000)):
        sizes = chance.choice(SIZES)
        order = chance.sample(range(len(sizes)), len(sizes))
        count = math.prod(sizes)
        width = chance.choice([each for each in range(1, count + 1) if count % each == 0])
        table = np.arange(count).reshape(sizes).transpose(order)
        words = [",".join(map(str, each)) for each in ((count // width, width), sizes, order)]
        text = f"[{words[0]}]<=[{words[1]}]T({words[2]})"
        assert devices.parse(text, "") == rows(table, width)
        if order == sorted(order):
            assert devices.parse(text.split("T", maxsplit=1)[0], "") == rows(table, width)


def test_drawn_meshes_of_devices_are_those_of_numpy() -> None:
    chance = random.Random(6)
    for _ in range(usually(60, 2000)):
        sizes = chance.choice(SIZES)
        chosen = chance.sample(range(len(sizes)), chance.randint(1, len(sizes)))
        rest = [axis for axis in range(len(sizes)) if axis not in chosen]
        table = np.arange(math.prod(sizes)).reshape(sizes).transpose([*rest, *chosen])
        axes = ",".join(f"'axis_{axis}'={size}" for axis, size in enumerate(sizes))
        names = ",".join(f"'axis_{axis}'" for axis in chosen)
        width = math.prod(sizes[axis] for axis in chosen)
        assert devices.parse(f"mesh[{axes}] {{{names}}}", "") == rows(table, width)


def test_a_part_of_an_axis_is_a_group() -> None:
    table = np.arange(16).reshape(2, 2, 4).transpose(0, 2, 1)
    assert devices.parse("mesh['a'=4,'b'=4] {'a':(2)2}", "") == rows(table, 2)
    table = np.arange(16).reshape(2, 2, 4).transpose(1, 2, 0)
    assert devices.parse("mesh['a'=4,'b'=4] {'a':(1)2}", "") == rows(table, 2)


@pytest.mark.parametrize(
    ("said", "groups"),
    [
        (f"{REDUCED}, replica_groups={{{{0,1}}}}", "03 14 25"),
        (f"{REDUCED}, replica_groups={{}}", "03 14 25"),
        (f"{REDUCED}, replica_groups={{{{0}},{{1}}}}, channel_id=1", "012 345"),
        (f"{REDUCED}, replica_groups={{{{0,1}}}}, channel_id=1", "012345"),
        (
            f"{REDUCED}, replica_groups={{{{0,4}},{{1,5}},{{2,3}}}}, channel_id=1, "
            "use_global_device_ids=true",
            "04 15 23",
        ),
        ("f32[64]{0} all-to-all(%p), channel_id=1, replica_groups={{0,2,1}}", "021 354"),
        ("f32[64]{0} all-to-all(%p), replica_groups={{1,0}}", "30 41 52"),
    ],
)
def test_numbers_of_devices_follow_the_mode(said: str, groups: str) -> None:
    """Two replicas of three partitions: rank 3 is partition 0 of replica 1."""
    text = module(f"%p = f32[64]{{0}} parameter(0)\n%a = {said}", REPLICAS)
    made = parsed(text)
    assert made.entry is not None
    found = read(made, made.entry, {})
    wanted = tuple(tuple(map(int, group)) for group in groups.split())
    assert set(found.families[0]) == set(wanted)
    [step] = found.steps
    assert isinstance(step, Exchange)
    assert step.bytes == 256
    assert taken(text).workload.ranks == 6


REPLICAS = ", replica_count=2, num_partitions=3"


def test_messages_follow_the_mode() -> None:
    said = "f32[64]{0} collective-permute(%p), source_target_pairs={{0,1},{1,0}}"
    for channel, pairs in (("", {(0, 3), (3, 0), (1, 4), (4, 1), (2, 5), (5, 2)}),
                           (", channel_id=3", {(0, 1), (1, 0), (3, 4), (4, 3)})):  # fmt: skip
        made = parsed(module(f"%p = f32[64]{{0}} parameter(0)\n%a = {said}{channel}", REPLICAS))
        assert made.entry is not None
        found = read(made, made.entry, {})
        assert isinstance(found.steps[0], Permute)
        assert set(found.pairs[0]) == pairs


def test_a_mesh_and_a_list_of_ranks_take_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(7)
    for _ in range(usually(3, 40)):
        sizes = chance.choice([(2, 4), (4, 2), (2, 2, 2)])
        axes = ",".join(f"'{axis}'={size}" for axis, size in enumerate(sizes))
        lines = ["%p = f32[4096]{0} parameter(0)"]
        for number in range(5):
            chosen = chance.sample(range(len(sizes)), chance.randint(1, len(sizes)))
            names = ",".join(f"'{axis}'" for axis in chosen)
            kind = chance.choice(["all-reduce", "all-to-all"])
            end = ", to_apply=%add, use_global_device_ids=true" if kind == "all-reduce" else ""
            before = "%p" if not number else f"%c.{number - 1}"
            lines.append(
                f"%c.{number} = f32[4096]{{0}} {kind}({before}), channel_id=1, "
                f"replica_groups=mesh[{axes}] {{{names}}}{end}"
            )
        shift = ",".join(f"{{{rank},{rank ^ 1}}}" for rank in range(8))
        lines.append(
            "%m = f32[4096]{0} collective-permute(%c.4), channel_id=2, "
            f"source_target_pairs={{{shift}}}"
        )
        text = module("\n".join(lines), ", num_partitions=8")
        with monkeypatch.context() as patch:
            mesh = taken(text).workload
            patch.setattr(ranks, "mesh", lambda _families, _ranks: None)
            listed = taken(text).workload
        times = [
            arm.simulate(each, "dgx-h100", npus=8, backend="link").step_time_ns
            for each in (mesh, listed)
        ]
        assert times[0] == times[1] > 0
