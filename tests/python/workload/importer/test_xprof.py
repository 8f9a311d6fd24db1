"""Profiles of XLA: drawn runs on TPUs and GPUs against models of their own, and real ones."""

from __future__ import annotations

import gzip
import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from peer_records import answers
from profiled_gpu import Job as GpuJob
from profiled_tpu import Job
from thorough import usually
from xspace_writer import as_trace

import armillary as arm
from armillary.workload.importer import Imported, import_traces, xspace

PROFILES: dict[str, Any] = answers("jax")["profiles"]
DATA = ROOT / "tests/python/data/xplane"


def step_ns(imported: Imported) -> float:
    """The step on a network without any time of its own."""
    ranks = imported.workload.ranks
    platform = arm.Platform(f"Switch({ranks})", bandwidth="1000000 TB/s", latency="0 ns")
    return arm.simulate(imported.workload, platform).step_time_ns


def volumes(imported: Imported, rank: int) -> Counter[tuple[int, str]]:
    """Bytes of each kind in groups of each size."""
    summary = imported.workload.summary
    assert summary is not None
    found = Counter[tuple[int, str]]()
    for each in summary.classes[rank].volumes:
        size = len(each.group.split("-")) if each.group else imported.workload.ranks
        found[size, each.kind] += each.bytes
    return found


@pytest.mark.parametrize("seed", range(usually(30, 400)))
def test_drawn_runs_of_tpus(seed: int, tmp_path: Path) -> None:
    """The replay takes as long as the recorded step. Without communication the step takes the
    longest path, which the drawn run knows from its own gaps and lengths."""
    job = Job(seed)
    imported = import_traces(job.write(tmp_path))
    assert imported.workload.ranks == job.world
    assert [row.rank for row in imported.ranks] == [*range(job.world)]
    number = imported.ranks[0].step - (job.first if job.marks else 0)
    for row in imported.ranks:
        if job.marks or number < job.steps - 1:
            assert row.recorded_ps == job.spans[number][row.rank]
        assert row.replayed_ps == pytest.approx(row.recorded_ps, rel=1e-6)
        assert (row.dropped, row.sized_share, row.messages) == (0, 1, 0)
        assert volumes(imported, row.rank) == job.volumes(row.rank)
    if job.marks:
        free = max(job.step(number, [0] * job.world))
        assert step_ns(imported) == pytest.approx(free / 1e3, rel=0.01)


@pytest.mark.parametrize("seed", range(usually(24, 400)))
def test_drawn_runs_of_gpus(seed: int, tmp_path: Path) -> None:
    """The same for GPUs, whose kernels are launched by threads of the host."""
    job = GpuJob(seed)
    imported = import_traces(job.write(tmp_path))
    assert imported.workload.ranks == job.world
    number = imported.ranks[0].step - job.first
    for row in imported.ranks:
        assert row.recorded_ps == job.spans[number][row.rank]
        assert row.replayed_ps == pytest.approx(row.recorded_ps, rel=0.01)
        assert (row.dropped, row.launch_share, row.sized_share) == (0, 1, 1)
        assert volumes(imported, row.rank) == job.volumes(row.rank)
    free = max(job.step(number, [0] * job.world, is_free=True))
    assert step_ns(imported) == pytest.approx(free / 1e3, rel=0.01)


@pytest.mark.parametrize("seed", range(usually(8, 100)))
@pytest.mark.parametrize("kind", [Job, GpuJob])
def test_the_json_of_a_profile_says_the_same(
    kind: type[Job | GpuJob], seed: int, tmp_path: Path
) -> None:
    job = kind(seed)
    if isinstance(job, Job):
        job.hosts = 1
    whole = import_traces(paths := job.write(tmp_path))
    document = tmp_path / "host.trace.json"
    document.write_bytes(as_trace(job.planes))
    other = import_traces([document, *paths[1:]])
    for row, same in zip(whole.ranks, other.ranks, strict=True):
        assert (row.step, row.sized, row.messages) == (same.step, same.sized, same.messages)
        assert same.recorded_ps == pytest.approx(row.recorded_ps, abs=2000)
        assert same.replayed_ps == pytest.approx(same.recorded_ps, rel=0.01)
        assert volumes(other, row.rank) == volumes(whole, row.rank)


def module_of_cpu(folder: Path) -> Path:
    """The module in the profile of CPUs, as a file of its own."""
    space = xspace.read(gzip.decompress((DATA / "cpu_8.xplane.pb.gz").read_bytes()))
    found = {name: data for plane in space.planes for name, _, data in plane.modules}
    path = folder / "module.hlo.pb"
    [path_data] = [data for name, data in found.items() if name.startswith("jit_train_step(")]
    path.write_bytes(path_data)
    return path


def test_json_with_the_module_gives_what_the_profile_gives(tmp_path: Path) -> None:
    """JAX writes both of one run. The mesh is 2 x 4: activations are reduced over four ranks,
    gradients over two."""
    whole = import_traces([DATA / "cpu_8.xplane.pb.gz"])
    other = import_traces([DATA / "cpu_8.trace.json.gz", module_of_cpu(tmp_path)])
    assert whole.workload.ranks == other.workload.ranks == 8
    for row, same in zip(whole.ranks, other.ranks, strict=True):
        assert row.recorded_ps == same.recorded_ps
        assert row.step_ps == pytest.approx(same.step_ps, abs=1000)
        assert row.replayed_ps == pytest.approx(row.recorded_ps, rel=1e-6)
        assert (row.step, row.collectives, row.sized) == (same.step, same.collectives, same.sized)
        sizes = {(4, "all_reduce"): 32 * 512 * 4, (2, "all_reduce"): 2 * 512 * 256 * 4}
        assert volumes(whole, row.rank) == volumes(other, row.rank) == sizes
    both = import_traces([DATA / "cpu_8.xplane.pb.gz", DATA / "cpu_8.trace.json.gz"])
    assert both.ranks == whole.ranks


def test_json_alone_names_the_way_to_sizes() -> None:
    imported = import_traces([DATA / "cpu_8.trace.json.gz"])
    assert {row.sized for row in imported.ranks} == {0}
    assert any("--xla_dump_hlo_as_text" in note for note in imported.notes)


def test_eight_mi300x() -> None:
    """Each GPU ran the module five times, with five kernels each; the first one copied, too."""
    imported = import_traces([DATA / "mi300_8.xplane.pb.gz"])
    assert [row.device for row in imported.ranks] == ["AMD GPU"] * 8
    assert [row.step_ops for row in imported.ranks] == [60, *[25] * 7]
    for row in imported.ranks:
        assert row.replayed_ps == pytest.approx(row.recorded_ps, rel=1e-6)
        assert row.launch_share > 0.98
    assert sum("the whole trace is one step" in note for note in imported.notes) == 1


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_every_event_is_the_one_that_jax_reads(name: str) -> None:
    """Planes, lines, names, starts and durations in picoseconds, against `ProfileData` of
    jaxlib."""
    space = xspace.read(gzip.decompress((DATA / name).read_bytes()))
    assert [plane.name for plane in space.planes] == [each["name"] for each in PROFILES[name]]
    for plane, theirs in zip(space.planes, PROFILES[name], strict=True):
        for line, said in zip(plane.lines, theirs["lines"], strict=True):
            spans = list(line.events())
            events = [[each.name, each.start, each.end - each.start] for each in spans]
            assert (line.name, len(events)) == (said["name"], said["events"])
            assert sum(each.end - each.start for each in spans) == said["time_ps"]
            assert events[:1] + events[-1:] == [said["first"], said["last"]]
            told = "\n".join(" ".join(map(str, each)) for each in events)
            assert hashlib.sha256(told.encode()).hexdigest() == said["sha256"]
