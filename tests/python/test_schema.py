"""The Python types of a report are those of the Rust structs."""

from __future__ import annotations

import re
from typing import Any, get_type_hints

import pytest
from conftest import ROOT

from armillary import schema

RUST = (ROOT / "crates/stats/src/lib.rs").read_text(encoding="utf-8")
NAMES = [
    name for name in re.findall(r"pub struct (\w+) \{", RUST) if name not in ("Config", "Origin")
]
KINDS = {
    "String": str,
    "u128": schema.Large,
    "u64": int,
    "u32": int,
    "f64": float,
    "bool": bool,
    "serde_json::Value": dict[str, Any],
    # What a platform and a workload say of themselves is checked where it is read
    # (report/reading.py).
    "Config": dict[str, Any],
}


def kind(rust: str) -> Any:  # noqa: ANN401
    if inner := re.fullmatch(r"Vec<(.*)>", rust):
        return list[kind(inner[1])]  # type: ignore[misc]
    if inner := re.fullmatch(r"Option<(.*)>", rust):
        return kind(inner[1]) | None
    return KINDS[rust] if rust in KINDS else getattr(schema, rust)


def test_every_struct_is_found() -> None:
    assert {
        "Report",
        "Class",
        "Symmetry",
        "Dimension",
        "Phase",
        "Operation",
        "Link",
        "Counts",
    } <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_same_fields_in_the_same_order(name: str) -> None:
    [body] = re.findall(rf"pub struct {name} \{{(.*?)\n\}}", RUST, re.DOTALL)
    fields = {field: kind(rust) for field, rust in re.findall(r"^ +pub (\w+): (.*),$", body, re.M)}
    assert list(get_type_hints(getattr(schema, name), include_extras=True).items()) == list(
        fields.items()
    )
