"""Tables of measured kernels: what is read, and what is refused."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import pytest

from armillary.errors import InputError
from armillary.kernels import Stream
from armillary.kernels.tables import Left, Measured, Table, count, read
from armillary_lab.score.__main__ import main

STREAMS = Table("stream", ("stream_bytes",), lambda row: Stream(bytes=count(row, "stream_bytes")))
HEAD = "system,backend,ver,stream_bytes,latency_us\n"


def rows(tmp_path: Path, content: str | bytes, name: str = "x.csv") -> list[Measured | Left]:
    file = tmp_path / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return list(read(file, (STREAMS,)))


def test_rows_are_kernels_or_reasons(tmp_path: Path) -> None:
    text = HEAD + "h100,trtllm,1.0,1000,2.5\nmystery,x,1,10,1\nh100,x,1,ten,1\n"
    plain = rows(tmp_path, text)
    assert plain == [
        Measured("stream", "h100", "trtllm 1.0", Stream(bytes=1000), 2.5),
        Left("no preset for mystery"),
        Left("stream_bytes is 'ten'"),
    ]
    assert rows(tmp_path, gzip.compress(text.encode()), "x.csv.gz") == plain


@pytest.mark.parametrize(
    "content",
    [
        "",
        "a,b\n1,2\n",
        HEAD + "h100,x,1,10\n",
        HEAD + "h100,x,1,10,1,2\n",
        HEAD + "h100,x,1,10,fast\n",
        HEAD + "h100,x,1,10,nan\n",
        HEAD + "h100,x,1,10,-1\n",
        HEAD + "h100,x,1,10,0\n",
        HEAD + "h100,x,1,10,1e300\n",
        b"\xff\xfe",
        b"\x1f\x8bnot gzip",
        HEAD + 'h100,"x,1,10,1\n',
    ],
    ids=range(12),
)
def test_other_tables_are_refused(tmp_path: Path, content: str | bytes) -> None:
    with pytest.raises(InputError):
        rows(tmp_path, content)


def test_a_file_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    """One piece of 1 MiB, again and again, is packed once."""
    packed = zlib.compressobj(wbits=31)
    first, piece = (
        packed.compress(bytes(1 << 20)) + packed.flush(zlib.Z_FULL_FLUSH) for _ in range(2)
    )
    with pytest.raises(InputError, match="unpacks to more than 256 MiB"):
        rows(tmp_path, first + 256 * piece, "x.csv.gz")


def test_the_command_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    assert main([str(tmp_path / "x.csv")]) == 2
    assert main([str(tmp_path / "missing.csv")]) == 2
    assert "is no table of measured kernels" in capsys.readouterr().err
