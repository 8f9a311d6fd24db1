"""The roofline of a training with a plan that has tables in slower memory."""

from __future__ import annotations

from pathlib import Path

from larger_than_memory import model, platform

import armillary as arm
from armillary.units import counted
from armillary_train.cli import train
from armillary_train.settings import Settings


def test_the_roofline_has_no_slower_memory(tmp_path: Path) -> None:
    name, where, plan = model(tmp_path), tmp_path / "here.yml", tmp_path / "plan.yml"
    found = arm.plan(name, platform("200 MB"), cache=20_000_000, simulate=False)
    assert found.on_hosts > 0 and found.on_disk > 0
    found.write(plan)
    where.write_text(platform("200 MB").to_yaml())
    settings = Settings(name, ranks=2, global_batch=256, plan=str(plan))
    _, bound, assumed = train._roofline(settings, str(where))
    moved = counted(found.on_hosts + found.on_disk, "table")
    said = f"assumed: the roofline has {moved} of slower memory in that of the processes"
    assert assumed[-1] == said
    assert bound.lookup > 0 and bound.total > bound.lookup
