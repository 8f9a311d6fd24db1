"""Logs of OSU Micro-Benchmarks and Intel MPI Benchmarks become the tables that were drawn."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from thorough import usually

from armillary.calibrate import MeasuredTable, read
from armillary.errors import InputError

OSU = {
    "all_reduce": "Allreduce",
    "all_gather": "Allgather",
    "all_to_all": "All-to-All Personalized Exchange",
    "reduce_scatter": "Reduce_scatter",
    "broadcast": "Broadcast",
    "reduce": "Reduce",
}
INTEL = {**OSU, "all_to_all": "Alltoall", "broadcast": "Bcast"}
COUNTS = ("-np {}", "-n {}", "--ntasks={}", "-n{}", "--np {}")
Drawn = dict[tuple[str, int], list[tuple[int, float]]]


def times(chance: random.Random) -> list[tuple[int, float]]:
    """Sizes that a program prints, and times in us."""
    first = chance.randrange(2, 10)
    rows = range(first, first + chance.randrange(1, 18))
    return [(1 << n, round(chance.uniform(1, 5e5), 2)) for n in rows]


def osu(chance: random.Random, name: str, ranks: int, rows: list[tuple[int, float]]) -> str:
    """As versions 5 to 7 print it, also with `-f`, on GPUs, and behind tags of `srun -l`."""
    kind = chance.choice(("MPI", "MPI-CUDA", "NCCL"))
    title = f"# OSU {kind} {OSU[name]} Latency Test v{chance.choice(('5.8', '7.5'))}"
    full = chance.random() < 0.5
    head = "# Size       Avg Latency(us)"
    more = "   Min Latency(us)   Max Latency(us)  Iterations" if full else ""
    lines = [title, *(["# Datatype: MPI_CHAR."] if chance.random() < 0.5 else []), head + more]
    for size, us in rows:
        rest = f"{us / 2:18.2f}{us * 2:18.2f}{1000:12d}" if full else ""
        lines.append(f"{size:<10d}{us:18.2f}{rest}")
    tag = chance.choice(("", "0: ", "[1,0]<stdout>:"))
    count = chance.choice(COUNTS).format(ranks)
    command = f"$ mpirun -N 4 {count} -x UCX_TLS=rc ./osu_{name.replace('_', '')} -m 4:1024"
    return "\n".join([command, "Warning: 3 interfaces", *(tag + line for line in lines), ""])


def intel(chance: random.Random, name: str, ranks: int, rows: list[tuple[int, float]]) -> str:
    """As versions 2018 to 2021 print it."""
    rule = "#" + "-" * 64
    idle = chance.random() < 0.5
    waits = "# ( 124 additional processes waiting in MPI_Barrier)" if idle else rule
    lines = [rule, f"# Benchmarking {INTEL[name]} ", f"# #processes = {ranks} ", waits, rule]
    lines += ["       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]"]
    lines += [f"{0:13d}{1000:13d}{0.03:13.2f}{0.04:13.2f}{0.03:13.2f}"]
    for size, us in rows:
        lines.append(f"{size:13d}{1000:13d}{us / 2:13.2f}{us * 2:13.2f}{us:13.2f}")
    return "\n".join([*lines, "", ""])


@pytest.mark.parametrize("seed", range(usually(20, 2000)))
def test_drawn_logs_are_read(seed: int, tmp_path: Path) -> None:
    """Several tables in a file. Sizes are those of nccl-tests: of an all-gather all that a rank has
    at the end, of an all-to-all all that it sends."""
    chance = random.Random(seed)
    text, wanted = "", []
    write = chance.choice((osu, intel))
    for _ in range(chance.randrange(1, 6)):
        name, ranks, rows = chance.choice(list(OSU)), chance.randrange(2, 2000), times(chance)
        text += write(chance, name, ranks, rows)
        many = ranks if name in ("all_gather", "all_to_all") else 1
        wanted.append((name, ranks, tuple((size * many, us) for size, us in rows)))
    path = tmp_path / "run.log"
    path.write_text(text, encoding="utf-8")
    found = read(str(path))
    assert [(each.collective, each.ranks, each.points) for each in found.tables] == wanted
    assert found.skipped == 0


TABLE = "# Size       Avg Latency(us)\n1024     10.00\n2048     12.00\n"
ALLREDUCE = "# OSU MPI Allreduce Latency Test v7.5\n"
PROCESSES = "# Benchmarking Allreduce\n# #processes = "
ROWS = "\n#bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (ALLREDUCE + TABLE, "the number of ranks is unknown"),
        ("mpirun -np 1 osu_allreduce\n" + ALLREDUCE + TABLE, "is of one rank"),
        (
            "flux run -N4 --tasks-per-node=96 osu_allreduce\n" + ALLREDUCE + TABLE,
            "ranks is unknown",
        ),
        ("mpirun -np 4 osu_x\n# OSU MPI Latency Test v7.5\n" + TABLE, "no table (2 lines skipped)"),
        (
            "mpirun -np 4 osu_x\n# OSU MPI Non-blocking Allreduce Latency Test v7.5\n" + TABLE,
            "no table (2 lines skipped)",
        ),
        (ALLREDUCE.replace("Latency", "Bandwidth"), "no table (0 lines skipped)"),
        (
            "mpirun -np 4 osu_x\n" + ALLREDUCE + TABLE.replace("Avg ", ""),
            "no table (2 lines skipped)",
        ),
        (
            "mpirun -np 4 osu_x\n"
            + ALLREDUCE
            + TABLE.replace("10.00", "nan").replace("12.00", "0"),
            "no table (1 line skipped)",
        ),
        (f"{PROCESSES}1{ROWS}8 1000 1.0 2.0 1.5\n", "is of one rank"),
        (f"# Benchmarking Barrier\n# #processes = 4{ROWS}8 1000 1 2 1.5\n", "no table (1 line"),
        (
            f"{PROCESSES}4\n# ( 2 groups of 4 processes each running simultaneous ){ROWS}"
            "8 1000 1 2 1.5\n",
            "no table (1 line",
        ),
        (f"{PROCESSES}4{ROWS}8 1000 1.0 2.0\n", "no table (1 line"),
    ],
)
def test_logs_without_a_table_are_refused(text: str, said: str, tmp_path: Path) -> None:
    """The way out names what is missing."""
    path = tmp_path / "run.log"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as error:
        read(str(path))
    assert said in str(error.value)
    assert error.value.problems[0].help


def test_other_tests_do_not_cost_a_table(tmp_path: Path) -> None:
    """A log of all programs has the tables of collectives."""
    other = (
        "mpirun -np 2 osu_bw\n# OSU MPI Bandwidth Test v7.5\n# Size      Bandwidth (MB/s)\n1 5.0\n"
    )
    path = tmp_path / "run.log"
    path.write_text(f"{other}mpirun -np 4 osu_allreduce\n{ALLREDUCE}{TABLE}{other}", "utf-8")
    found = read(str(path))
    points = ((1024, 10.0), (2048, 12.0))
    assert found.tables == (MeasuredTable(str(path), "all_reduce", 4, points),)
    assert found.skipped == 2
