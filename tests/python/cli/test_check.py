"""`armillary check`: every problem at once, nothing simulated."""

from __future__ import annotations

import json
from pathlib import Path

import et
import nsys_export
import toy
from conftest import Armillary

from armillary.workload.importer import import_traces


def test_nothing_wrong(armillary: Armillary, tmp_path: Path) -> None:
    toy.platform(tmp_path), toy.traces(tmp_path)
    run = armillary("check", "traces", "-p", "toy.yml")
    assert (run.returncode, run.stdout, run.stderr) == (0, "no problem found\n", "")


def test_warnings_are_those_of_a_run(armillary: Armillary, tmp_path: Path) -> None:
    """As far as they are known before it: on standard error and in JSON."""
    toy.platform(tmp_path)
    settings = ["npu.peak=100 TFLOPS", "npu.memory.bandwidth=1 TB/s", "scheduler.policy=explicit"]
    arguments = ["resnet-50", "--dp", "8", "-p", "toy.yml"]
    arguments += [word for each in settings for word in ("--set", each)]
    run = json.loads(armillary("run", *arguments, "--json", "-").stdout)
    checked = armillary("check", *arguments, "--json", "-")
    said = json.loads(checked.stdout)["warnings"]
    assert {f"warning: {each}" for each in said} == set(checked.stderr.splitlines())
    known = {*run["warnings"], *(f"assumed: {each}" for each in run["assumptions"])}
    assert any("100 % of the peak" in each for each in said)
    assert any("orders as fifo does" in each for each in said)
    assert set(said) <= known


def test_platform_alone(armillary: Armillary, tmp_path: Path) -> None:
    toy.platform(tmp_path)
    assert armillary("check", "-p", "toy.yml").returncode == 0


def test_problems_of_both_files(armillary: Armillary, tmp_path: Path) -> None:
    """One wrong file does not hide the other."""
    (tmp_path / "bad.yml").write_text(
        "topology: R(4)_SW(2)\nlinks: {bandwidth: -5 GB/s, latency: 7}\nshape: round\n"
    )
    run = armillary("check", "no-such-trace", "-p", "bad.yml", "--json", "-")
    assert run.returncode == 2
    result = json.loads(run.stdout)
    assert result["schema"] == "armillary.check/1"
    said = [(problem["file"], problem["place"]) for problem in result["problems"]]
    assert ("no-such-trace", "") in said
    assert sum(file == "bad.yml" for file, _ in said) >= 3
    assert run.stderr.endswith(f"{len(said)} problems\n")
    assert all(problem["help"] for problem in result["problems"])


def test_what_the_run_would_refuse(armillary: Armillary, tmp_path: Path) -> None:
    """An algorithm that can't be read, and one of more steps than fit: both at once, and in the
    words of `run`."""
    links = "links: {bandwidth: 50 GB/s, latency: 500 ns}\n"
    (tmp_path / "big.yml").write_text(
        f"topology: R(5000)\n{links}"
        "collectives: {all_reduce: {custom: none.xml}, all_to_all: ring}\n"
    )
    all_to_all = 6
    et.write(tmp_path / "calls", [[et.collective(0, 64), et.collective(1, 64, kind=all_to_all)]])
    arguments = ("calls/trace.0.et", "-p", "big.yml", "--backend", "link")
    run = armillary("check", *arguments, "--json", "-")
    assert run.returncode == 2
    problems = json.loads(run.stdout)["problems"]
    assert [(problem["file"], problem["place"]) for problem in problems] == [
        ("none.xml", ""),
        ("calls/trace.0.et", "rank 0 node 1"),
    ]
    assert "12497500 steps" in problems[1]["message"]
    assert run.stderr == armillary("run", *arguments).stderr


def test_what_does_not_fit_together(armillary: Armillary, tmp_path: Path) -> None:
    toy.platform(tmp_path), toy.stalled(tmp_path)
    run = armillary("check", "stalled", "-p", "toy.yml")
    assert run.returncode == 2
    assert "in: stalled: rank 0" in run.stderr


CUSTOM = (
    "topology: Ring(4)\nlinks: {bandwidth: 100 GB/s, latency: 1 us}\ncollectives: "
    "{all_reduce: {custom: PATH}}\n"
)


def ring_xml(collective: str = "allreduce", count: int = 1) -> str:
    """A ring of four ranks as a file of MSCCL. The first step of rank 0 sends `count` chunks."""
    ranks = "".join(_ring_rank(rank, collective, count) for rank in range(4))
    return f'<algo name="once" nchunksperloop="4" ngpus="4" coll="{collective}">{ranks}</algo>'


def _ring_rank(rank: int, collective: str, count: int) -> str:
    """A rank copies its input to its output, then sends and receives there: all-reduces reduce
    three times before they gather."""
    reduces = collective == "allreduce"
    copied = (("cpy", "i", 0, "o", 0, 4),) if reduces else (("cpy", "i", 0, "o", rank, 1),)
    moved = [
        (kind, "o", (rank - turn - received) % 4, "o", (rank - turn - received) % 4, 1)
        for turn in range(3 if reduces else 0)
        for kind, received in (("s", 0), ("rrc", 1))
    ]
    moved += [
        (kind, "o", chunk % 4, "o", chunk % 4, 1)
        for turn in range(3)
        for kind, chunk in (("s", rank + reduces - turn), ("r", rank + reduces - turn - 1))
    ]
    steps = "".join(
        f'\n<step s="{at}" type="{kind}" srcbuf="{source}" srcoff="{src}" dstbuf="{target}" '
        f'dstoff="{dst}" cnt="{count if at == 0 and count > 1 else chunks}" depid="-1" deps="-1" '
        'hasdep="0"/>'
        for at, (kind, source, src, target, dst, chunks) in enumerate([*copied, *moved])
    )
    return (
        f'<gpu id="{rank}" i_chunks="{4 if reduces else 1}" o_chunks="4" s_chunks="0">'
        f'<tb id="0" send="{(rank + 1) % 4}" recv="{(rank - 1) % 4}" chan="0">{steps}</tb></gpu>'
    )


def test_algorithms_that_a_platform_names_are_read(armillary: Armillary, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    platform = tmp_path / "there/p.yml"
    platform.write_text(CUSTOM.replace("PATH", "algorithm.xml"))
    run = armillary("check", "-p", "there/p.yml")
    assert run.returncode == 2
    assert "can't be read" in run.stderr and "in: there/algorithm.xml" in run.stderr
    (tmp_path / "there/algorithm.xml").write_text(ring_xml())
    assert armillary("check", "-p", "there/p.yml").returncode == 0
    # It starts from the platform's file in runs, too.
    assert (
        armillary(
            "collective", "all_reduce", "-b", "1M", "-e", "1M", "-p", "there/p.yml"
        ).returncode
        == 0
    )


def test_algorithms_beside_the_caller_are_found_as_before(
    armillary: Armillary, tmp_path: Path
) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there/p.yml").write_text(CUSTOM.replace("PATH", "algorithm.xml"))
    (tmp_path / "algorithm.xml").write_text(ring_xml())
    assert armillary("check", "-p", "there/p.yml").returncode == 0


def test_algorithms_of_another_kind_or_beyond_their_buffer(
    armillary: Armillary, tmp_path: Path
) -> None:
    (tmp_path / "p.yml").write_text(CUSTOM.replace("PATH", "a.xml"))
    (tmp_path / "a.xml").write_text(ring_xml("allgather"))
    run = armillary("check", "-p", "p.yml")
    assert (run.returncode, "once is an algorithm for all_gather" in run.stderr) == (2, True)
    (tmp_path / "a.xml").write_text(ring_xml(count=1000))
    run = armillary("check", "-p", "p.yml")
    assert run.returncode == 2
    assert "srcoff 0 and cnt 1000 reach chunk 1000 of the input buffer" in run.stderr
    assert "in: a.xml: line 2 <step>" in run.stderr


def test_a_workload_that_does_not_fit_the_memory(armillary: Armillary) -> None:
    """`run` warns about it; who checks wants to know."""
    armillary("workload", "llama-3-8b", "--tp", "8", "-o", "made")
    small = ("-p", "dgx-h100", "--set", "npu.memory.capacity=8GB")
    for workload in (("made",), ("llama-3-8b", "--tp", "8")):
        run = armillary("check", *workload, *small)
        assert run.returncode == 2
        assert "GB of the 8.0 GB on an NPU of dgx-h100" in run.stderr
    spilled = armillary("check", "made", *small, "--set", "npu.memory.on_overflow=spill")
    assert "on an NPU of" not in spilled.stderr
    assert armillary("check", "made", "-p", "dgx-h100").returncode == 0


def test_files_of_others_are_not_repeated(armillary: Armillary, tmp_path: Path) -> None:
    secret = "root:x:0:0:root:/root:/bin/bash\n"
    (tmp_path / "passwd").write_text(secret * 20)
    links = "topology: R(4)\nlinks: {bandwidth: 50 GB/s, latency: 500 ns}\n"
    (tmp_path / "custom.yml").write_text(
        f"{links}collectives: {{all_reduce: {{custom: passwd}}}}\n"
    )
    for arguments in (
        ("check", "-p", "custom.yml"),
        ("check", "-p", "passwd"),
        ("run", "passwd", "-p", "dgx-h100"),
    ):
        run = armillary(*arguments)
        assert run.returncode == 2
        assert "root:x" not in run.stderr


def test_a_recording_is_imported(armillary: Armillary, tmp_path: Path) -> None:
    """A run of one names the import; a damaged one is refused as before."""
    path = nsys_export.small().write(tmp_path / "run.sqlite")
    checked = armillary("check", "run.sqlite", "-p", "dgx-h100", "--npus", "2")
    assert (checked.returncode, checked.stdout) == (0, "no problem found\n"), checked.stderr
    other = armillary("check", "run.sqlite", "-p", "dgx-h100", "--npus", "4")
    assert other.returncode == 2
    assert "has 2 ranks and the platform 4 NPUs" in other.stderr
    ran = armillary("run", "run.sqlite", "-p", "dgx-h100")
    assert ran.returncode == 2
    assert "is a SQLite export of Nsight Systems" in ran.stderr
    assert "armillary import run.sqlite -o job" in ran.stderr
    path.write_bytes(path.read_bytes()[:500])
    assert armillary("check", "run.sqlite", "-p", "dgx-h100").returncode == 2


def test_a_recording_needs_no_platform(armillary: Armillary, tmp_path: Path) -> None:
    """Notes of the import are warnings. Options that mean nothing for it are refused."""
    path = nsys_export.small().write(tmp_path / "run.sqlite")
    checked = armillary("check", "run.sqlite", "--json", "c.json")
    assert (checked.returncode, checked.stdout) == (0, "no problem found\n"), checked.stderr
    found = json.loads((tmp_path / "c.json").read_text(encoding="utf-8"))
    assert found["platform"] is None and found["problems"] == []
    assert found["warnings"] == list(import_traces([path]).notes)
    for given in (("--npus", "4"), ("--set", "scheduler.chunks=4"), ("--backend", "link")):
        wrong = armillary("check", "run.sqlite", *given)
        assert wrong.returncode == 2
        assert "has no effect on a recording" in wrong.stderr
    for given in (("--tp", "8"), ("--passes", "3"), ("--groups", "run.sqlite")):
        for platform in ((), ("-p", "dgx-h100", "--npus", "2")):
            wrong = armillary("check", "run.sqlite", *given, *platform)
            assert wrong.returncode == 2, given
            assert "has no effect on a recording" in wrong.stderr
            assert given[0] in wrong.stderr
    path.write_bytes(path.read_bytes()[:500])
    assert armillary("check", "run.sqlite").returncode == 2
    missing = armillary("check", "llama-3-8b")
    assert missing.returncode == 2 and "--platform" in missing.stderr


def test_what_is_not_a_recording_needs_a_platform(armillary: Armillary, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing that is known\n")
    run = armillary("check", "notes.txt")
    assert run.returncode == 2
    assert "notes.txt is not the file of a recording" in run.stderr
    assert "--platform" in run.stderr
