"""Whole training steps that JAX compiled, against our generator's steps of the same layouts.

    python tests/python/workload/xla/compared_steps.py     the table of docs/guides/xla.md

The step of a module is split into its parts: kernels (with the time that a stage waits for others),
and communication that kernels wait for."""

from __future__ import annotations

import gzip
import json
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import armillary as arm
from armillary.workload import Model, Workload, moe, transformer
from armillary.workload.xla import ImportedModule, Options, import_hlo

TESTS = Path(__file__).parents[2]
RECORD = TESTS.parent / "golden/peers/xla.json"
SETTINGS: dict[str, dict[str, int]] = json.loads(RECORD.read_text("utf-8"))["answers"]["steps"]
UNLIMITED_MB = 1_000_000


def content(name: str) -> bytes:
    """The module of a step."""
    return gzip.decompress((TESTS / f"data/xla/{name}.step.txt.gz").read_bytes())


@cache
def theirs(name: str) -> ImportedModule:
    """The module, fused. Collectives that do not wait for each other are one; with FSDP those of a
    layer."""
    at = SETTINGS[name]
    layer = (4 * at["hidden"] + 2 * at["ffn"] + 2) * at["hidden"] * 2 / 1e6
    size = layer if at["zero"] else UNLIMITED_MB
    return import_hlo(name, content(name), Options(fuse=True, combine_mb=size))


@cache
def ours(name: str) -> Workload:
    """Our step of the same layout."""
    at = SETTINGS[name]
    keys = {"layers", "hidden", "heads", "ffn", "sequence", "vocabulary"}
    keys |= {"experts", "top_k", "expert_ffn"} & set(at)
    others = {"norm": "rms", "bias": False, "dropout": False, "tied": False}
    family, make, ep = (
        ("moe", moe, at["dp"]) if "experts" in at else ("transformer", transformer, 1)
    )
    model = Model("recorded", family, {**{key: at[key] for key in keys}, **others})
    return make(
        model,
        **{key: at[key] for key in ("pp", "dp", "tp", "zero", "micro_batch")},
        ep=ep,
        global_batch=at["micro_batch"] * at["dp"] * at["batches"],
        attention="unfused",
        schedule="gpipe",
        recompute="full" if at["zero"] else "none",
        framework="jax",
    )


@dataclass(frozen=True)
class Difference:
    """Two steps in ns, and shares of ours by which the module's is longer."""

    module: float
    generator: float
    kernels: float
    communication: float

    @property
    def whole(self) -> float:
        """All of it."""
        return self.module / self.generator - 1


@cache
def difference(name: str) -> Difference:
    """The two steps of a layout on DGX H100."""
    at = SETTINGS[name]
    ranks = at["pp"] * at["dp"] * at["tp"]
    platform = "dgx-h100" if ranks <= 8 else "dgx-h100-16n"
    results = [
        arm.simulate(each, platform, npus=ranks) for each in (theirs(name).workload, ours(name))
    ]
    step = results[1].step_time_ns
    exposed = [float(each.breakdown()["exposed_comm_ns"][0]) for each in results]
    kernels = [each.step_time_ns - one for each, one in zip(results, exposed, strict=True)]
    return Difference(
        results[0].step_time_ns,
        step,
        (kernels[0] - kernels[1]) / step,
        (exposed[0] - exposed[1]) / step,
    )


def table() -> list[str]:
    """The table, in Markdown."""
    lines = [
        "| module | ranks | module, ms | generator, ms | difference | kernels | communication |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, at in SETTINGS.items():
        found = difference(name)
        shares = (found.whole, found.kernels, found.communication)
        said = " | ".join(f"{100 * share:+.1f} %" for share in shares)
        ranks = at["pp"] * at["dp"] * at["tp"]
        times = f"{found.module / 1e6:.2f} | {found.generator / 1e6:.2f}"
        lines.append(f"| `{name}` | {ranks} | {times} | {said} |")
    return lines


if __name__ == "__main__":
    sys.stdout.write("\n".join(table()) + "\n")
