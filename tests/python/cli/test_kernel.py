"""`armillary kernel`: one kernel by itself."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from conftest import Armillary

from armillary import kernels
from armillary.platform import Platform
from armillary.uncertainty.kernels import ends


def test_a_kernel_in_words_and_as_json(armillary: Armillary) -> None:
    words = armillary("kernel", "stream", "bytes=1000000000", "-p", "dgx-h100")
    assert "one H100-SXM5-80GB" in words.stdout
    found = json.loads(
        armillary("kernel", "stream", "1000000000", "-p", "dgx-h100", "--json", "-").stdout
    )
    assert found["schema"] == "armillary.kernel/1"
    one = kernels.one(kernels.Stream(bytes=10**9), Platform.load("dgx-h100"))
    assert found["time_us"] == one.seconds * 1e6
    # No stream is faster than the data sheet's 3,350 GB/s.
    assert one.seconds > 10**9 / 3350e9


def test_a_page_has_the_kernel_on_every_gpu(armillary: Armillary, tmp_path: Path) -> None:
    run = armillary(
        "kernel", "stream", "1000000", "-p", "dgx-h100", "--report", "k.html", cwd=tmp_path
    )
    text = (tmp_path / "k.html").read_text(encoding="utf-8")
    assert run.returncode == 0, run.stderr
    assert all(name in text for name in ("dgx-a100", "hgx-h200", "dgx-b200", "l40s-8"))


def test_intervals_widen_where_a_group_is_missing() -> None:
    """Two groups of equal spread: one alone leaves wider tails than both."""
    spread = [0.01 * at for at in range(-50, 51)]
    low, high = ends([spread, spread])
    assert low < math.exp(-0.4) < 1 < math.exp(0.4) < high
    alone = ends([spread])
    assert alone[0] < low
    assert high < alone[1]
    assert ends([[0.5, 0.6]])[0] == 1.0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["strem", "10"], "unknown kind of kernel: 'strem'"),
        (["stream"], "Missing argument"),
        (["stream", "10x10"], "2 counts, not 1"),
        (["stream", "0"], "invalid count of bytes: '0'"),
        (["stream", "-5"], "-5"),
        (["stream", "1e9"], "invalid count of bytes: '1e9'"),
        (["stream", "bytes=ten"], "invalid count of bytes: 'ten'"),
        (["stream", "size=10"], "unknown part of a shape: 'size'"),
        (["stream", "10", "bytes=10"], "bytes is given twice"),
        (["stream", "9" * 30], "invalid count of bytes"),
        (["stream", "10", "-p", "no-such-platform"], "no-such-platform"),
        (["stream", "10", "-p", "toy.yml"], "the platform has no npu.kernels"),
        (["stream", "10", "--set", "npu.kernels.stream.launch=x"], "npu.kernels.stream.launch"),
    ],
)
def test_what_is_refused(
    armillary: Armillary,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    links = "links: [{bandwidth: 1 GB/s, latency: 1 us}]"
    Path("toy.yml").write_text(f"topology: Ring(4)\n{links}\n", encoding="utf-8")
    more = [] if "-p" in arguments else ["-p", "dgx-h100"]
    run = armillary("kernel", *arguments, *more)
    assert run.returncode == 2, run
    assert said in run.stderr
    assert "Traceback" not in run.stderr
