"""Lists of measured matrix multiplications become tables; what can't be used is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import ROOT, Armillary

from armillary import InputError
from armillary.platform import read_gemm_table

DEV = ROOT / "../shared/measurements/dev.json"
SHAPE = (1, 1024, 1024, 1024, 2)


def write(folder: Path, text: str, name: str = "list.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("columns", "values", "ps"),
    [
        ("us,dtype", "17.99,bf16", 17_990_000),
        ("time_ms,width", "0.5,2", 500_000_000),
        ("Latency_us_Device,DType", "1e-7,FP16", 1),
        ("time,dtype", "18 us,half", 18_000_000),
        ("seconds,width", "2,2", 2 * 10**12),
        # 2 * 1024^3 / 100e12 s
        ("tflops,width", "100,2", 21_474_837),
        ("gflops,width", "100000,2", 21_474_837),
    ],
)
def test_times_and_rates(tmp_path: Path, columns: str, values: str, ps: int) -> None:
    path = write(tmp_path, f"# where from\nM,N,K,{columns}\n1024,1024,1024,{values}\n")
    assert read_gemm_table(path).times == ((SHAPE, ps),)


def test_repeated_shapes_take_their_median(tmp_path: Path) -> None:
    rows = [{"m": 8, "n": 8, "k": 8, "batch": 2, "us": us} for us in (9, 1, 3)]
    table = read_gemm_table(
        write(tmp_path, json.dumps({"rows": rows, "note": "x"}), "list.json"), width=4
    )
    assert table.times == (((2, 8, 8, 8, 4), 3_000_000),)
    assert (
        table.to_csv()
        == "# 3 measurements of 1 shapes from list.json\nbatch,m,n,k,width,time\n2,8,8,8,4,3 us\n"
    )


def test_every_row_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    rows = ["0,1,1,fp16,1,", "1,1,1,fp5,1,", "1,1,1,fp16,,", "1,1,1,fp16,-1,", "1,1,1,fp16,x,"]
    text = "\n".join(["m,n,k,dtype,us,tflops", *rows, ""])
    with pytest.raises(InputError) as raised:
        read_gemm_table(write(tmp_path, text))
    found = [(problem.place, problem.message) for problem in raised.value.problems]
    assert found == [
        ("line 2", 'm "0" is not allowed'),
        ("line 3", 'dtype "fp5" is unknown'),
        ("line 4", "neither a time nor a rate"),
        ("line 5", "the time is not above zero"),
        ("line 6", '"x" is not a number'),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("m,n\n1,2\n", "no row has m, n and k"),
        ("{}", "it has no list of rows with m, n and k"),
        ("[1,", "is not JSON"),
        ("m,n,k,width,us,ms\n1,1,1,2,1,1\n", "several columns hold times: us, ms"),
        ("m,n,k,width,time\n1,1,1,2,5\n", 'time "5" has no unit'),
        ("m,n,k,us\n1,1,1,5\n", "neither width nor dtype"),
        ("m,n,k,us,gpu\n1,1,1,5,A\n1,1,1,5,B\n", "rows of 2 NPUs: A, B"),
        ("m,n,k,us,kind\n1,1,1,5,conv\n", "no row is a matrix multiplication"),
    ],
)
def test_lists_that_are_none(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError) as raised:
        read_gemm_table(write(tmp_path, text))
    assert raised.value.problems[0].message.startswith(message)


def test_one_of_several_columns_is_chosen(tmp_path: Path) -> None:
    path = write(tmp_path, "m,n,k,width,us,ms\n1,1,1,2,3,1\n")
    assert read_gemm_table(path, time="us").times[0][1] == 3_000_000


def test_published_measurements() -> None:
    if not DEV.exists():
        pytest.skip(f"{DEV} is not there")
    table = read_gemm_table(DEV, where={"gpu": "A100 (ND A100 v4)"})
    assert (len(table.times), table.times[0]) == (6, (SHAPE, 17_990_000))
    with pytest.raises(InputError, match="no matrix multiplication has gpu=A200"):
        read_gemm_table(DEV, where={"gpu": "A200"})


def test_an_imported_table_is_read_by_a_platform(armillary: Armillary, tmp_path: Path) -> None:
    write(tmp_path, "m,n,k,dtype,us\n1024,1024,1024,fp16,17.99\n")
    run = armillary("platform", "import-gemm", "list.csv", "-o", "gemm.csv", "--json", "-")
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["shapes"] == 1
    settings = [
        "--set",
        "npu.compute.model=measured",
        "--set",
        f"npu.compute.table={tmp_path / 'gemm.csv'}",
    ]
    shown = armillary("platform", "show", "dgx-a100", *settings, "--json", "-")
    assert shown.returncode == 0, shown.stderr
    npu = json.loads(shown.stdout)["npu"]
    assert (npu["compute"], npu["compute_settings"]["table"]["file"]) == ("measured", "gemm.csv")
    wrong = armillary("platform", "import-gemm", "list.csv", "-o", "t.csv", "--where", "gpu")
    assert (wrong.returncode, "has no '='" in wrong.stderr) == (2, True)
