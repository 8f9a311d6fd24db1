"""Logs of UCC's perftest and of PARAM's comms.py become the tables that were drawn.

They are written as the programs' sources print them: openucx/ucc, tools/perf/ucc_pt_benchmark.cc,
and facebookresearch/param, train/comms/pt/comms.py."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from thorough import usually

from armillary.calibrate import MeasuredTable, read
from armillary.errors import InputError

UCC = {
    "all_reduce": "Allreduce",
    "all_gather": "Allgather",
    "all_to_all": "Alltoall",
    "reduce_scatter": "Reduce_scatter",
    "broadcast": "Bcast",
    "reduce": "Reduce",
}
Rows = list[tuple[int, float]]


def drawn_rows(chance: random.Random) -> Rows:
    """Sizes in bytes, as nccl-tests counts them, and times in us, of 1 to 50 GB/s."""
    first = chance.randrange(12, 16)
    sizes = [1 << n for n in range(first, first + chance.randrange(1, 12))]
    return [(size, round(size / 1000 / chance.uniform(1, 50), 2)) for size in sizes]


def bus(name: str, ranks: int) -> float:
    """Factor of the bandwidth that both programs print."""
    share = (ranks - 1) / ranks
    factors = {"all_reduce": 2 * share, "broadcast": 1.0, "reduce": 1.0}
    return factors.get(name, share)


def ucc(chance: random.Random, name: str, ranks: int, rows: Rows, full: bool, told: bool) -> str:
    """A table, of a version that prints sizes of an all-to-all by rank or in all."""
    late = chance.random() < 0.5
    by_rank = name == "all_gather" or (name == "all_to_all" and not late)
    head = f"{'Count':>12}{'Size':>12}{'Time, us':>24}" + (f"{'Bandwidth, GB/s':>42}" * full)
    lines = [f"{'Collective: ':<24}{UCC[name]}", f"{'Memory type: ':<24}host", "", head]
    lines.append("".join(f"{word:>12}" for word in ("", "", "avg", "min", "max")))
    for size, us in rows:
        printed = size // ranks if by_rank else size
        numbers = [us, us * 0.9, us * 1.1]
        numbers += [size / us / 1000 * bus(name, ranks)] * 3 if full else []
        cells = "".join(f"{each:12.2f}" for each in numbers)
        lines.append(f"{printed // 4:12d}{printed:12d}{cells}")
    lines += ["Total time: 1.5 ms"] if late else []
    command = f"+ mpirun -np {ranks} ./ucc_perftest -c {UCC[name].lower()}"
    return "\n".join([*([command] if told else ["+ ./run.sh"]), *lines, "", ""])


def param(chance: random.Random, name: str, ranks: int, rows: Rows, told: bool) -> str:
    """A table; the second form of the head is that of later versions."""
    late = chance.random() < 0.5
    median = "TotalLatency(us):p50" if late else "Latency(us):p50"
    names = ["size (B)", "nElementsPerRank", median, "p75", "p95", "Min", "Max"]
    names += ["AlgBW(GB/s)", "BusBW(GB/s)"]
    widths = (15, 18, 26 if late else 18, 12, 12, 12, 12, 15, 12)
    head = "\tCOMMS-RES" + "".join(
        f"{word:>{width}}" for word, width in zip(names, widths, strict=True)
    )
    hello = f"[Rank   0] host a, device: cuda:0, local_rank: 0 world_size: {ranks}, master_ip: a"
    lines = [hello] if told else []
    lines += ["[Rank   0] allSizes: [1024] local_rank: 0 element_size: 4", head]
    for size, us in rows:
        rate = size / us / 1000
        numbers = [f"{us:.1f}", f"{us:.1f}", f"{us * 2:.1f}", f"{us / 2:.1f}", f"{us * 2:.1f}"]
        numbers += [f"{rate:.3f}", f"{rate * bus(name, ranks):.3f}"]
        kind = f"{name}-float32" if late else name
        cells = "".join(f"{each:>24}" for each in (size, size // 4, *numbers))
        lines.append(f"\tCOMMS-RES-{kind}{cells}")
    return "\n".join([*lines, "", ""])


@pytest.mark.parametrize("seed", range(usually(20, 2000)))
def test_drawn_logs_are_read(seed: int, tmp_path: Path) -> None:
    """Several tables in a file. Ranks stand in the log, or follow from the bandwidth."""
    chance = random.Random(seed)
    text, wanted = "", []
    of_ucc = chance.random() < 0.5
    for _ in range(chance.randrange(1, 5)):
        name, ranks = chance.choice(list(UCC)), 1 << chance.randrange(1, 7)
        rows = drawn_rows(chance)
        rows = rows if of_ucc else [(size, round(us, 1)) for size, us in rows]
        if of_ucc:
            text += ucc(chance, name, ranks, rows, True, True)
        else:
            text += param(chance, name, ranks, rows, True)
        wanted.append((name, ranks, tuple(rows)))
    path = tmp_path / "run.log"
    path.write_text(text, encoding="utf-8")
    found = read(str(path))
    assert [(each.collective, each.ranks, each.points) for each in found.tables] == wanted
    assert found.skipped == 0


# Of 24 ranks, a bandwidth alone does not say what an all-to-all's sizes are of.
BANDWIDTHS = [
    (name, ranks)
    for name in ("all_reduce", "all_gather", "all_to_all", "reduce_scatter")
    for ranks in (3, 8, 24)
    if (name, ranks) != ("all_to_all", 24)
]


@pytest.mark.parametrize(("name", "ranks"), BANDWIDTHS)
def test_ranks_follow_from_bandwidths(name: str, ranks: int, tmp_path: Path) -> None:
    chance = random.Random(ranks)
    rows = [(ranks << n, float(ranks << (n - 14))) for n in range(16, 24)]
    path = tmp_path / "run.log"
    texts = [
        ucc(chance, name, ranks, rows, True, False),
        ucc(chance, name, ranks, rows, True, False),
    ]
    if name != "all_gather" and ranks != 3:
        texts.append(param(chance, name, ranks, rows, False))
    for text in texts:
        path.write_text(text, encoding="utf-8")
        [table] = read(str(path)).tables
        assert table == MeasuredTable(str(path), name, ranks, tuple(rows))


def ranks_found(path: Path, text: str) -> int:
    """The ranks that a log of one table says; 0 where they are unknown."""
    path.write_text(text, encoding="utf-8")
    try:
        [table] = read(str(path)).tables
    except InputError as error:
        assert "the number of ranks is unknown" in str(error)
        return 0
    return table.ranks


@pytest.mark.parametrize("seed", range(usually(10, 1000)))
def test_bandwidths_never_say_a_wrong_number_of_ranks(seed: int, tmp_path: Path) -> None:
    """Where their decimals do not say it, the number is unknown; of few ranks they do."""
    chance = random.Random(seed)
    for name in ("all_reduce", "all_gather", "reduce_scatter"):
        ranks = chance.choice((chance.randrange(2, 8), chance.randrange(8, 1500)))
        fastest = 10 ** chance.uniform(-0.2, 2.5)
        sizes = [ranks << n for n in range(6, 20)]
        rows = [(size, round(size / 1000 / fastest + chance.uniform(2, 30), 2)) for size in sizes]
        found = ranks_found(tmp_path / "run.log", ucc(chance, name, ranks, rows, True, False))
        assert found in (ranks, 0)
        if ranks < 8 and fastest > 2:
            assert found == ranks


@pytest.mark.parametrize("seed", range(usually(10, 1000)))
def test_nor_do_ratios_of_bandwidths(seed: int, tmp_path: Path) -> None:
    """`BusBW / AlgBW` of PARAM has three decimals, that of nccl-tests two."""
    chance = random.Random(seed)
    for name in ("all_reduce", "reduce_scatter"):
        ranks = chance.choice((chance.randrange(2, 8), chance.randrange(8, 1500)))
        fastest = 10 ** chance.uniform(0, 2.5)
        rows = [(1 << n, round((1 << n) / 1000 / fastest + 1, 1)) for n in range(12, 26)]
        rates = [size / us / 1000 for size, us in rows]
        lines = [
            f"{size} {size // 4} float sum -1 {us:.1f} {rate:.2f} {rate * bus(name, ranks):.2f} 0\n"
            for (size, us), rate in zip(rows, rates, strict=True)
        ]
        for text in (param(chance, name, ranks, rows, False), "".join(lines)):
            found = ranks_found(tmp_path / f"{name}.log", text)
            assert found in (ranks, 0)
            if ranks < 8 and fastest > 2:
                assert found == ranks


@pytest.mark.parametrize("name", ["Allreduce", "Allgather", "Reduce_scatter"])
@pytest.mark.parametrize("cells", ["1.00 1 1 1e308 1 1", "1e308 1 1 1e308 1 1", "1e300 1 1 5 1 1"])
def test_bandwidths_of_no_machine_say_no_ranks(name: str, cells: str, tmp_path: Path) -> None:
    text = HEAD.replace("Allreduce", name) + f"256 1024 {cells}\n"
    assert ranks_found(tmp_path / "run.log", text) == 0


@pytest.mark.parametrize(
    ("name", "ranks", "slowest", "fastest"),
    [
        ("reduce_scatter", 32, 0.6, 1.6),
        ("all_reduce", 64, 0.6, 1.6),
        ("all_reduce", 128, 0.6, 1.6),
        ("all_reduce", 512, 200.0, 200.0),
    ],
)
def test_ranks_between_decimals_are_unknown(
    name: str, ranks: int, slowest: float, fastest: float, tmp_path: Path
) -> None:
    chance = random.Random(ranks)
    rates = [slowest + (fastest - slowest) * at / 6 for at in range(7)]
    rows = [(1 << (16 + at), round((1 << (16 + at)) / 1000 / rates[at], 2)) for at in range(7)]
    text = ucc(chance, name, ranks, rows, True, False)
    assert ranks_found(tmp_path / "run.log", text) == 0
    told = ucc(chance, name, ranks, rows, True, True)
    assert ranks_found(tmp_path / "run.log", told) == ranks


def test_a_recorded_table_of_ucc(tmp_path: Path) -> None:
    """Table of the pull request that brought the bandwidth: 8 ranks, sizes for one other rank."""
    text = """\
Collective:             Alltoall
Memory type:            cuda

       Count        Size                Time, us                           Bandwidth, GB/s
                                 avg         min         max         avg         min         max
       65536      262144       76.46       72.62       82.30       24.00       25.27       22.30
     4194304    16777216     2555.02     2507.76     2616.37       45.96       46.83       44.89
"""
    path = tmp_path / "run.log"
    path.write_text(text, encoding="utf-8")
    [table] = read(str(path)).tables
    points = ((8 * 262144, 76.46), (8 * 16777216, 2555.02))
    assert table == MeasuredTable(str(path), "all_to_all", 8, points)


@pytest.mark.parametrize("seed", range(usually(10, 500)))
def test_lines_that_contradict_themselves_are_skipped(seed: int, tmp_path: Path) -> None:
    """PARAM's bandwidth is of one of the ranks: of a time from the least to the most."""
    chance = random.Random(seed)
    lines, wanted, skipped = [HELLO + PARAM], [], 0
    for n in range(14, 24):
        times = sorted(chance.uniform(0.7, 1.4) * (1 << n) / 3000 for _ in range(4))
        first = chance.choice(times)
        wrong = chance.random() < 0.4
        if wrong:
            apart = chance.uniform(1.03, 20)
            first = times[0] / apart if chance.random() < 0.5 else times[3] * apart
        median = round((times[1] + times[2]) / 2, 1)
        rate = (1 << n) / first / 1000
        cells = [f"{1 << n}", f"{1 << (n - 2)}", f"{median:.1f}"]
        cells += [f"{times[at]:.1f}" for at in (2, 3, 0, 3)]
        cells += [f"{rate:.3f}", f"{rate * 1.5:.3f}"]
        lines.append("\tCOMMS-RES-all_reduce" + "".join(f"{each:>15}" for each in cells) + "\n")
        skipped += wrong
        wanted += [] if wrong else [(1 << n, median)]
    path = tmp_path / "run.log"
    path.write_text("".join(lines), encoding="utf-8")
    found = read(str(path))
    assert (found.tables[0].points, found.skipped) == (tuple(wanted), skipped)


HEAD = "Collective: Allreduce\n\n   Count   Size   Time, us\n   avg   min   max\n"
RUN = "mpirun -np 4 ucc_perftest\n"
ROW = "256 1024 10.00 9.00 11.00\n"
PARAM = (
    "\tCOMMS-RES       size (B)  nElementsPerRank   Latency(us):p50         p75         p95"
    "         Min         Max    AlgBW(GB/s) BusBW(GB/s)\n"
)
HELLO = "[Rank   0] host a, device: cuda:0, local_rank: 0 world_size: 4, master_ip: a\n"
RESULT = "\tCOMMS-RES-all_reduce  1024  256  10.0  10.1  10.2  9.0  11.0  0.102  0.153\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD + ROW, "the number of ranks is unknown"),
        ("mpirun -np 1 ucc_perftest\n" + HEAD + ROW, "is of one rank"),
        (RUN + HEAD, "no table (0 lines"),
        (RUN + HEAD.replace("Allreduce", "Barrier") + ROW, "no table (1 line"),
        (RUN + HEAD.replace("Allreduce", "Memcpy") + ROW, "no table (1 line"),
        (RUN + HEAD + ROW.replace("10.00", "0"), "no table (1 line"),
        (RUN + HEAD + ROW.replace("10.00", "nan"), "no table (1 line"),
        (RUN + HEAD + ROW.replace("1024", "0"), "no table (1 line"),
        (RUN + HEAD.replace("Allreduce", "Alltoall") + ROW, "of one rank or of all"),
        (PARAM + RESULT, "the number of ranks is unknown"),
        (HELLO + PARAM, "no table (0 lines"),
        (HELLO + PARAM + RESULT.replace("10.0 ", "nan "), "no table (1 line"),
        (HELLO + PARAM + RESULT.replace("all_reduce", "incast"), "no table (1 line"),
        (HELLO + PARAM + RESULT.replace("all_reduce", "all_reducex"), "no table (1 line"),
        (HELLO + PARAM.replace("p50", "p49") + RESULT, "no table (1 line"),
        (HELLO + PARAM + RESULT.replace("  0.102  0.153", ""), "no table (1 line"),
        (HELLO + PARAM + RESULT.replace("0.102", "1.024"), "no table (1 line"),
        (HELLO + PARAM + RESULT.replace("10.0 ", "12.0 "), "no table (1 line"),
        (HELLO.replace("4", "1") + PARAM + RESULT, "is of one rank"),
        (HELLO + PARAM.replace("RES ", "RES-QUANT ") + RESULT, "no table (1 line"),
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
