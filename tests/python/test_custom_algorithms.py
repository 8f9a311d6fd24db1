"""Algorithms from files do what their collective promises, or are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Armillary

PLATFORM = """\
topology: FullyConnected(2)
links: {bandwidth: 100 GB/s, latency: 1 us, per: npu}
collectives: {all_reduce: {custom: FILE}}
"""
STEP = (
    '<step s="{0}" type="{1}" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="-1" '
    'deps="-1" hasdep="0"/>'
)


def algorithm(coll: str, *kinds: str) -> str:
    """An algorithm of two ranks in place, with the same steps on both."""
    steps = "".join(STEP.format(number, kind) for number, kind in enumerate(kinds))
    ranks = "".join(
        f'<gpu id="{rank}" i_chunks="1" o_chunks="0" s_chunks="0">'
        f'<tb id="0" send="{1 - rank}" recv="{1 - rank}" chan="0">{steps}</tb></gpu>'
        for rank in range(2)
    )
    head = f'<algo name="a" coll="{coll}" ngpus="2" nchunksperloop="1" inplace="1">'
    return f"{head}{ranks}</algo>"


def write(folder: Path, text: str) -> None:
    (folder / "p.yml").write_text(PLATFORM.replace("FILE", "a.xml"), encoding="utf-8")
    (folder / "a.xml").write_text(text, encoding="utf-8")


VERBS = pytest.mark.parametrize(
    "verb", [["check"], ["collective", "all_reduce", "-b", "1M", "-e", "1M"]], ids=lambda v: v[0]
)


@VERBS
def test_one_that_reduces_nothing_is_refused(
    verb: list[str], armillary: Armillary, tmp_path: Path
) -> None:
    write(tmp_path, algorithm("allreduce", "cpy"))
    done = armillary(*verb, "-p", "p.yml")
    assert done.returncode == 2
    wanted = "rank 0 ends with chunk 0 of its output without chunk 0 of rank 1"
    assert done.stderr.startswith(f"error: {wanted}\n  in: a.xml\n"), done.stderr


@VERBS
def test_one_that_reduces_runs(verb: list[str], armillary: Armillary, tmp_path: Path) -> None:
    write(tmp_path, algorithm("allreduce", "s", "rrc"))
    done = armillary(*verb, "-p", "p.yml")
    assert (done.returncode, "warning" in done.stderr) == (0, False), done.stderr


def test_what_is_not_known_is_a_warning(armillary: Armillary, tmp_path: Path) -> None:
    write(tmp_path, algorithm("custom", "s", "rrc"))
    done = armillary("check", "-p", "p.yml")
    assert done.returncode == 0
    assert "warning: a.xml: the result of this algorithm was not checked" in done.stderr
