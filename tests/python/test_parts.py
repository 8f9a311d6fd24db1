"""The parts of the step are declared once, in `crates/stats/src/part.rs`; all else follows."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

import armillary as arm
from armillary import step_parts

FIELDS = {part.field for part in step_parts.PARTS} | {
    part.doing.in_flight for part in step_parts.PARTS if part.doing and part.doing.in_flight
}
DECLARED = {"part.rs", "schema.py", "step_parts.py"}
SOURCES = [
    path
    for pattern in ("crates/*/src/**/*.rs", "python/armillary/**/*.py", "train/python/**/*.py")
    for path in sorted(ROOT.glob(pattern))
    if path.name not in DECLARED
]
MOST = 3
"""A file may name communication or compute for what they are; more is a list of parts."""


def test_no_source_spells_the_list_of_parts_again() -> None:
    assert len(SOURCES) > 200
    named = {path: FIELDS & set(re.findall(r"\w+", path.read_text("utf-8"))) for path in SOURCES}
    lists = {
        str(path.relative_to(ROOT)): found for path, found in named.items() if len(found) > MOST
    }
    assert lists == {}


NEW = """
import io, json, sys
from armillary import step_parts as s

new = s.PartDeclaration(
    field="exposed_disk_ns",
    label="waiting for the disk",
    heading="Disk waits",
    meaning="Nothing is in flight but a read from the disk.",
    always=False,
    doing=s.PartActivity("disk", "disk reads", "disk_ns", s.PartLane("disk", "#123456"), ("disk",)),
    style=s.PartStyle("#654321", "D", "d", "white"),
    bound=s.PartBound("disks", "waiting for disks"),
    removed_by=s.PartSetting("a disk that takes no time", "npu.disk", "0 ns"),
)
s.PARTS = (*s.PARTS[:-1], new, s.PARTS[-1])

from rich.console import Console
from armillary.explain import changes, step, verdict
from armillary.report import breakdown, run_page
from armillary.sweep import columns

report = json.load(open(sys.argv[1], encoding="utf-8"))
for each in report["classes"]:
    each["exposed_disk_ns"] = 4 * report["step_time_ns"]
for each in report["detail"]["layers"]:
    each |= {"disk_ns": 7.0, "exposed_disk_ns": 5.0}
activity = report["detail"]["activity"]
activity["disk"] = [0.5 for _ in activity["compute"]]
report["detail"]["gantt"][0]["bars"][0]["kind"] = "disk"
report["detail"]["critical_path"]["by_kind"].append({"name": "disk", "count": 1, "ns": 3.0})

screen = io.StringIO()
breakdown.show(report, "", Console(file=screen, width=160))
html = run_page.page(report).html()
parts = step.data(report)["parts"]
read = columns.columns(json.dumps(report), columns.Claims(0, 0, 0))
tried = [change.what for change in changes.applying(report)]
said = verdict.of(report | {"detail": None}, None).sentence
print(json.dumps({
    "terminal heading": "Disk waits" in screen.getvalue(),
    "terminal legend": "D disk reads" in screen.getvalue(),
    "page": "Waiting for the disk" in html,
    "page: layers": "Raw disk reads" in html,
    "page: activity": '"disk reads"' in html or "disk reads" in html,
    "page: colour": "#654321" in html,
    "page: lane": "#123456" in html,
    "explain": all("exposed_disk_ns" in each for each in parts),
    "sweep": {"exposed_disk_ns", "mean_exposed_disk_ns"} <= set(read),
    "what-if": "a disk that takes no time" in tried,
    "verdict": said.startswith("Waiting for disks bounds the step"),
}))
"""


def test_a_part_that_is_only_declared_shows_up_in_every_view(tmp_path: Path) -> None:
    """In a process of its own, which declares one more part before anything reads the list."""
    path, example = tmp_path / "report.json", ROOT / "examples/gpt-64"
    workload = arm.load(example, groups=example / "comm_group.json")
    platform = arm.Platform.load(example / "platform.yml")
    arm.simulate(workload, platform, detail=True).to_json(path)
    command = [sys.executable, "-c", NEW, str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert ran.returncode == 0, ran.stderr
    shown = json.loads(ran.stdout)
    assert [view for view, there in shown.items() if not there] == []


@pytest.mark.parametrize("part", step_parts.PARTS, ids=lambda part: part.field)
def test_looks_differ_without_colours(part: step_parts.PartDeclaration) -> None:
    others = [other.style for other in step_parts.PARTS if other != part]
    assert part.style.mark not in {style.mark for style in others}
    assert part.style.ascii not in {style.ascii for style in others}
    assert part.style.ascii.isascii()
