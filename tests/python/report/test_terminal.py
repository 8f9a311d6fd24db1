"""Tables on terminals of every width: names wrap, numbers and their units stay whole."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from armillary.report.escapes import visible
from armillary.report.terminal import Terminal, emit, natural_width

NAMES = ("*.layer*.experts.combine_grad", "stage 0 ... stage 15", "x" * 40)


def table(columns: int) -> Table:
    found = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    found.add_column("Operation")
    for index in range(columns):
        found.add_column(f"Head {index}", justify="right")
    for row, name in enumerate(NAMES):
        found.add_row(name, *(f"{row}{index}0.78 GB" for index in range(columns)))
    return found


def drawn(part: Table | Padding, width: int) -> str:
    stream = io.StringIO()
    emit(Terminal(file=stream, width=width), [part])
    return stream.getvalue()


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 200])
@pytest.mark.parametrize("columns", [0, 1, 4, 9])
def test_no_number_is_cut(width: int, columns: int) -> None:
    text = drawn(Padding(table(columns), (0, 0, 0, 2)), width)
    numbers = [f"{row}{index}0.78 GB" for row in range(3) for index in range(columns)]
    assert sorted(re.findall(r"\d+\.78 GB\b", text)) == sorted(numbers)
    assert "\u2026" not in text


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_it_fits(width: int) -> None:
    lines = drawn(Padding(table(9), (0, 0, 0, 2)), width).splitlines()
    assert max(map(len, lines)) <= width


def test_columns_go_on_below_next_to_the_names() -> None:
    blocks = drawn(table(9), 80).split("\n\n")
    assert len(blocks) > 1
    for block in blocks:
        assert block.startswith("Operation ")
        assert "stage 0 ... stage 15" in block


def test_names_break_at_their_pieces() -> None:
    narrow = Table(box=None)
    narrow.add_column("Operation")
    narrow.add_column("Total", justify="right")
    narrow.add_row("*.layer*.experts.combine_grad", "12.35 ms")
    words = [line.replace("12.35 ms", "").strip() for line in drawn(narrow, 34).splitlines()]
    assert words[1:] == ["*.layer*.experts.", "combine_grad"]


def test_a_table_that_fits_stays_as_it_is() -> None:
    whole = table(2)
    assert natural_width(whole) <= 80
    assert len(drawn(whole, 80).splitlines()) == 4


def test_what_is_no_table_passes() -> None:
    stream = io.StringIO()
    emit(
        Terminal(file=stream, width=20),
        [Text("a line that is longer than the terminal"), Group("a", "b")],
    )
    assert stream.getvalue() == "a line that is longer than the terminal\na\nb\n"


def test_a_pipe_has_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert Terminal(file=io.StringIO()).width == 100
    monkeypatch.setenv("COLUMNS", "77")
    assert Terminal(file=io.StringIO()).width == 77


def test_controls_are_shown_wherever_they_stand() -> None:
    evil = Table(box=None)
    evil.add_column("a\x1b[31m")
    evil.add_row(Text("b\u202ec"))
    stream = io.StringIO()
    emit(Terminal(file=stream, width=80), [evil, Text("d\x9be"), "f\u2066"])
    assert not set("\x1b\u202e\x9b\u2066") & set(stream.getvalue())
    assert "\\u202e" in stream.getvalue()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("\x1b]0;t\x07", "\\x1b]0;t\\x07"),
        ("a\tb\n", "a\tb\n"),
        ("\u202e\ud800é", "\\u202e\\ud800é"),
    ],
)
def test_visible(text: str, shown: str) -> None:
    assert visible(text) == shown
