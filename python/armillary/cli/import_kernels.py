"""`armillary import` of tables: measured kernels as a platform file."""

from __future__ import annotations

import json as json_text
from pathlib import Path
from typing import TYPE_CHECKING

from .. import __version__, files
from ..errors import InputError, Problem
from ..units import counted
from . import output

if TYPE_CHECKING:
    from ..kernels.imported import Imported
    from ..kernels.measured_file import Rows
    from ..report.page import Page

SCHEMA = "armillary.import_kernels/1"


def import_kernels(
    tables: list[str], platform: str | None, gpu: str | None, out: str, json: str | None
) -> None:
    """Writes the platform with the kernels of the tables to `out`, and its kernels next to it."""
    from ..kernels.imported import import_tables, overlay
    from ..kernels.measured_file import as_json
    from ..platform import Platform

    if platform is None:
        said = "a table of kernels needs the platform that was measured"
        raise InputError([Problem("", "--platform", said, "-p NAME, a preset or a platform file")])
    if out == "-":
        said = "the platform and its kernels are two files"
        raise InputError([Problem("", "--output -", said, "a file")])
    kernels_file = Path(out).with_suffix(".kernels.json")
    outputs = {"--output": out, "kernels of --output": str(kernels_file), "--json": json}
    output.claim(outputs, *tables, platform)
    target = Platform.load(platform)
    if target._core.kernel_table() is not None:
        output.log(f"warning: the measured kernels of {platform} are replaced, not added to")
    found = import_tables(tables, target, gpu)
    new = not kernels_file.exists()
    files.write_text(kernels_file, as_json(found.file))
    try:
        files.write_text(out, overlay(platform, out, kernels_file.name))
    except BaseException:
        if new:
            kernels_file.unlink(missing_ok=True)
        raise
    output.log(f"platform written to {out}, its measured kernels to {kernels_file}")
    if json != "-":
        from ..report import words

        words.show(_page(found, out), output.console())
    output.write_json(json, json_text.dumps(_result(found, out, str(kernels_file)), indent=2))


def _page(found: Imported, out: str) -> Page:
    """The kernels by kind and words, and why rows are left out."""
    from ..report.page import Page, Section, Table

    rows = [
        (each.kind, ", ".join(each.words.values()), f"{len(each.us):,}", f"{_shapes(each):,}")
        for each in found.file.kernels
    ]
    table = Table("Measured kernels", ("kind", "words", "rows", "shapes"), rows, labels=2)
    sections = [Section("Measured kernels", [table])]
    if found.left:
        left = [f"{count:,}: {reason}" for reason, count in found.left]
        sections.append(Section("Rows left out", left))
    total = sum(len(each.us) for each in found.file.kernels)
    of = f" by {', '.join(found.software)}" if any(found.software) else ""
    title = f"{counted(total, 'measured kernel')} of {found.file.npu}{of} in {out}"
    return Page(title, sections)


def _shapes(rows: Rows) -> int:
    return len({numbers for numbers, _ in rows.times()})


def _result(found: Imported, out: str, kernels_file: str) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "version": __version__,
        "output": out,
        "kernels_file": kernels_file,
        "npu": found.file.npu,
        "software": list(found.software),
        "kernels": [
            {
                "kind": each.kind,
                "words": dict(each.words),
                "rows": len(each.us),
                "shapes": _shapes(each),
            }
            for each in found.file.kernels
        ],
        "left_out": [{"reason": reason, "rows": count} for reason, count in found.left],
    }
