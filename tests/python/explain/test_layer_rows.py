"""Layers of two runs in the order of the model, alike ones as one row."""

from __future__ import annotations

from armillary.report.path_layers import Span, merged


def layer(name: str, a: float, b: float) -> Span:
    return Span(name, 1, a, b)


def test_alike_neighbours_are_one_row() -> None:
    rows = [layer(f"layer{at}", 100 + at / 100, 200) for at in range(32)]
    [row] = merged(rows)
    assert (row.name, row.count) == ("layer 0 to 31", 32)
    assert row.delta_ns == sum(each.delta_ns for each in rows)


def test_what_differs_in_either_run_stands_alone() -> None:
    rows = [
        layer("embedding", 5, 5),
        *(layer(f"layer{at}", 100, 300 if at == 2 else 200) for at in range(5)),
    ]
    rows.append(layer("head", 100, 200))
    assert [each.name for each in merged(rows)] == [
        "embedding",
        "layer 0 to 1",
        "layer 2",
        "layer 3 to 4",
        "head",
    ]


def test_a_missing_number_ends_a_range() -> None:
    rows = [layer(f"layer{at}", 100, 200) for at in (0, 1, 3, 4)] + [
        layer(f"block{at}", 100, 200) for at in (5, 6)
    ]
    assert [each.name for each in merged(rows)] == ["layer 0 to 1", "layer 3 to 4", "block 5 to 6"]


def test_names_without_numbers_are_never_joined() -> None:
    assert [each.name for each in merged([layer("a", 1, 1), layer("a", 1, 1)])] == ["a", "a"]


def test_layers_are_named_as_ranges_are() -> None:
    rows = [layer(f"top.{at}", 100, 100) for at in range(3)] + [layer("top.3", 5, 5)]
    assert [each.name for each in merged(rows)] == ["top 0 to 2", "top 3"]
