"""Quantities keep their value and pick a readable unit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from armillary.report import quantity
from armillary.report.scale import Scale

NS = {"ps": 1e-3, "ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0"),
        (0.25, "250 ps"),
        (1, "1.000 ns"),
        (1234.5, "1.234 us"),
        (48_731_000, "48.73 ms"),
        (3.6e12, "3600 s"),
    ],
)
def test_time(ns: float, text: str) -> None:
    assert quantity.time(ns) == text


@given(st.floats(1e-3, 1e15))
def test_time_is_right_to_half_a_digit(ns: float) -> None:
    value, unit = quantity.time(ns).split()
    assert float(value) * NS[unit] == pytest.approx(ns, rel=1e-3, abs=6e-4)


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.000 kB"), (68719476736, "68.72 GB")]
)
def test_size(count: int, text: str) -> None:
    assert quantity.size(count) == text


@given(st.floats(0, 1e15))
def test_a_quantity_remembers_its_number(number: float) -> None:
    for written in (quantity.time, quantity.size, quantity.operations):
        assert quantity.value_of(written(number)) == number


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12.35 ms (36.9%)", 12.35e6),
        ("1.074 GB", 1.074e9),
        ("450 GB/s", 450e9),
        ("3.452 PFLOP/s", 3.452e15),
        ("65.7%", 65.7),
        ("1,048,576", 1048576),
        ("-15.12 ms", -15.12e6),
        ("+49.49 %", 49.49),
        ("1e-3", 1e-3),
        ("11.79 M$", 11.79e6),
        ("2 min", 1.2e11),
        ("layer12", None),
        ("", None),
        ("-", None),
    ],
)
def test_what_a_text_says(text: str, value: float | None) -> None:
    found = quantity.value_of(text)
    assert found == (None if value is None else pytest.approx(value))


@given(st.text())
def test_any_text_says_a_number_or_none(text: str) -> None:
    quantity.value_of(text)


def test_a_column_has_one_unit_of_time() -> None:
    """Values stay exact, digits of the longest one are kept, and other texts stay as they are."""
    column = [quantity.time(ns) for ns in (4.233e9, 852.8e6, 47_810, 0)]
    found = quantity.in_one_unit([*column, "", "-"])
    assert found == ["4.233 s", "0.853 s", "0.000048 s", "0", "", "-"]
    assert [quantity.value_of(cell) for cell in found[:3]] == [4.233e9, 852.8e6, 47_810]
    alike = [quantity.time(2e6), quantity.time(3e6)]
    assert quantity.in_one_unit(alike) == alike
    longest = [quantity.time(ns) for ns in (2_153e6, 6.73e6, 1.2e6, 1.1e6, 0.9e6)]
    usual = ["2,153 ms", "6.73 ms", "1.20 ms", "1.10 ms", "0.900 ms"]
    assert quantity.in_one_unit(longest) == usual, "the unit of most"
    mixed = [*column, quantity.number(65_536)]
    assert quantity.in_one_unit(mixed) == mixed


def test_parts_of_the_step_have_the_unit_of_the_page() -> None:
    """Single operations, far shorter than the page's unit, keep their own."""
    page = Scale.of(5.996e9)
    parts = [quantity.time(ns) for ns in (697.5e6, 142.1e6)]
    assert quantity.in_one_unit(parts, page) == ["0.698 s", "0.142 s"]
    assert [quantity.value_of(cell) for cell in quantity.in_one_unit(parts, page)] == [
        697.5e6,
        142.1e6,
    ]
    operations = [quantity.time(ns) for ns in (1.84e6, 0.374e6)]
    assert quantity.in_one_unit(operations, page) == quantity.in_one_unit(operations)
    own = [quantity.time(ns) for ns in (4.11e9, 1.04e9)]
    assert quantity.in_one_unit(own, page) == own


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("platform.fabric.dims[1].link_bandwidth", 50_000_000_000, "50 GB/s"),
        ("platform.fabric.dims[0].link_latency_ps", 100_000, "100.0 ns"),
        ("platform.library.node.step_latency_ps", [763_000, 1_000_000], "763.0 ns, 1.000 us"),
        ("platform.npu.compute_settings.peak_by_type_flops.fp8", 1.979e15, "1.979 PFLOP/s"),
        ("platform.npu.compute_settings.efficiency_ppm.gemm", 800_000, "80.0%"),
        ("platform.npu.memory_capacity_bytes", 80_000_000_000, "80.00 GB"),
        ("platform.npus", 1024, "1,024"),
        ("platform.library.network.inline", None, "none"),
        ("platform.hierarchy", "enhanced", "enhanced"),
    ],
)
def test_values_of_configurations_have_units(key: str, value: object, said: str) -> None:
    assert quantity.configured(key, value) == said
