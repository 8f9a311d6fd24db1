"""A timeline decoded by Perfetto's own protobuf classes, its file, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import et
import pytest
import toy
from conftest import Armillary

import armillary as arm


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., arm.Result]:
    platform = arm.Platform.load(str(toy.platform(tmp_path)))
    workload = arm.load(toy.traces(tmp_path), platform)
    return lambda **options: arm.simulate(
        workload, platform, timeline=tmp_path / "t.pftrace", **options
    )


def decoded(path: Path) -> Any:  # noqa: ANN401
    schema = pytest.importorskip(
        "perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="perfetto is not installed"
    )
    trace = schema.Trace()
    trace.ParseFromString(path.read_bytes())
    return trace


def test_every_byte_is_in_the_schema(run: Callable[..., arm.Result], tmp_path: Path) -> None:
    run(fold=False)
    trace = decoded(tmp_path / "t.pftrace")
    assert len(trace.packet) > 100
    trace.DiscardUnknownFields()
    assert trace.ByteSize() == (tmp_path / "t.pftrace").stat().st_size


def test_what_begins_on_a_track_ends_there(run: Callable[..., arm.Result], tmp_path: Path) -> None:
    result = run(fold=False)
    depth: dict[int, int] = {}
    last = 0
    for packet in decoded(tmp_path / "t.pftrace").packet:
        if packet.HasField("track_event"):
            event = packet.track_event
            depth[event.track_uuid] = depth.get(event.track_uuid, 0) + {1: 1, 2: -1}.get(
                event.type, 0
            )
            assert depth[event.track_uuid] in (0, 1)
            last = max(last, packet.timestamp)
    assert set(depth.values()) == {0}
    assert last == int(result.step_time_ns)


def test_classes_are_groups(run: Callable[..., arm.Result], tmp_path: Path) -> None:
    result = run()
    descriptors = [
        p.track_descriptor
        for p in decoded(tmp_path / "t.pftrace").packet
        if p.HasField("track_descriptor")
    ]
    top = [d for d in descriptors if not d.HasField("parent_uuid")]
    assert top[0].name == "all NPUs"
    assert all(one.sibling_order_rank < other.sibling_order_rank for one, other in pairwise(top))
    assert result.timeline is not None
    assert result.timeline["shown"] == result.cost["simulated_ranks"] == len(top) - 1


def test_same_input_same_bytes(run: Callable[..., arm.Result], tmp_path: Path) -> None:
    run(ranks=[5, 1])
    first = (tmp_path / "t.pftrace").read_bytes()
    run(ranks=[1, 5])
    assert (tmp_path / "t.pftrace").read_bytes() == first


def test_the_result_is_that_without_a_timeline(
    run: Callable[..., arm.Result], tmp_path: Path
) -> None:
    platform = arm.Platform.load(str(toy.platform(tmp_path)))
    plain = arm.simulate(arm.load(toy.traces(tmp_path), platform), platform)
    assert plain.to_json() == run().to_json()
    assert plain.timeline is None


def test_refuses_ranks_that_there_are_not(run: Callable[..., arm.Result], tmp_path: Path) -> None:
    with pytest.raises(arm.InputError) as caught:
        run(ranks=[8, 0, -1])
    assert [(p.message, p.help) for p in caught.value.problems] == [
        ("rank 8 does not exist", "0 to 7"),
        ("rank -1 does not exist", "0 to 7"),
    ]
    assert not (tmp_path / "t.pftrace").exists()


def test_refuses_ranks_without_a_timeline(tmp_path: Path) -> None:
    platform = arm.Platform.load(str(toy.platform(tmp_path)))
    with pytest.raises(arm.InputError, match="only a timeline shows ranks"):
        arm.simulate(arm.load(toy.traces(tmp_path), platform), platform, ranks=[0])


def test_a_stalled_run_leaves_no_timeline(tmp_path: Path) -> None:
    head_to_head = [
        [et.receive(0, peer, rank, 64), et.send(1, rank, peer, 64, [0])]
        for rank, peer in ((0, 1), (1, 0))
    ]
    platform = arm.Platform("Ring(2)", bandwidth="1 GB/s", latency="0 ns")
    workload = arm.load(et.write(tmp_path / "circle", head_to_head), platform)
    with pytest.raises(arm.StalledError):
        arm.simulate(workload, platform, timeline=tmp_path / "t.pftrace")
    assert [path.name for path in tmp_path.iterdir()] == ["circle"]


def test_an_interrupted_run_leaves_no_timeline(tmp_path: Path) -> None:
    settings = {"scheduler.chunks": 4096}
    platform = arm.Platform("R(16)_R(16)", bandwidth="50 GB/s", latency="500 ns", settings=settings)
    program = arm.workload.Program()
    program.collective("sum", [], "all_reduce", 1 << 24)
    workload = arm.workload.Workload.listed("sum", [program], [0] * 256, {})

    def stop(_share: float, _now: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        arm.simulate(workload, platform, fold=False, timeline=tmp_path / "t.pftrace", progress=stop)
    assert list(tmp_path.iterdir()) == []


def test_the_command_line(armillary: Armillary, tmp_path: Path) -> None:
    command = ["run", toy.traces(tmp_path), "-p", toy.platform(tmp_path), "--no-fold"]
    done = armillary(*command, "--timeline", "t.pftrace", "--ranks", "0,6-7")
    assert (done.returncode, (tmp_path / "t.pftrace").exists()) == (0, True)
    assert "t.pftrace, 3 of 8 simulated ranks" in done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--timeline", "no/such/t.pftrace"], "can't be written: No such file or directory"),
        (["--timeline", "/dev/full"], "can't be written: No space left on device"),
        (["--timeline", "t.pftrace", "--ranks", "0,8,x,3-1"], 'invalid ranks: "8"'),
        (["--timeline", "t.pftrace", "--ranks", "0,8,x,3-1"], "3 problems"),
        (["--ranks", "0"], "only a timeline shows ranks"),
    ],
)
def test_the_command_line_refuses(
    armillary: Armillary, tmp_path: Path, options: list[str], said: str
) -> None:
    done = armillary("run", toy.traces(tmp_path), "-p", toy.platform(tmp_path), *options)
    assert done.returncode == 2
    assert said in done.stderr
    assert not (tmp_path / "t.pftrace").exists()
