"""Keys of files that are declared once: what is read, and what each fault says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from armillary import InputError
from armillary.declared import (
    Allowed,
    Amount,
    Keys,
    Made,
    Note,
    Others,
    Seconds,
    Several,
    Short,
    Source,
    Unit,
    Within,
    Wrong,
    open_source,
    parse_source,
    read,
    read_value,
)


def even(raw: object) -> int:
    if not isinstance(raw, int) or raw % 2:
        raise Wrong(f"{raw!r} is odd")
    return raw


@dataclass(frozen=True)
class Part:
    name: str
    speed: Amount | None = None


@dataclass(frozen=True)
class Disc:
    radius: int


@dataclass(frozen=True)
class Span:
    from_: int
    to: int = 9


@dataclass(frozen=True)
class Fast:
    kind: Literal["fast", "faster"] = "fast"
    speed: int = 1


@dataclass(frozen=True)
class Slow:
    kind: Literal["slow"]


@dataclass(frozen=True)
class OneOf:
    shape: Disc | Span = Disc(1)
    loose: Annotated[Disc, Others()] = Disc(1)
    pace: Annotated[Fast | Slow, Short("kind")] = Fast()


@dataclass(frozen=True)
class Whole:
    count: Annotated[int, Within(1, 1000)]
    kind: Literal["small", "large", 3] = "small"
    share: Annotated[float, Within(0, 1), Allowed("a share from 0 to 1")] = 0.5
    limit: Seconds | None = None
    memory: Annotated[int, Unit("B", 2**20)] = 2**30
    parts: tuple[Annotated[Part, Short("name")], ...] = ()
    pair: tuple[int, str] | None = None
    sweep: Annotated[tuple[Amount, ...], Several()] = ()
    prices: Annotated[Mapping[str, float], Keys(("link", "switch"))] = field(default_factory=dict)
    free: Mapping[str, object] = field(default_factory=dict)
    pairs: Annotated[int, Made(even), Allowed("an even number")] = 0
    flag: bool = False
    note: Note = ""

    def __post_init__(self) -> None:
        if self.count < len(self.parts):
            raise Wrong(f"{len(self.parts)} parts of {self.count}", "fewer parts", "parts")


TEXT = """count: 3
kind: large
share: 1
limit: 20 ms
memory: 2 MiB
parts: [left, {name: right, speed: 8 Gb/s}]
pair: [1, a]
sweep: 1 GB/s
prices: {link: 2}
free: {a: [1], b: null}
pairs: 4
flag: true
note: 5
"""


def test_every_kind_of_value() -> None:
    source = parse_source(TEXT, "f.yml")
    assert read(Whole, source) == Whole(
        3,
        "large",
        1.0,
        0.02,
        2**21,
        (Part("left"), Part("right", 1e9)),
        (1, "a"),
        (1e9,),
        {"link": 2.0},
        {"a": [1], "b": None},
        4,
        True,
        "5",
    )
    source.finish()
    for text in ("count: 5", "count: 5\nshare: null\nlimit: null\nparts:\n"):
        assert read(Whole, parse_source(text, "f.yml")) == Whole(5)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("count: 3\n", "", "count: is missing (allowed: a whole number from 1 to 1,000)"),
        ("count: 3", "count: 0", "line 1: count: invalid count: 0 (allowed: a whole number from 1"),
        ("count: 3", "count: true", "invalid count: True"),
        ("count: 3", "count: 1", "line 6: parts: 2 parts of 1 (allowed: fewer parts)"),
        ("kind: large", "kind: larg", "unknown kind 'larg' (allowed: small, large, 3)"),
        ("kind: large", "kind: true", "unknown kind True"),
        ("share: 1", "share: 2", "share: 2 is out of range (allowed: a share from 0 to 1)"),
        ("share: 1", "share: x", "share: 'x' is not a number (allowed: a share"),
        ("count: 3", "count: null", "line 1: count: is missing"),
        (
            "limit: 20 ms",
            "limit: 20 GB",
            "'20 GB' is not an amount above 0 with a unit (allowed: s",
        ),
        ("2 MiB", "2 KiB", "memory: '2 KiB' is not an amount"),
        ("left, ", "left, 5, ", "line 6: parts[1]: 5 is not a name (allowed: text)"),
        ("right, ", "right, sped: 1, ", "parts[1].sped: unknown key (allowed: speed)"),
        ("left, ", "left, {speed: 1 GB/s}, ", "parts[1].name: is missing (allowed: text)"),
        ("[1, a]", "[1]", "pair: [1] is a list of 1"),
        ("[1, a]", "[1, 2]", "pair[1]: 2 is not a name"),
        ("[1, a]", "a", "pair: 'a' is not a list"),
        ("sweep: 1 GB/s", "sweep: 1 GHz", "line 8: sweep: '1 GHz' is not an amount"),
        ("{link: 2}", "{lin: 2}", "prices.lin: unknown key (allowed: link)"),
        ("{link: 2}", "2", "prices: 2 is not a mapping (allowed: keys: link, switch)"),
        ("{a: [1], b: null}", "[a]", "free: ['a'] is not a mapping"),
        ("pairs: 4", "pairs: 5", "pairs: 5 is odd (allowed: an even number)"),
        ("flag: true", "flag: 1", "flag: 1 is neither true nor false (allowed: true, false)"),
        ("note: 5", "note: 5\nnots: 6", "line 14: nots: unknown key (allowed: note)"),
        ("note: 5", "note: 5\ncount: 6", "line 1: count: is given twice, in line 14 again"),
        (TEXT, "[1]", "[1] is not a mapping (allowed: keys: count, kind, share"),
        (TEXT, "count: " + "9" * 30 + "x" * 70, "xxx... (allowed"),
    ],
)
def test_each_fault_has_a_line_and_a_way_out(old: str, new: str, said: str) -> None:
    assert old in TEXT
    source = parse_source(TEXT.replace(old, new), "f.yml")
    read(Whole, source)
    with pytest.raises(InputError) as refused:
        source.finish()
    assert said in str(refused.value)
    assert all(each.file == "f.yml" and each.help for each in refused.value.problems)


def test_all_faults_come_at_once_and_those_inside_a_repeated_key_once() -> None:
    source = parse_source("share: 2\nflag: 5\nfree: {a: 1}\nfree: {a: 1}\n", "f.yml")
    assert read(Whole, source) is None
    assert [each.place for each in source.problems] == [
        "line 3: free",
        "count",
        "line 1: share",
        "line 2: flag",
    ]


def test_fields_and_keys_of_others() -> None:
    source = Source({"name": "a", "colour": "red"})
    assert read(Part, source, also=("colour",)) == Part("a")
    assert read(Part, source, given={"name": "b"}, also=("name", "colour")) == Part("b")
    read(Part, source, given={"name": "b"})
    assert [each.message for each in source.problems] == ["unknown key"] * 2


def test_one_value_and_files(tmp_path: Path) -> None:
    source = Source({})
    assert read_value(Amount, source, ("a",), "1 GB/s", 0.0) == 1e9
    assert read_value(Amount, source, ("a",), 1, 0.0) == 0.0
    assert len(source.problems) == 1
    for name, text in (("a.json", '{"name": "x"}'), ("a.yml", "name: x")):
        (tmp_path / name).write_text(text)
        opened = open_source(tmp_path / name, "a part")
        assert (read(Part, opened), opened.folder) == (Part("x"), str(tmp_path))


values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(["", *Whole.__dataclass_fields__]), values))
def test_any_value_is_read_or_refused(drawn: dict[str, Any]) -> None:
    source = Source(drawn)
    found = read(Whole, source)
    assert found is not None or source.problems


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("shape: {radius: 2}", OneOf(Disc(2))),
        ("shape: {from: 2, to: 3}", OneOf(Span(2, 3))),
        ("pace: slow", OneOf(pace=Slow("slow"))),
        ("pace: {speed: 2}", OneOf(pace=Fast("fast", 2))),
        ("pace: {kind: faster}", OneOf(pace=Fast("faster"))),
        ("loose: {radius: 2, height: 1}", OneOf(loose=Disc(2))),
        ("shape: {}", "line 1: shape: has none of the keys (allowed: radius, from)"),
        ("shape: {radius: 1, from: 2}", "shape: has radius and from (allowed: radius, from)"),
        ("shape: {from: x}", "shape.from: invalid count: 'x' (allowed: a whole number)"),
        ("shape: {to: 1, from: 2, by: 1}", "shape.by: unknown key (allowed: from, to)"),
        ("shape: 5", "shape: 5 is not a mapping (allowed: radius, from)"),
        ("pace: quick", "pace: unknown kind 'quick' (allowed: fast, faster, slow)"),
        ("pace: {kind: [1]}", "pace.kind: unknown kind [1] (allowed: fast, faster, slow)"),
        ("pace: {kind: slow, speed: 1}", "pace.speed: unknown key (allowed: kind)"),
    ],
)
def test_a_mapping_that_is_one_of_several(text: str, found: OneOf | str) -> None:
    source = parse_source(text, "f.yml")
    taken = read(OneOf, source)
    if isinstance(found, OneOf):
        assert (taken, source.problems) == (found, [])
    else:
        assert [found in str(problem) for problem in source.problems] == [True]
