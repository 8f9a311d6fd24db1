"""What would help: derivatives are those of the formula, and runs are bounded."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small import one, switch
from thorough import usually

import armillary as arm
from armillary.explain import whatif
from armillary.repeat import Unrepeatable
from armillary.report.page import Table
from armillary.schema import Report


@settings(max_examples=usually(10, 150))
@given(
    n=st.integers(3, 9),
    fragment=st.integers(1000, 10**7),
    bandwidth=st.integers(1, 400),
    latency=st.integers(1, 3000),
    delay=st.integers(1, 100),
)
def test_derivatives_of_a_ring_are_its_formulas(
    n: int, fragment: int, bandwidth: int, latency: int, delay: int
) -> None:
    """T = e + 2 (n-1) (L + f/B + e) + (n-1) 3f/M, docs/models/collectives.md: what a tenth of each
    term is worth."""
    chosen = {
        "npu.memory.bandwidth": "800 GB/s",
        "scheduler.endpoint_delay": f"{delay} ns",
        "collectives.all_reduce": "ring",
    }
    platform = arm.Platform(
        f"R({n})", bandwidth=f"{bandwidth} GB/s", latency=f"{latency} ns", settings=chosen
    )
    result = one("all_reduce", fragment * n, platform)
    effects = {each["change"]: each for each in result.explain("all_reduce").data["what_if"]}
    steps = 2 * (n - 1)
    expected = {
        f"10 % more bandwidth of Ring({n})": steps * fragment / bandwidth * (1 - 1 / 1.1),
        f"10 % less latency of Ring({n})": steps * latency * 0.1,
        "10 % less endpoint delay": (steps + 1) * delay * 0.1,
        "10 % faster memory": (n - 1) * 3 * fragment / 800 * (1 - 1 / 1.1),
    }
    for change, gain in expected.items():
        # Every message is rounded up to the picosecond.
        assert effects[change]["gain_ns"] == pytest.approx(gain, abs=1e-3 * (steps + 1)), change
        share = effects[change]["gain_ns"] / result.step_time_ns
        assert effects[change]["elasticity"] == pytest.approx(share / 0.1)


def test_choices_are_what_the_runs_say() -> None:
    explanation = one("all_reduce", 100_000_000, switch("ring"), "link").explain("grad7")
    effects = {each["change"]: each for each in explanation.data["what_if"]}
    direct = one("all_reduce", 100_000_000, switch("direct"), "link")
    assert (
        effects["direct instead of ring for all_reduce on Switch(8)"]["step_ns"]
        == direct.step_time_ns
    )
    gains = [each["operation_ns"] for each in explanation.data["what_if"]]
    assert gains == sorted(gains)


def test_runs_stop_when_time_is_up() -> None:
    result = one("all_reduce", 1_000_000, switch("ring"))
    explanation = result.explain(seconds=0.0)
    assert len(explanation.data["what_if"]) == 1, "one run tells how long they take"
    assert "changes: the others took" in explanation.data["left_out"][0]


def test_a_change_that_cannot_run_is_left_out_with_its_reason() -> None:
    platform = arm.Platform("R(6)", bandwidth="25 GB/s", latency="1 us")
    explanation = one("all_reduce", 1_000_000, platform).explain()
    assert any("halving_doubling" in reason for reason in explanation.data["left_out"])


def test_why_nothing_runs_again_is_said() -> None:
    report = one("all_reduce", 1_000_000, switch("ring")).report
    found = whatif.effects(report, Unrepeatable("the files are gone"))
    assert (list(found.effects), list(found.left_out)) == (
        [],
        ["the run can't be repeated: the files are gone"],
    )


def test_no_more_runs_than_the_most() -> None:
    blocks = ["R(2)"] * 12
    platform = arm.Platform("_".join(blocks), bandwidth="25 GB/s", latency="1 us")
    report = one("all_reduce", 1_000_000, platform).report
    runs: list[Mapping[str, str]] = []

    def again(settings: Mapping[str, str], _detail: bool, _options: object) -> Report:
        runs.append(settings)
        return report

    found = whatif.effects(report, again)
    assert len(runs) == whatif.MOST
    assert f"at most {whatif.MOST} are tried" in found.left_out[0]


def test_a_change_without_an_effect_is_named_and_not_drawn() -> None:
    """Latency is nothing next to the bytes of 8 GB, and a library chooses chunks by itself."""
    section = one("all_reduce", 2**33, arm.Platform.load("dgx-h100")).explain().page.sections[-1]
    texts = [part for part in section.parts if isinstance(part, str)]
    assert not any("chunks instead" in text for text in texts)
    (table,) = (part for part in section.parts if isinstance(part, Table))
    assert "+0.00 %" not in {row[-1] for row in table.rows}
    assert any(text.startswith("No effect: 10 % less latency") for text in texts)
