"""Files that once ended in an internal error: they are refused with a place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

from armillary import InputError
from armillary.calibrate.bench_file import read_bench
from armillary.report import reading, run_page
from armillary.report.quantity import time
from armillary.schema import Report
from armillary.traffic.patterns import Pattern
from armillary.workload.dlrm_bench import read_parts
from armillary.workload.frameworks import load_framework

BENCH: dict[str, Any] = {
    "schema": "armillary.bench/1",
    "machine": {"processor": "x", "cores": 2, "memory_bytes": 2**34},
    "processes": 1,
    "gemms": [{"name": "p", "batch": 1, "m": 64, "n": 32, "k": 16, "us": 5.0}],
    "streams": [{"op": "copy", "bytes": 10**7, "us": 1000.0}],
    "embeddings": [],
    "mlps": [{"samples": 64, "layers": [[16, 32]], "us": 90.0}],
    "collectives": [],
}


def bench(folder: Path, **changed: Any) -> str:  # noqa: ANN401
    path = folder / "bench.json"
    path.write_text(json.dumps({**BENCH, **changed}))
    return str(path)


def test_a_bench_of_today_is_read(tmp_path: Path) -> None:
    found = read_bench(bench(tmp_path))
    assert found is not None and found.kernels[0].shape == (1, 64, 32, 16, 4)


@pytest.mark.parametrize(
    "changed",
    [
        {"gemms": [{**BENCH["gemms"][0], "m": 0}]},
        {"gemms": [{**BENCH["gemms"][0], "m": -1}]},
        {"gemms": [{**BENCH["gemms"][0], "k": 2**60}]},
        {"gemms": [{**BENCH["gemms"][0], "us": 0}]},
        {"gemms": {}},
        {"processes": 0},
        {"processes": 10**9},
        {"machine": []},
        {"streams": [{"op": 7, "bytes": "x", "us": 1}]},
        {"mlps": [{"samples": 64, "layers": [], "us": 90.0}]},
        {"mlps": [{"samples": 64, "layers": [[16]], "us": 90.0}]},
        {"collectives": [7]},
    ],
)
def test_a_bench_that_is_damaged(changed: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is damaged"):
        read_bench(bench(tmp_path, **changed))


def test_a_part_that_takes_for_ever(tmp_path: Path) -> None:
    path = bench(tmp_path, model="m", batch=2, parts=[{"name": "a", "us": 1e308}])
    with pytest.raises(InputError, match="is damaged"):
        read_parts(path, "m", 1, 2)


@pytest.mark.parametrize("text", ["0,1,1\r0,2,1\n", '0,1,"' + "1" * 200_000, "0,1,1\n0,2,1\r3,4,5"])
def test_flows_that_are_not_csv(text: str, tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_bytes(text.encode())
    with pytest.raises(InputError, match=r"line \d+: is not CSV"):
        Pattern.parse(str(path))


def changed(report: Report, **values: Any) -> str:  # noqa: ANN401
    return json.dumps({**report, **values})


def test_a_report_with_infinite_numbers(report: Report) -> None:
    """Numbers of 10^308 become infinite where they are multiplied."""
    text = changed(report, step_time_ns=123456.5)
    with pytest.raises(InputError, match="Number out of range"):
        reading.parse(text.replace("123456.5", "1e999"))
    large = reading.parse(text.replace("123456.5", "1.7e308"))
    assert run_page.page(large)
    assert time(float("inf")).startswith("inf")


@pytest.mark.parametrize("settings", ["text", 7, {"speedup_ppm": "x"}, {"peak_by_type_flops": [1]}])
def test_a_report_with_other_settings_of_compute(settings: object, report: Report) -> None:
    body: dict[str, Any] = json.loads(json.dumps(report))
    body["config"]["platform"]["npu"]["compute_settings"] = settings
    with pytest.raises(InputError, match="is not a report"):
        reading.parse(json.dumps(body))


def test_a_report_of_no_ranks_or_of_an_unknown_block(report: Report) -> None:
    with pytest.raises(InputError, match="at least 1"):
        reading.parse(changed(report, ranks=0))
    body: dict[str, Any] = json.loads(json.dumps(report))
    for dim in body["config"]["platform"]["fabric"]["dims"]:
        dim["block"] = "Moebius"
    with pytest.raises(InputError, match="unknown block 'Moebius'"):
        reading.parse(json.dumps(body))


def test_a_framework_whose_names_are_no_text(tmp_path: Path) -> None:
    text = (ROOT / "frameworks/megatron-lm.yml").read_text(encoding="utf-8")
    path = tmp_path / "f.yml"
    path.write_text(text.replace("name: ", "name: [a] #", 1))
    with pytest.raises(InputError, match="is not a name"):
        load_framework(path)
