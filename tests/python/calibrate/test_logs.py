"""What calibrate reads from logs."""

from __future__ import annotations

from pathlib import Path

from armillary.calibrate import calibrate, read

RANKS = "#  Rank  {0} Group  0 Pid 7{0} on {1} device  0\n"
LINE = "  1048576  262144  float  sum  -1  45.30  23.15  23.15  0  45.10  23.25  23.25  0\n"


def test_words_of_other_lines_start_no_test(tmp_path: Path) -> None:
    """NCCL's own log says "starting", too; and a test of what we don't know doesn't cost the others."""
    ranks = RANKS.format(0, "a") + RANKS.format(1, "a")
    first = "# Collective test starting: all_reduce_perf\na: NCCL INFO Bootstrap starting: root\n"
    path = tmp_path / "x.log"
    path.write_text(f"{first}{ranks}{LINE}# Collective test starting: hypercube_perf\n{LINE}", encoding="utf-8")
    log = read(str(path))
    assert [(table.collective, table.ranks, table.hosts) for table in log.tables] == [("all_reduce", 2, 1)]
    assert log.skipped == 1


def test_hosts_that_are_no_nodes_are_named(tmp_path: Path) -> None:
    path = tmp_path / "all_reduce.log"
    path.write_text("".join(RANKS.format(rank, "ab"[rank // 4]) for rank in range(8)) + LINE, encoding="utf-8")
    notes = calibrate("dgx-h100", read(str(path)).tables).notes()
    assert any("8 ranks ran on 2 hosts" in note for note in notes)


def test_a_machine_that_is_another_is_doubted(tmp_path: Path) -> None:
    """No set of parameters makes 64 MiB take longer than 256 MiB."""
    ranks = "".join(RANKS.format(rank, "a") for rank in range(8))
    times = ((24, 100.0), (26, 9000.0), (28, 1000.0))
    lines = "".join(
        f"  {2**n}  {2**n // 4}  float  sum  -1  {us:.2f}  {2**n / us / 1e3:.2f}  0.00  0\n" for n, us in times
    )
    path = tmp_path / "all_reduce.log"
    path.write_text(ranks + lines, encoding="utf-8")
    notes = calibrate("dgx-h100", read(str(path)).tables).notes()
    assert any("is it the machine that dgx-h100 describes?" in note for note in notes)
