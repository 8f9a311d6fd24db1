"""Profiles of XLA that are damaged, or that do not say enough; and choices between files."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import profiled_tpu
import pytest
from conftest import ROOT, Armillary
from profiled_tpu import US, Job
from xspace_writer import XPlane, chunk, number, space, varint, with_module

from armillary.errors import InputError
from armillary.workload.importer import Imported, import_traces

DATA = ROOT / "tests/python/data/xplane"
KIB = 1024
TPU = "/device:TPU:0"
NONE, INSIDE = "without an operation", "ends inside a field"


def refused(*paths: Path, **options: object) -> list[str]:
    with pytest.raises(InputError) as caught:
        import_traces([*paths], **options)  # type: ignore[arg-type]
    assert all(each.help for each in caught.value.problems)
    return [each.message for each in caught.value.problems]


def tpu(*events: tuple[str, int, int], name: str = TPU, row: str = "XLA Ops") -> XPlane:
    plane = XPlane(name)
    ops = plane.line(row)
    for title, start, end in events:
        ops.add(title, start * US, end * US)
    return plane


def python_only() -> bytes:
    plane = XPlane("/host:CPU")
    plane.line("python").add("$train.py:1 step", 0, US)
    return space([plane])


def raw_plane(body: bytes) -> bytes:
    return chunk(1, chunk(2, "/device:TPU:0") + body)


def line(*events: bytes) -> bytes:
    return chunk(3, chunk(2, "XLA Ops") + b"".join(chunk(4, each) for each in events))


BAD: dict[str, tuple[Callable[[], bytes], str]] = {
    "no plane but modules": (lambda: space([XPlane("/host:metadata")]), "of a host alone"),
    "host alone": (python_only, "of a host alone (/host:CPU)"),
    "device without operations": (lambda: space([XPlane("/device:TPU:0")]), NONE),
    "derived lines alone": (lambda: space([tpu(("a", 0, 1), row="Steps")]), NONE),
    "another device": (lambda: space([tpu(("a", 0, 1), name="/device:X:0")]), "/device:X:0"),
    "one device twice": (lambda: space([tpu(("a", 0, 1))] * 2), "two planes of TPU 0"),
    "GPUs and TPUs": (
        lambda: space([tpu(("a", 0, 1)), tpu(("b", 0, 1), name="/device:GPU:0", row="Stream #1")]),
        "several kinds of devices: GPU, TPU",
    ),
    "far apart": (lambda: space([tpu(("a", 0, 1), ("b", 10**13, 10**13 + 1))]), "are spread over"),
    "a plane that is cut": (lambda: profiled_tpu.small()[:300], INSIDE),
    "an event that is cut": (lambda: raw_plane(line(b"\x08\x01\x10")), "ends inside a number"),
    "a long number": (lambda: raw_plane(line(b"\x08\x01\x10" + b"\xff" * 11)), "10 bytes"),
    "an unknown kind": (lambda: raw_plane(line(b"\x08\x01\x13")), "field of an unknown kind"),
    "a value that is cut": (lambda: raw_plane(line(b"\x08\x01\x22\x7f\x08")), INSIDE),
    "a name that is a number": (lambda: raw_plane(number(5, 7)), "has a number in field 5"),
    "times beyond all": (
        lambda: raw_plane(line(number(1, 1) + number(2, 2**62) + number(3, 2**63 - 1))),
        NONE,
    ),
    "sums of events": (lambda: raw_plane(line(number(1, 1) + number(5, 3))), NONE),
}  # fmt: skip


@pytest.mark.parametrize("kind", [*BAD])
def test_bad_profiles(kind: str, tmp_path: Path) -> None:
    make, said = BAD[kind]
    path = tmp_path / "a.xplane.pb"
    path.write_bytes(make())
    assert said in refused(path)[0]


@pytest.mark.parametrize("packed", [False, True])
def test_every_cut_is_a_named_error(packed: bool, tmp_path: Path) -> None:
    whole = profiled_tpu.small()
    path = tmp_path / "a.xplane.pb"
    for at in range(25, len(whole) - 10, 61):
        path.write_bytes(gzip.compress(whole[:at]) if packed else whole[:at])
        try:
            import_traces([path])
        except InputError as error:
            assert error.problems[0].help


def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plane = XPlane("/device:TPU:0")
    ops = plane.line("XLA Ops")
    for place in range(3000):
        ops.add("fusion.1", place * US, place * US + 1)
    path = tmp_path / "a.xplane.pb"
    path.write_bytes(space([plane]))
    monkeypatch.setenv("ARMILLARY_MEMORY", "1 MiB")
    assert "more events than this machine's memory" in refused(path)[0]


def test_modules_that_are_damaged_are_named(tmp_path: Path) -> None:
    """The profile is read without them."""
    path = tmp_path / "a.xplane.pb"
    module = with_module("jit_f", 3, b"\n\x04jit_\x12\x01a\x1a\x02\xff\xff")
    plane = tpu(("all-reduce.1", 0, 5))
    plane.line("XLA Modules").add("jit_f(3)", 0, 5 * US)
    path.write_bytes(space([module, plane]))
    imported = import_traces([path])
    assert any("a module can't be read: jit_f(3)" in note for note in imported.notes)
    bad = tmp_path / "module.txt"
    bad.write_text("HloModule jit_f, num_partitions=2\n\nENTRY %main () -> f32[8] {\n  %a = q[")
    assert refused(path, bad)


def test_text_that_is_packed_without_end(tmp_path: Path) -> None:
    """A name that unpacks to 64 MiB is read as far as names are."""
    packed = gzip.compress(b"a" * (64 << 20))
    stat = number(1, 1) + chunk(8, packed)
    event = number(1, 1) + number(2, 5) + number(3, 7) + chunk(4, stat)
    names = chunk(5, number(1, 1) + chunk(2, number(1, 1) + chunk(2, "tf_op")))
    path = tmp_path / "a.xplane.pb"
    path.write_bytes(raw_plane(line(event) + names))
    assert import_traces([path]).ranks[0].step_ops == 1


def partial(tmp_path: Path, names: list[str], groups: str) -> Imported:
    planes = []
    for place in range(2):
        plane = XPlane(f"/device:TPU:{place}")
        ops, modules = plane.line("XLA Ops"), plane.line("XLA Modules")
        modules.add("jit_f(9)", 0, 100 * US)
        for at, name in enumerate(names):
            ops.add(name, at * 10 * US, (at * 10 + 8) * US)
        planes.append(plane)
    path = tmp_path / "a.xplane.pb"
    path.write_bytes(space(planes))
    module = tmp_path / "module.txt"
    module.write_text(
        "HloModule jit_f, is_scheduled=true, num_partitions=8\n\n"
        "ENTRY %main (a: f32[256]) -> f32[256] {\n  %a = f32[256]{0} parameter(0)\n"
        "  %fusion.1 = f32[256]{0} add(%a, %a)\n"
        f"  ROOT %all-reduce.2 = f32[256]{{0}} all-reduce(%a), channel_id=1, "
        f"replica_groups={groups}, use_global_device_ids=true\n}}"
    )
    return import_traces([path, module])


def test_one_host_of_several(tmp_path: Path) -> None:
    """The module is for eight devices; two of them are in the profile."""
    imported = partial(tmp_path, ["fusion.1", "all-reduce.2"], "{{0,1,2,3,4,5,6,7}}")
    assert imported.workload.ranks == 8
    assert len(imported.ranks) == 2
    assert any("the modules are for 8 devices" in note for note in imported.notes)
    [volume] = imported.workload.summary.classes[0].volumes  # type: ignore[union-attr]
    assert (volume.kind, volume.bytes) == ("all_reduce", KIB)


def test_a_group_of_one_moves_nothing(tmp_path: Path) -> None:
    listed = ",".join(f"{{{rank}}}" for rank in range(8))
    imported = partial(tmp_path, ["fusion.1", "all-reduce.2"], f"{{{listed}}}")
    for row in imported.ranks:
        assert (row.collectives, row.replayed_ps) == (0, row.recorded_ps)


def test_a_done_without_its_start_is_an_operation(tmp_path: Path) -> None:
    """The profile begins in the middle of a step."""
    path = tmp_path / "a.xplane.pb"
    path.write_bytes(space([tpu(("all-gather-done.2", 0, 5), ("fusion.3", 6, 9))]))
    [row] = import_traces([path]).ranks
    assert (row.step_ops, row.collectives) == (2, 0)
    assert row.replayed_ps == row.recorded_ps == 9 * US


def test_cores_that_are_not_read_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.xplane.pb"
    other = tpu(("b", 0, 1), name="/device:TPU:0 SparseCore 1")
    path.write_bytes(space([tpu(("a", 0, 1)), other]))
    notes = import_traces([path]).notes
    assert any("SparseCore" in note for note in notes)


def test_two_profiles_of_one_host(tmp_path: Path) -> None:
    environment = XPlane("Task Environment", stats={"profile_start_time": 1_700_000_000 * 10**9})
    data = space([tpu(("a", 0, 1)), environment], "host")
    for name in ("one.xplane.pb", "two.xplane.pb"):
        (tmp_path / name).write_bytes(data)
    assert "the profile of the same host" in refused(tmp_path)[0]


def test_folders_of_jax(tmp_path: Path) -> None:
    """Only profiles are read of a folder with them; TensorBoard keeps tables there."""
    run = tmp_path / "plugins/profile/2026_11_30"
    run.mkdir(parents=True)
    shutil.copy(DATA / "cpu_8.xplane.pb.gz", run / "host.xplane.pb.gz")
    shutil.copy(DATA / "cpu_8.trace.json.gz", run / "host.trace.json.gz")
    (run / "ALL_HOSTS.op_stats.pb").write_bytes(b"\x01\x02\x00\x03")
    (tmp_path / "events.out.tfevents.1").write_bytes(b"\x00\x01")
    assert import_traces([tmp_path]).workload.ranks == 8
    shutil.copytree(run, run.with_name("2026_12_01"))
    assert "has 2 profiles" in refused(tmp_path)[0]


def test_profiles_stand_alone(tmp_path: Path) -> None:
    other = tmp_path / "kineto.json"
    event = {"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 2, "pid": 1, "tid": 1}
    other.write_text(json.dumps({"traceEvents": [event]}))
    assert "next to other recordings" in refused(DATA / "cpu_8.xplane.pb.gz", other)[0]


def test_a_step_that_is_not_there() -> None:
    assert "it has 0 1 2 3" in refused(DATA / "cpu_8.xplane.pb.gz", step=7)[0]
    assert {row.step for row in import_traces([DATA / "cpu_8.xplane.pb.gz"], step=3).ranks} == {3}


@pytest.mark.parametrize("seed", range(3))
def test_an_import_is_the_same_each_time(seed: int, tmp_path: Path) -> None:
    paths = Job(seed).write(tmp_path)
    first, second = import_traces(paths), import_traces(paths[::-1])
    assert first.as_dict()["total"] == second.as_dict()["total"]
    assert first.workload.summary == second.workload.summary


def test_numbers_of_several_bytes(tmp_path: Path) -> None:
    """The number of a plane may have ten bytes."""
    path = tmp_path / "a.xplane.pb"
    plane = tpu(("a", 0, 1)).encoded(0)
    path.write_bytes(chunk(1, number(1, -5) + plane[2:]))
    assert plane[:2] == varint(8) + varint(0)
    assert import_traces([path]).ranks[0].step_ops == 1


def test_on_the_command_line(armillary: Armillary, tmp_path: Path) -> None:
    ran = armillary("import", str(DATA / "cpu_8.xplane.pb.gz"), "-o", str(tmp_path / "job"))
    assert ran.returncode == 0
    assert "profile of XLA: 8 CPUs on 1 host" in ran.stdout + ran.stderr
    ran = armillary("check", str(DATA / "mi300_8.xplane.pb.gz"))
    assert ran.returncode == 0
    assert "no problem found" in ran.stdout


@pytest.mark.parametrize("devices", [1, 2])
def test_starts_are_found_by_order_without_names(devices: int, tmp_path: Path) -> None:
    """The done of a profile without modules and texts belongs to the first start of its kind. A
    device alone exchanges nothing."""
    path = tmp_path / "a.xplane.pb"
    events = [("all-gather-start.1", 0, 1), ("all-gather-start.5", 2, 3), ("fusion.1", 3, 9)]
    events += [("all-gather-done.7", 9, 12), ("fusion.2", 12, 13), ("all-gather-done.9", 14, 20)]
    planes = [tpu(*events, name=f"/device:TPU:{place}") for place in range(devices)]
    path.write_bytes(space(planes))
    for row in import_traces([path]).ranks:
        assert (row.collectives, row.sized) == (2 if devices > 1 else 0, 0)
        assert row.replayed_ps == row.recorded_ps == 20 * US
