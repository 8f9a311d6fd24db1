"""Texts of modules of XLA, written by hand for tests."""

from __future__ import annotations

from armillary.workload.xla import ImportedModule, Options, import_hlo
from armillary.workload.xla.module import Module
from armillary.workload.xla.text import read

ADD = """%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %sum = f32[] add(%x, %y)
}
"""
REDUCED = "f32[64]{0} all-reduce(%p), to_apply=%add"


def module(entry: str, head: str = "", before: str = "") -> str:
    """A module: instructions of the entry, one a line; the last one is its result."""
    lines = [line.strip() for line in entry.strip().splitlines()]
    lines[-1] = f"ROOT {lines[-1]}"
    body = "\n".join(f"  {line}" for line in lines)
    return f"HloModule made{head}\n\n{ADD}\n{before}\nENTRY %main_spmd () -> f32[] {{\n{body}\n}}\n"


def taken(text: str, **options: object) -> ImportedModule:
    """The import of a text."""
    return import_hlo("made.txt", text.encode(), Options(**options))  # type: ignore[arg-type]


def parsed(text: str) -> Module:
    """The module of a text."""
    return read(text)
