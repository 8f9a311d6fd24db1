"""Measured deployments next to a frontier: their file, the page, and what is refused."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from conftest import Armillary
from thorough import usually

from armillary.errors import InputError
from armillary.serve.measured_points import Measured, read_points

HEAD = "name,tokens/s/user,tokens/s/GPU\n"


def write(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "points.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("draw", range(usually(10, 300)))
def test_points_come_back(tmp_path: Path, draw: int) -> None:
    """Columns in any order, with and without names, a mark at the start and empty lines."""
    random_ = random.Random(draw)
    columns = ["tokens/s/user", "tokens/s/GPU", *(["name"] if draw % 2 else [])]
    random_.shuffle(columns)
    points = [
        Measured(random_.uniform(1, 500), random_.uniform(1, 1e5), f"TP {n}, x" if draw % 2 else "")
        for n in range(random_.randint(1, 30))
    ]
    values = {"tokens/s/user": "user", "tokens/s/GPU": "gpu", "name": "name"}
    rows = [
        ",".join(f'"{getattr(point, values[column])}"' for column in columns) for point in points
    ]
    end = random_.choice(["\n", "\r\n"])
    mark = random_.choice(["", "\ufeff"])
    text = mark + end.join([",".join(columns), *rows, "", ""])
    assert list(read_points(write(tmp_path, text))) == points


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no rows"),
        ("\n\n", "has no rows"),
        (HEAD, "0 rows of points"),
        ("a,b\n1,2\n", "has no column 'tokens/s/user'"),
        ("tokens/s/user,name\n1,x\n", "has no column 'tokens/s/GPU'"),
        (HEAD.replace("name", "cost") + "x,1,2\n", "unknown column 'cost'"),
        ("tokens/s/user,tokens/s/user,tokens/s/GPU\n1,2,3\n", "is given twice"),
        (HEAD + "x,1\n", "line 2: 2 values for 3 columns"),
        (HEAD + "x,1,2,3\n", "4 values for 3 columns"),
        (HEAD + "x,0,2\n", "line 2: tokens/s/user: invalid rate: '0'"),
        (HEAD + "x,-3,2\n", "invalid rate: '-3'"),
        (HEAD + "x,1,nan\n", "line 2: tokens/s/GPU: invalid rate: 'nan'"),
        (HEAD + "x,1,inf\n", "invalid rate: 'inf'"),
        (HEAD + "x,1e10,2\n", "invalid rate"),
        (HEAD + "x,fast,2\n", "invalid rate: 'fast'"),
        (HEAD + 'x,"1,2\n', "is not CSV"),
        (b"\xff\xfe\x00", "is not UTF-8 text"),
        (HEAD + "x,1,2\n" * 20_001, "20,001 rows of points"),
        (HEAD + "y" * (4 * 2**20), "points.csv"),
    ],
    ids=lambda value: repr(value[-30:]),
)
def test_bad_files_are_named(tmp_path: Path, text: str | bytes, said: str) -> None:
    with pytest.raises(InputError) as caught:
        read_points(write(tmp_path, text))
    assert said in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.csv"):
        read_points(tmp_path / "nowhere.csv")


def test_the_page_shows_them_next_to_the_frontier(armillary: Armillary, tmp_path: Path) -> None:
    """The measured frontier has three of five points; none of ours is as fast as the last one."""
    points = write(
        tmp_path, HEAD + "slow,40,3000\nbeaten,39,100\nmiddle,60,2500\nalso,50,2400\nlight,1e6,5\n"
    )
    page = tmp_path / "page.html"
    command = (
        "plan", "llama-3-8b", "-p", "dgx-h100", "--serve", "--slo", "tpot=20ms", "--ranks", "2",
        "--simulations", "1", "--measured", str(points),
    )  # fmt: skip
    shown = armillary(*command, "--report", str(page))
    assert shown.returncode == 0, shown.stderr
    table = shown.stdout[shown.stdout.index("Measured deployments") :]
    assert all(name in table for name in ("slow", "middle", "light", "none"))
    assert "beaten" not in table and "also" not in table
    html = page.read_text(encoding="utf-8")
    assert "beaten" in html and "cross" in html
    document = json.loads(armillary(*command, "--json", "-").stdout)
    assert [point["name"] for point in document["measured"]][:2] == ["slow", "beaten"]
    assert document["measured"][2]["output_tokens_per_s_per_gpu"] == 2500
    # Ours next to `middle`: as good in one quantity, and best in the other.
    ours = [
        (point["tokens_per_s_per_user"], point["output_tokens_per_s_per_gpu"])
        for point in document["frontier"]
    ]
    gpu = max(gpu for user, gpu in ours if user >= 60)
    user = max(user for user, gpu in ours if gpu >= 2500)
    row = next(line for line in table.splitlines() if "middle" in line)
    assert f"{gpu:,.4g} ({gpu / 2500 - 1:+.0%})" in row
    assert f"{user:,.4g} ({user / 60 - 1:+.0%})" in row


def test_a_bad_file_ends_the_command(armillary: Armillary, tmp_path: Path) -> None:
    run = armillary(
        "plan", "llama-3-8b", "-p", "dgx-h100", "--serve", "--slo", "tpot=20ms", "--measured",
        str(write(tmp_path, "a,b\n1,2\n")),
    )  # fmt: skip
    assert run.returncode == 2
    assert "has no column 'tokens/s/user'" in run.stderr
