"""The conventions of nccl-tests, against what nccl-tests printed on real machines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from armillary import InputError, nccl

# Lines of a log from 2 nodes of 8 H100: operation, size, count, time us, algbw, busbw.
RECORDED = [
    ("all_reduce", 536870912, 134217728, 5202.3, 103.20, 193.50),
    ("all_reduce", 8589934592, 2147483648, 81958.0, 104.81, 196.52),
]


@pytest.mark.parametrize(("kind", "size", "count", "time_us", "algbw", "busbw"), RECORDED)
def test_recorded_lines(
    kind: str, size: int, count: int, time_us: float, algbw: float, busbw: float
) -> None:
    assert nccl.element_count(kind, size, 16, 4) == count
    row = nccl.row(kind, count, "float", 16, 0, round(time_us * 1e6), "")
    assert row.size == size
    assert row.algbw == pytest.approx(algbw, abs=0.005)
    assert row.busbw == pytest.approx(busbw, abs=0.01)


@pytest.mark.parametrize(("size", "count"), [(8, 0), (128, 0), (256, 4), (512, 8), (1000, 12)])
def test_parts_of_an_all_gather_are_16_byte_aligned(size: int, count: int) -> None:
    """As in a log of 2 nodes of 8 H100, where sizes below 256 come out as 0."""
    assert nccl.element_count("all_gather", size, 16, 4) == count
    assert nccl.total_bytes("all_gather", count, 4, 16) == count * 64


@pytest.mark.parametrize(
    ("kind", "factor"),
    [
        ("all_reduce", 2 * 7 / 8),
        ("reduce_scatter", 7 / 8),
        ("all_gather", 7 / 8),
        ("all_to_all", 7 / 8),
        ("gather", 7 / 8),
        ("scatter", 7 / 8),
        ("broadcast", 1),
        ("reduce", 1),
    ],
)
def test_bus_factors_of_performance_md(kind: str, factor: float) -> None:
    assert nccl.bus_factor(kind, 8) == factor


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8", 8),
        ("32M", 32 * 2**20),
        ("8G", 2**33),
        ("1.5k", 1536),
        ("2T", 2**41),
        ("4KiB", 4096),
        ("64MB", 2**26),
    ],
)
def test_sizes_are_powers_of_1024(text: str, size: int) -> None:
    assert nccl.size_bytes(text, "-b") == size


@pytest.mark.parametrize("text", ["", "-1", "8X", "M", "nan", "1e3"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(InputError) as caught:
        nccl.size_bytes(text, "-b")
    assert caught.value.problems[0].place == "-b"


def test_size_ranges() -> None:
    assert list(nccl.sizes(8, 64, 2, None)) == [8, 16, 32, 64]
    assert list(nccl.sizes(8, 20, None, 5)) == [8, 13, 18]
    assert list(nccl.sizes(7, 7, None, 2**20)) == [7]


@pytest.mark.parametrize(
    ("first", "last", "factor", "step"),
    [(9, 8, 2, None), (0, 8, 2, None), (1, 8, 1, None), (1, 8, None, 0)],
)
def test_ranges_that_never_end(first: int, last: int, factor: int | None, step: int | None) -> None:
    with pytest.raises(InputError):
        list(nccl.sizes(first, last, factor, step))


@pytest.mark.parametrize(
    ("name", "kind"),
    [("all_reduce_perf", "all_reduce"), ("alltoall", "all_to_all"), ("All-Gather", "all_gather")],
)
def test_spellings(name: str, kind: str) -> None:
    assert nccl.operation(name) == kind


def test_unknown_operation_says_what_is_known() -> None:
    with pytest.raises(InputError) as caught:
        nccl.operation("barrier")
    assert "all_reduce" in caught.value.problems[0].help


def test_columns_stand_where_nccl_tests_puts_them() -> None:
    head = nccl.header().splitlines()[1]
    line = nccl.line(nccl.row("all_reduce", 134217728, "float", 16, 0, 5_202_300_000, ""))
    assert line == (
        "   536870912     134217728     float     sum      -1"
        "  5202.30  103.20  193.50    N/A  5202.30  103.20  193.50    N/A"
    )
    for name, width in (
        ("size", 12),
        ("count", 26),
        ("type", 36),
        ("redop", 44),
        ("root", 52),
        ("time", 61),
        ("busbw", 77),
    ):
        assert head[:width].endswith(name)


@given(
    st.sampled_from(nccl.OPERATIONS),
    st.integers(0, 2**40),
    st.integers(2, 4096),
    st.sampled_from(sorted(nccl.TYPES)),
)
def test_sizes_never_grow(kind: str, size: int, ranks: int, dtype: str) -> None:
    width = nccl.TYPES[dtype]
    count = nccl.element_count(kind, size, ranks, width)
    assert 0 <= size - nccl.total_bytes(kind, count, width, ranks) < max(16, width) * ranks


@given(st.floats(0, 1e12), st.sampled_from([6, 7]))
def test_numbers_fit_their_column(value: float, width: int) -> None:
    text = nccl._number(value, width)
    assert len(text) == width
    assert float(text) == pytest.approx(value, rel=0.5, abs=0.005)
