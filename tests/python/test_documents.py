"""Files that a person or a program wrote wrongly, or on purpose."""

from __future__ import annotations

from pathlib import Path

import pytest

from armillary import InputError, documents


def refusal(text: str, kind: str = "yaml") -> str:
    with pytest.raises(InputError) as caught:
        if kind == "yaml":
            documents.parse_yaml(text, "f.yml", "a mapping")
        else:
            documents.parse_json(text, "f.json", "an object")
    return str(caught.value.problems[0])


@pytest.mark.parametrize(
    "text", ["a: " + "[" * 3000 + "]" * 3000, "a: " + "[" * 100_000, "- " * 5000 + "x", "? " * 3000]
)
def test_deep_yaml_is_refused_where_it_gets_too_deep(text: str) -> None:
    assert "f.yml: line 1: is nested too deeply" in refusal(text)


@pytest.mark.parametrize("text", ["[" * 200 + "]" * 200, '{"a":' * 100_000 + "1" + "}" * 100_000])
def test_deep_json_is_refused(text: str) -> None:
    assert "is nested too deeply (allowed: at most 100 levels)" in refusal(text, "json")


def test_what_is_deep_enough_for_people_is_read() -> None:
    text = "[" * documents.MOST_DEPTH + "]" * documents.MOST_DEPTH
    assert documents.parse_json(text, "", "") == documents.parse_yaml(text, "", "").value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: &x [1]\nb: *x", "line 2: uses an alias (*x)"),
        ("a: !!binary eHg=", "line 1: is not YAML"),
        ("a: !!python/object:os.system x", "line 1: is not YAML"),
        ("a: " + "1" * 5000, "more than 4,300 digits"),
        ("b: 1\na: " + "1" * 400, "line 2: a: the whole number is too large"),
        ("a: [1, .inf]", "line 1: a[1]: is inf"),
        ("a: .nan", "line 1: a: is nan"),
        ('a: "\\ud800"', "line 1"),
        ("a: [1", "line"),
        ("{[1]: 2}", "line 1"),
        ("x: !!int zz", "can't be read"),
    ],
)
def test_yaml_that_is_refused(text: str, expected: str) -> None:
    assert expected in refusal(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": NaN}', "a: is nan"),
        ('{"a": 1e999}', "a: is inf"),
        ('{"a": [0, "\\ud800"]}', "a[1]: holds half of a surrogate pair"),
        ('{"\\ud800": 1}', "a key is not text"),
        ("[" + "1" * 5000 + "]", "more than 4,300 digits"),
        ("{", "is not JSON"),
        ("", "is not JSON"),
    ],
)
def test_json_that_is_refused(text: str, expected: str) -> None:
    assert expected in refusal(text, "json")


def test_yaml_is_read_as_json_would_be() -> None:
    document = documents.parse_yaml(
        "day: 2024-01-01\nn: 3\nx: [1.5, true, null, '1']\nn: 4\nsign: =\n", "", ""
    )
    assert document.value == {"day": "2024-01-01", "n": 4, "x": [1.5, True, None, "1"], "sign": "="}
    assert document.lines[("x", 1)] == 3
    assert document.repeated == [(("n",), 4)]


def test_without_libyaml_the_same_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    import yaml

    text = "a: {b: [1, 2.5, x]}\nc: |\n  text\n"
    fast = documents.parse_yaml(text, "", "")
    monkeypatch.setattr(yaml, "__with_libyaml__", False)
    documents._loader.cache_clear()
    documents._events.cache_clear()
    try:
        assert documents.parse_yaml(text, "", "") == fast
        assert "is nested too deeply" in refusal("[" * 3000)
    finally:
        documents._loader.cache_clear()
        documents._events.cache_clear()


@pytest.mark.parametrize("path", ["/dev/zero", "/", "/no/such/file", "a\0b"])
def test_files_that_are_none(path: str) -> None:
    with pytest.raises(InputError):
        documents.read_text(path, "a file", 1000)


def test_a_byte_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"ab\xff")
    with pytest.raises(InputError, match="byte 2: is not UTF-8 text"):
        documents.read_text(tmp_path / "f", "text")
