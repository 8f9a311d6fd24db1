"""Every preset of a platform either serves a model or says what it lacks."""

from __future__ import annotations

import pytest

from armillary import kernels
from armillary.errors import InputError
from armillary.kernels.shapes import Allreduce, Stream
from armillary.model.decoder_reader import decoder
from armillary.model.files import load_model
from armillary.platform import Platform, presets
from armillary.serve import (
    Layout,
    Lengths,
    Precision,
    deploy,
    drawn,
    load_engine,
    rooflines,
    serve,
)

LOAD = drawn(8, Lengths(200.0), Lengths(20.0), concurrency=4)
SHAPE = decoder(load_model("llama-3-8b"))
LACKS = ("npu.memory.capacity", "npu.memory.bandwidth", "npu.peak", "npu.compute.model")


@pytest.mark.parametrize("name", presets())
def test_every_preset_serves_or_says_what_it_lacks(name: str) -> None:
    platform = Platform.load(name)
    layout = Layout(tp=min(2, platform.npus))
    try:
        made = deploy(
            SHAPE, platform, load_engine("vllm"), layout, Precision(), longest=LOAD.longest
        )
    except InputError as error:
        assert name.startswith("paper-")
        lacks = {problem.place for problem in error.problems}
        assert lacks <= set(LACKS)
        assert all("--set npu" in problem.help for problem in error.problems)
        return
    served = serve(made, LOAD)
    # Each token reads the weights once, on the fastest GPU of them all at 8 TB/s.
    assert served.tpot.mean > 2 * 7.5e9 / layout.tp / 8.5e12
    warned = any("rooflines" in warning for warning in made.warnings)
    assert warned == (kernels.origin(platform)[1] is None)


def test_a_platform_without_rates_takes_those_that_are_set() -> None:
    """Twice the bandwidth halves the time of a token, which only reads weights."""
    times = []
    for rate in ("1 TB/s", "2 TB/s"):
        given = {
            "npu.memory.capacity": "80 GB", "npu.memory.bandwidth": rate, "npu.peak": "1000 PFLOPS",
        }  # fmt: skip
        platform = Platform.load("paper-multidim-2d", given)
        made = deploy(
            SHAPE, platform, load_engine("vllm"), Layout(), Precision(), longest=LOAD.longest
        )
        linear = next(term for term in made.terms if term.name == "linear")
        times.append(linear.seconds[0])
    launches = 32 * 4 * 3e-6
    assert (times[0] - launches) / (times[1] - launches) == pytest.approx(2, rel=0.01)


def test_kernels_of_amd_take_more_than_their_rooflines() -> None:
    """Hand calculation: launches, the factors on work, and the smallest all-reduce."""
    platform, more = Platform.load("mi300x-8"), rooflines.beyond("MI300X")
    assert rooflines.beyond("H100-SXM5-80GB") == rooflines.beyond(None) == rooflines.Beyond()
    stream = Stream(bytes=10**9)
    (seconds,) = rooflines.seconds([stream], platform)
    rate = 5.3e12 * 0.661
    assert seconds == pytest.approx(more.work * 1e9 / rate + more.launch, rel=1e-3)
    sizes = [1024, 2**16, 2**20, 2**26]
    sums = [Allreduce(bytes=size, members=8) for size in sizes]
    own, library = rooflines.seconds(sums, platform), rooflines.all_reduces(sums, platform)
    assert own[0] == pytest.approx(more.all_reduce)
    saved = [theirs - ours for ours, theirs in zip(own, library, strict=True)]
    assert saved == pytest.approx([saved[0]] * len(sizes))
