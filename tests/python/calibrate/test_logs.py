"""What calibrate reads from logs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_logs import SIZES, library, log

from armillary.calibrate import Log, calibrate, printed, read, records
from armillary.errors import InputError

RANKS = "#  Rank  {0} Group  0 Pid 7{0} on {1} device  0\n"
LINE = "  1048576  262144  float  sum  -1  45.30  23.15  23.15  0  45.10  23.25  23.25  0\n"


def test_words_of_other_lines_start_no_test(tmp_path: Path) -> None:
    """NCCL's own log says "starting", too; and a test of what we don't know doesn't cost the
    others."""
    ranks = RANKS.format(0, "a") + RANKS.format(1, "a")
    first = "# Collective test starting: all_reduce_perf\na: NCCL INFO Bootstrap starting: root\n"
    path = tmp_path / "x.log"
    path.write_text(
        f"{first}{ranks}{LINE}# Collective test starting: hypercube_perf\n{LINE}", encoding="utf-8"
    )
    log = read(str(path))
    assert [(table.collective, table.ranks, table.hosts) for table in log.tables] == [
        ("all_reduce", 2, 1)
    ]
    assert log.skipped == 1


def test_hosts_that_are_no_nodes_are_named(tmp_path: Path) -> None:
    path = tmp_path / "all_reduce.log"
    path.write_text(
        "".join(RANKS.format(rank, "ab"[rank // 4]) for rank in range(8)) + LINE, encoding="utf-8"
    )
    notes = calibrate("dgx-h100", read(str(path)).tables).notes()
    assert any("8 ranks ran on 2 hosts" in note for note in notes)


def test_a_machine_that_is_another_is_doubted(tmp_path: Path) -> None:
    """No set of parameters makes 64 MiB take longer than 256 MiB."""
    ranks = "".join(RANKS.format(rank, "a") for rank in range(8))
    times = ((24, 100.0), (26, 9000.0), (28, 1000.0))
    lines = "".join(
        f"  {2**n}  {2**n // 4}  float  sum  -1  {us:.2f}  {2**n / us / 1e3:.2f}  0.00  0\n"
        for n, us in times
    )
    path = tmp_path / "all_reduce.log"
    path.write_text(ranks + lines, encoding="utf-8")
    notes = calibrate("dgx-h100", read(str(path)).tables).notes()
    assert any("is this the machine that dgx-h100 describes?" in note for note in notes)


def test_a_bandwidth_of_zero_says_no_ranks(tmp_path: Path) -> None:
    path = tmp_path / "all_reduce.log"
    path.write_text("  1048576  262144  float  sum  -1  45.30  23.15  0e99999  0\n", "utf-8")
    with pytest.raises(InputError, match="the number of ranks is unknown"):
        read(str(path))


SECOND = RANKS.format(0, "a") + RANKS.format(1, "a")


def read_text(folder: Path, name: str, text: str) -> Log:
    (folder / name).write_text(text, encoding="utf-8")
    return read(str(folder / name))


def test_times_in_ms_of_the_first_tests(tmp_path: Path) -> None:
    """Up to NCCL 2.4: `bytes N type op time algbw busbw res`, in ms, several types and operations
    of one size."""
    head = "#   Device  0 ->  0 [0x0a] GeForce\n#   Device  1 ->  1 [0x09] GeForce\n"
    head += (
        "#      bytes             N    type      op     time  algbw  busbw      res     time  "
        "algbw  busbw      res\n"
    )
    rows = (
        "     1048576       1048576    char     sum    0.210   4.99   4.99    0e+00    0.200   "
        "5.24   5.24    0e+00\n"
        "     1048576        262144     int    prod    0.200   5.24   5.24    0e+00    0.190   "
        "5.52   5.52    0e+00\n"
        "    10000000       2500000   float     sum    1.630   6.13   6.13      N/A    1.620   "
        "6.17   6.17      N/A\n"
    )
    for text in (
        head + rows,
        rows.replace("    104", "#   104").replace("   100", "#  100") + head + rows,
    ):
        tables = read_text(tmp_path, "all_reduce.log", text).tables
        assert [size for size, _ in tables[-1].points] == [1048576, 1048576, 10_000_000]
        assert [us for _, us in tables[-1].points] == pytest.approx([200.0, 190.0, 1620.0])
        assert tables[-1].ranks == 2


def test_ms_are_told_without_a_head(tmp_path: Path) -> None:
    rows = "  10000000  10000000  char  sum  1.628  6.14  9.21  0e+00  1.932  5.18  7.77  0e+00\n"
    (table,) = read_text(tmp_path, "x.log", rows).tables
    assert (table.collective, table.ranks, table.points) == (
        "all_reduce",
        4,
        ((10_000_000, 1932.0),),
    )


@pytest.mark.parametrize(
    "row",
    [
        "1048576 262144 float 45.30 23.15 11.57 0e+00 45.10 23.25 "
        "11.62 0e+00",  # all_gather of version 2.0: no redop
        "1048576 262144 float sum 45.30 23.15 11.57 0e+00 45.10 23.25 "
        "11.62 0e+00",  # to 2.10: no root
        "1048576 262144 fp8_e4m3 sum -1 45.30 23.15 11.57 N/A 45.10 23.25 11.62 N/A",
        "1048576 262144 float sum -1 45.10 23.25 11.62 0",  # rccl-tests -O 0: in place only
        "1048576 262144 float sum -1 45.30 23.15 11.57 0 45.10 23.25 11.62 0 2026-01-02 "
        "10:11:12",  # -S 1
        "1048576 262144 float sum -1 45.30 23.15 11.57 0 44.9 46.1 46.0 1.2 45.10 23.25 11.62 0 "
        "44.8 46.2 46.1 1.3",
        "[1,0]<stdout>:     1048576 262144 float sum -1 45.30 23.15 11.57 0 45.10 23.25 11.62 0",
        "[prterun-n1-77@1,0]<stdout>: 1048576 262144 float sum -1 45.30 23.15 11.57 0 45.10 "
        "23.25 11.62 0",
        "0:  1048576 262144 float sum -1 45.30 23.15 11.57 0 45.10 23.25 11.62 0",
    ],
)
def test_columns_of_every_version(tmp_path: Path, row: str) -> None:
    """The in-place time, whatever stands beside it."""
    (table,) = read_text(tmp_path, "all_gather.log", SECOND + row + "\n").tables
    assert (table.collective, table.ranks, table.points) == ("all_gather", 2, ((1048576, 45.10),))


def test_the_command_above_a_table_names_it(tmp_path: Path) -> None:
    row = "1048576 262144 float none -1 45.30 23.15 11.57 0 45.10 23.25 11.62 0\n"
    text = (
        f"+ mpirun -np 2 ./build/all_gather_perf -b 8\n{SECOND}{row}+ ./alltoall_perf_mpi -g "
        f"1\n{SECOND}{row}"
    )
    assert [table.collective for table in read_text(tmp_path, "x.log", text).tables] == [
        "all_gather",
        "all_to_all",
    ]


def test_of_groups_that_ran_side_by_side_the_first_is_timed(tmp_path: Path) -> None:
    """NCCL_TESTS_SPLIT: four ranks in two groups, one on each host."""
    ranks = "".join(
        f"#  Rank {rank:2d} Group {rank % 2:2d} Pid 1 on {'ab'[rank // 2]} device {rank % 2}\n"
        for rank in range(4)
    )
    (table,) = read_text(tmp_path, "all_reduce.log", ranks + LINE).tables
    assert (table.ranks, table.hosts) == (2, 2)


def result(size: int, us: float, ratio: float) -> dict[str, object]:
    """A result of nccl-tests -J."""
    rate = size / us / 1e3
    body = {"time": us, "alg_bw": rate, "bus_bw": rate * ratio, "nwrong": 0.0}
    slower = {"time": 1.1 * us, "alg_bw": rate / 1.1, "bus_bw": rate / 1.1 * ratio, "nwrong": 0.0}
    names = {"size": size, "count": size // 4, "type": "float", "redop": "none", "root": "    -1"}
    return {
        **names,
        "out_of_place": slower,
        "in_place": body,
        "actual_iterations": 20,
        "experiment_name": "x",
    }


@pytest.mark.parametrize("whole", [True, False])
def test_json_of_nccl_tests(tmp_path: Path, whole: bool) -> None:
    """Four processes of two GPUs, of which only the first is listed; also where the file was cut
    off."""
    devices = [
        {"rank": 2 * at, "group": 0, "pid": 1, "hostname": f"n{at // 2}", "device": 0}
        for at in range(4)
    ]
    data = {
        "version": 2,
        "args": ["/opt/build/all_gather_perf", "-J", "x"],
        "env": ['A="results":[', "B={"],
        "config": {"nthreads": 1, "ngpus": 2, "devices": devices},
        "results": [
            result(2**20, 50.0, 7 / 8),
            result(2**21, 80.0, 7 / 8),
            result(2**22, 1.0, 7 / 8),
        ],
    }
    text = json.dumps(data)
    log = read_text(tmp_path, "out.json", text if whole else text[: text.rindex("in_place")])
    (table,) = log.tables
    assert (table.collective, table.ranks, table.hosts) == ("all_gather", 8, 2)
    expected = [(2**20, 50.0), (2**21, 80.0), (2**22, 1.0)]
    assert list(table.points) == (expected if whole else expected[:2])


def rccl(inside: int, size: int, us: float, received: int = 0) -> dict[str, object]:
    """A result of rccl-tests -x, over two processes of `inside` GPUs."""
    rate = size / us / 1e3
    numbers = {"size": received or size, "type": "float", "redop": "sum", "inPlace": 1, "time": us}
    where = {"nodes": 1, "ranks": 2, "ranksPerNode": 2, "gpusPerRank": inside}
    name = "ReduceScatter" if received else "AllReduce"
    return {
        "numCycle": 0,
        "name": name,
        **where,
        **numbers,
        "algBw": rate,
        "busBw": rate,
        "wrong": "0",
    }


def test_json_of_rccl_tests(tmp_path: Path) -> None:
    """A list, or an object a line; of a reduce-scatter its size is what a rank receives."""
    rows = [
        rccl(4, 2**20, 40.0),
        {**rccl(4, 2**21, 90.0), "inPlace": 0},
        rccl(4, 2**21, 70.0),
        rccl(4, 2**10, 9.0, 2**7),
    ]
    for text in (json.dumps(rows), "\n".join(map(json.dumps, rows))):
        tables = read_text(tmp_path, "out.json", text).tables
        assert [(table.collective, table.ranks) for table in tables] == [
            ("all_reduce", 8),
            ("reduce_scatter", 8),
        ]
        assert [table.points for table in tables] == [
            ((2**20, 40.0), (2**21, 70.0)),
            ((2**10, 9.0),),
        ]


@pytest.mark.parametrize(
    ("head", "nodes"),
    [
        (
            "collective, ranks, rankspernode, gpusperrank, size, type, redop, inplace, time, "
            "algbw, busbw, #wrong",
            True,
        ),
        (
            "numCycle,collective,nodes,ranks,ranksPerNode,gpusPerRank,size,type,redop,inplace,time,algbw,busbw,#wrong",
            True,
        ),
        ("collective, gpus, size, type, redop, inplace, time, algbw, busbw, #wrong", False),
    ],
)
def test_csv_of_rccl_tests(tmp_path: Path, head: str, nodes: bool) -> None:
    """With a column that the head leaves out, with cycles, and of one process."""
    where = "2, 16, 8, 1" if nodes else "16"
    row = f'"AllReduce", {where}, 1048576, "float", "sum", 1, 100.0, 10.48576, 19.6608, "0"\n'
    text = head + "\n" + (f"0, {row}" if "Cycle" in head else row)
    (table,) = read_text(
        tmp_path, "x.csv", text + text.splitlines()[1].replace("100.0", "7.0")
    ).tables
    assert (table.collective, table.ranks, table.hosts) == ("all_reduce", 16, 2 if nodes else 0)
    assert table.points == ((1048576, 100.0),)


def test_csv_of_the_first_tests_is_in_ms(tmp_path: Path) -> None:
    head = "B,N,type,op,oop_time,oop_algbw,oop_busbw,oop_res,ip_time,ip_algbw,ip_busbw,ip_res\n"
    row = "10000000,2500000,float,sum,1.63,6.13,9.2,0.0,1.62,6.17,9.26,0.0\n"
    (table,) = read_text(tmp_path, "x.csv", head + row).tables
    assert (table.collective, table.ranks, table.points) == (
        "all_reduce",
        4,
        ((10_000_000, 1620.0),),
    )


@given(st.text(alphabet='0123456789 .e+-#{}[]":,rsultizeNaT\n<>stdou', max_size=400))
def test_nothing_that_a_file_holds_breaks_the_reader(text: str) -> None:
    for content in (text, '{"results": [' + text, "collective,size,time,algbw,busbw\n" + text):
        opened, skipped = records.read(content, None) or printed.read(content, None)
        assert skipped >= 0 and all(each.lines for each in opened)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2)
    ),
    max_leaves=4,
)


@given(
    st.sampled_from(
        ("config", "args", "devices", "rank", "hostname", "size", "in_place", "time", "redop")
    ),
    JSON,
)
def test_no_value_of_a_json_file_breaks_the_reader(key: str, value: object) -> None:
    """Any value where another is expected: the table without it, or none."""

    def broken(data: object) -> object:
        if isinstance(data, list):
            return [broken(each) for each in data]
        return (
            {k: value if k == key else broken(v) for k, v in data.items()}
            if isinstance(data, dict)
            else data
        )

    config = {
        "nthreads": 1,
        "ngpus": 1,
        "devices": [{"rank": at, "hostname": "n0"} for at in range(8)],
    }
    data = {"args": ["all_gather_perf"], "config": config, "results": [result(2**20, 50.0, 7 / 8)]}
    found = records.read(json.dumps(broken(data)), None)
    assert found is not None and len(found[0]) + found[1] == 1


@pytest.mark.parametrize(
    "text",
    [
        '{"results": [{"size": ' + "[" * 100_000,
        'collective,algbw\n"AllReduce","' + "x" * 200_000 + '"\n',
    ],
)
def test_what_no_parser_takes_is_no_table(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match="holds no table"):
        read_text(tmp_path, "x.txt", text)


def test_broken_lines_are_skipped_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "all_reduce.log"
    good = log(library({}))
    path.write_text(
        good
        + "garbage\n 1024 256 float sum -1 nan x\n 2048 512 float sum -1 10.0 99.0 1.0 0\n"
        + good
    )
    found = read(str(path))
    assert found.skipped == 2
    assert [len(table.points) for table in found.tables] == [len(SIZES)] * 2
    assert {table.ranks for table in found.tables} == {8}


def test_an_unknown_collective_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text("no table\n")
    with pytest.raises(InputError, match="holds no table"):
        read(str(path))
    path.write_text("1048576 262144 float none -1 100.0 10.49 9.17 0\n")
    with pytest.raises(InputError, match="the collective is unknown"):
        read(str(path))
    assert read(str(path), "all_gather").tables[0].ranks == 8


HEAD = "#  Rank {0:2d} Group  0 Pid {0} on a device {0} [0000:01:00] NVIDIA H100\n"
COPY = "  1048576  262144  float  sum  -1  6.02  174.18  0.00  0  0.41  2557.50  0.00  0\n"


def test_a_log_of_one_rank_is_named(tmp_path: Path) -> None:
    """busbw is 0 there, and the line of its rank is above the table."""
    path = tmp_path / "all_reduce.log"
    path.write_text(HEAD.format(0) + COPY, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read(str(path))
    [problem] = caught.value.problems
    assert problem.message == "is of one rank, which copies and sends nothing"
    assert problem.help == "a log of two ranks or more"


def test_a_table_of_one_rank_does_not_cost_the_others(tmp_path: Path) -> None:
    path = tmp_path / "all_reduce.log"
    path.write_text(HEAD.format(0) + COPY + HEAD.format(0) + HEAD.format(1) + LINE)
    found = read(str(path))
    assert [table.ranks for table in found.tables] == [2]
    assert found.skipped == 1


def document(test: str, ranks: int, times: list[tuple[int, float]], **config: object) -> str:
    """Output of `-J` of nccl-tests 2.17 and later (src/util.cu)."""
    devices = [{"rank": r, "group": 0, "hostname": "a", "device": r} for r in range(ranks)]
    factor = 2 * (ranks - 1) / ranks if "reduce" in test else (ranks - 1) / ranks
    results = [
        {
            "size": size, "count": size // 4, "type": "float", "redop": "sum", "root": "    -1",
            "out_of_place": None,
            "in_place": {
                "time": us, "alg_bw": size / us / 1e3, "bus_bw": factor * size / us / 1e3,
                "nwrong": None,
            },
            "in_place_per_iter": {"times_us": [us], "per_process_max_times_us": [[us]]},
        }
        for size, us in times
    ]  # fmt: skip
    head = {"nthreads": 1, "ngpus": 1, "devices": devices, **config}
    return json.dumps({"version": 2, "args": [test], "config": head, "results": results})


TIMES = [(2**20, 45.0), (2**24, 150.0)]


@pytest.mark.parametrize("form", ["[{0},{1}]", "{0}\n{1}\n", "[\n{0}\n,\n{1}"])
def test_several_documents_of_nccl_tests(tmp_path: Path, form: str) -> None:
    """A list of files, as `jq -s` makes it, and files one after the other; all are read."""
    text = form.format(
        document("./build/all_reduce_perf", 8, TIMES), document("./all_gather_perf", 4, TIMES)
    )
    path = tmp_path / "x.json"
    path.write_text(text, encoding="utf-8")
    found = read(str(path))
    assert [(t.collective, t.ranks) for t in found.tables] == [("all_reduce", 8), ("all_gather", 4)]
    assert [t.points for t in found.tables] == [tuple(TIMES)] * 2


def test_numbers_that_json_does_not_have(tmp_path: Path) -> None:
    """C prints an infinite rate as inf; the other sizes are read."""
    text = document("all_reduce_perf", 8, [(2**10, 5.0), *TIMES])
    text = text.replace(f'"alg_bw": {2**10 / 5.0 / 1e3}', '"alg_bw": inf', 1)
    path = tmp_path / "x.json"
    path.write_text(text, encoding="utf-8")
    found = read(str(path))
    assert found.tables[0].points == tuple(TIMES)
    assert found.skipped == 1


def test_ranks_in_groups_of_a_file(tmp_path: Path) -> None:
    """NCCL_TESTS_SPLIT: 8 processes in two groups; the table is of the first rank's."""
    devices = [{"rank": r, "group": r % 2, "hostname": "ab"[r // 4]} for r in range(8)]
    path = tmp_path / "x.json"
    path.write_text(document("all_reduce_perf", 8, TIMES, devices=devices), encoding="utf-8")
    [table] = read(str(path)).tables
    assert (table.ranks, table.hosts) == (4, 2)
