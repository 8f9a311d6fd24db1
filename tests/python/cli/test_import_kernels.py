"""`armillary import` of tables of measured kernels, as a user calls it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from conftest import Armillary

HEAD = "system,backend,ver,gemm_dtype,m,n,k,latency_us\n"
ROWS = "".join(
    f"h100_sxm,trtllm,1.0,bfloat16,{m},{n},4096,{us}\n"
    for m, n, us in (
        (1, 4096, 12.5), (64, 4096, 13.25), (4096, 4096, 220.0), (1, 8192, 22.5), (64, 8192, 24.5),
        (4096, 8192, 425.0), (4096, 8192, 435.0), (4096, 8192, 475.0),
    )
)  # fmt: skip
OTHERS = "a100,trtllm,1.0,bfloat16,64,64,64,9\nh100,trtllm,1.0,fp6,64,64,64,9\n"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "gemm.csv"
    path.write_text(HEAD + ROWS + OTHERS, encoding="utf-8")
    return path


def test_a_table_becomes_a_platform(armillary: Armillary, tmp_path: Path, table: Path) -> None:
    packed = tmp_path / "gemm.csv.gz"
    packed.write_bytes(gzip.compress(table.read_bytes()))
    run = armillary("import", packed, "-p", "dgx-h100", "-o", "mine.yml", "--json", "i.json")
    assert run.returncode == 0, run.stderr
    assert "8 measured kernels of H100-SXM5-80GB by trtllm 1.0 in mine.yml" in run.stdout
    found = json.loads((tmp_path / "i.json").read_text(encoding="utf-8"))
    assert found["left_out"] == [
        {"reason": "measured on a100", "rows": 1},
        {"reason": "products in fp6 have no parameters", "rows": 1},
    ]
    assert [(each["rows"], each["shapes"]) for each in found["kernels"]] == [(8, 6)]
    kernel = ("kernel", "gemm", "4096x8192x4096", "copies=5", "-p", "mine.yml")
    exact = armillary(*kernel)
    assert "time      435 us" in exact.stdout, exact.stderr
    assert "measured: the median of 3 rows of mine.kernels.json" in exact.stdout
    armillary("import", table, "-p", "dgx-h100", "-o", "again.yml")
    first, again = (tmp_path / f"{name}.kernels.json" for name in ("mine", "again"))
    same = first.read_text(encoding="utf-8").replace("gemm.csv.gz", "gemm.csv")
    assert again.read_text(encoding="utf-8") == same
    assert armillary("check", "-p", "mine.yml").returncode == 0
    first.write_text(same.replace("435.0", "-1.0"), encoding="utf-8")
    wrong = armillary("check", "-p", "mine.yml")
    assert wrong.returncode == 2
    assert "mine.kernels.json" in wrong.stderr


def test_every_form_of_a_result_says_what_it_rests_on(
    armillary: Armillary, tmp_path: Path, table: Path
) -> None:
    armillary("import", table, "-p", "dgx-h100", "-o", "mine.yml")
    kernel = ("kernel", "gemm", "copies=5", "-p", "mine.yml")
    between = armillary(*kernel, "512x4096x4096")
    assert "interpolated between 6 rows of mine.kernels.json" in between.stdout
    outside = armillary(*kernel, "9000x4096x4096", "--json", "-", "--report", "k.html")
    found = json.loads(outside.stdout)
    assert found["basis"]["how"] == "outside"
    assert found["basis"]["outside"] == ["m 1 to 4096"]
    assert found["basis"]["rows"] == 6
    said = "outside the measured m 1 to 4096: the nearest 6 rows of mine.kernels.json"
    assert said in found["warnings"]
    assert said in (tmp_path / "k.html").read_text(encoding="utf-8")


def test_rows_of_another_gpu_are_taken_where_they_are_named(
    armillary: Armillary, tmp_path: Path, table: Path
) -> None:
    refused = armillary("import", table, "-p", "hgx-h200", "-o", "mine.yml")
    assert refused.returncode == 2
    assert "no row was measured on h200; the GPUs of the table: a100, h100" in refused.stderr
    assert not (tmp_path / "mine.yml").exists()
    taken = armillary("import", table, "-p", "hgx-h200", "--gpu", "H100", "-o", "mine.yml")
    assert taken.returncode == 0, taken.stderr
    unstated = tmp_path / "unstated.csv"
    text = "\n".join(line.partition(",")[2] for line in (HEAD + ROWS).splitlines())
    unstated.write_text(text + "\n", encoding="utf-8")
    assert armillary("import", unstated, "-p", "hgx-h200", "-o", "x.yml").returncode == 0


ROW = "h100,trtllm,1.0,bfloat16,64,64,64,9\n"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is no table of measured kernels"),
        ("a,b\n1,2\n", "is no table of measured kernels"),
        (HEAD, "no row can be used: it has no rows"),
        (HEAD + ROW.replace(",9", ",fast"), "latency_us is not a number"),
        (HEAD + ROW.replace(",9", ",-9"), "latency_us is -9"),
        (HEAD + ROW.replace(",9", ""), "another number of columns"),
        (HEAD + ROW.replace("64,64,64", "0,0,0"), "no row can be used"),
        (HEAD + ROW.replace("64,64,64", "many,64,64"), "m is 'many'"),
        (HEAD + ROW.replace("bfloat16", "fp6"), "products in fp6"),
        (HEAD.replace("backend", "engine") + ROW, "an engine that is not stated"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"\x1f\x8bnot gzip", "table.csv"),
    ],
    ids=range(12),
)
def test_wrong_tables_are_refused(
    armillary: Armillary, tmp_path: Path, content: str | bytes, said: str
) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    run = armillary("import", path, "-p", "dgx-h100", "-o", "mine.yml")
    assert run.returncode == 2, run
    assert said in run.stderr
    assert "Traceback" not in run.stderr
    assert not list(tmp_path.glob("mine*"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["TABLE", "-o", "mine.yml"], "needs the platform that was measured"),
        (["TABLE", "-p", "dgx-h100", "-o", "-"], "are two files"),
        (["TABLE", "-p", "dgx-h100", "-o", "TABLE"], "is also the file of the input"),
        (["TABLE", "trace.json", "-p", "dgx-h100", "-o", "mine.yml"], "a table next to traces"),
        (["TABLE", "-p", "dgx-h100", "-o", "mine.yml", "--ranks", "4"], "no effect on tables"),
        (["trace.json", "-p", "dgx-h100", "-o", "out"], "no effect on traces"),
        (["TABLE", "-p", "mi300x-8", "-o", "mine.yml"], "has no npu.kernels"),
        (["TABLE", "-p", "dgx-h100", "-o", "mine.yml", "--gpu", "-"], "no name of a GPU"),
        (["TABLE", "-p", "no-such", "-o", "mine.yml"], "no-such"),
        (["missing.csv", "-p", "dgx-h100", "-o", "mine.yml"], "missing.csv"),
    ],
)
def test_wrong_words_are_refused(
    armillary: Armillary, tmp_path: Path, table: Path, arguments: list[str], said: str
) -> None:
    run = armillary("import", *(str(table) if each == "TABLE" else each for each in arguments))
    assert run.returncode == 2, run
    assert said in run.stderr
    assert "Traceback" not in run.stderr
    assert not list(tmp_path.glob("mine*"))


def test_a_platform_that_cannot_be_written_leaves_no_kernels(
    tmp_path: Path, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C between the two files."""
    from armillary import files
    from armillary.cli.import_kernels import import_kernels

    monkeypatch.chdir(tmp_path)
    write = files.write_text

    def stopped(path: str | Path, text: str) -> None:
        if str(path).endswith(".yml"):
            raise KeyboardInterrupt
        write(path, text)

    monkeypatch.setattr(files, "write_text", stopped)
    with pytest.raises(KeyboardInterrupt):
        import_kernels([str(table)], "dgx-h100", None, "mine.yml", None)
    assert not list(tmp_path.glob("mine*"))
