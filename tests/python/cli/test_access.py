"""`armillary platform access`: the price of accesses to memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import ROOT

from armillary.cli.app import main

POOL = str(ROOT / "examples/papers/pool.yml")


def _prices(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, float]:
    assert main(["platform", "access", POOL, "--bytes", "64MB", "--json", "-", *options]) == 0
    found: dict[str, float] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize(
    ("by", "bandwidth"), [(1, 200), (16, 200 / 16), (256, 3200 / 256)], ids=["1", "node", "all"]
)
def test_links_that_are_shared_set_the_price(
    capsys: pytest.CaptureFixture[str], by: int, bandwidth: float
) -> None:
    """The worked example of the paper: 200 GB/s into a node of 16, 3.2 TB/s from all groups."""
    found = _prices(capsys, "--by", str(by))
    assert found["last_ns"] == pytest.approx(64e6 / bandwidth, rel=5e-3)
    assert (found["by"], found["npus"]) == (by, 256)


def test_the_local_access_of_the_paper(capsys: pytest.CaptureFixture[str]) -> None:
    """64 MB at 2 TB/s after 1 us."""
    assert _prices(capsys, "--location", "local")["last_ns"] == 33_000


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--by", "300"], "300 of 256 NPUs"),
        (["--by", "16", "--location", "in_switch"], "switches gather the shards of all 256 NPUs"),
        (["--location", "disk"], 'memory that is "disk"'),
        (["--bytes", "-1"], "invalid size"),
    ],
)
def test_accesses_that_cannot_be_are_refused(
    capsys: pytest.CaptureFixture[str], options: list[str], says: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["platform", "access", POOL, "--bytes", "64MB", *options])
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


def test_text_says_who_accesses(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "price.json"
    assert main(["platform", "access", POOL, "-b", "64MB", "--store", "--json", str(file)]) == 0
    assert capsys.readouterr().out == (
        "store of 64MB, remote, by 256 of 256 NPUs at once: 5.130 ms\n"
    )
    assert json.loads(file.read_text(encoding="utf-8"))["store"] is True
