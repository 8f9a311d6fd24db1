"""Collectives of a sharded transformer against those that XLA chooses, and files that JAX writes.
`make peers` asks JAX again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from peer_records import answers

from armillary.errors import InputError
from armillary.workload import Model, Summary, transformer
from armillary.workload.importer import import_traces

RECORDED = answers("jax")
SHARDED: dict[str, Any] = RECORDED["sharded"]
WRITTEN: dict[str, Any] = RECORDED["written"]
STAGES, BYTES = 4, 2


@pytest.mark.parametrize("mesh", SHARDED["meshes"], ids=lambda mesh: f"tp {mesh['tensor']}")
def test_collectives_are_those_of_xla(mesh: dict[str, Any]) -> None:
    """XLA reduces as often as Megatron over the ranks that share a layer, and each time as much.
    Over the replicas it reduces the gradients of all that a rank holds."""
    shape = SHARDED["shape"]
    layers, width = shape["layers"], shape["hidden"]
    fields = {
        **shape, "layers": STAGES * layers, "vocabulary": 64, "norm": "rms", "bias": False,
        "dropout": False, "tied": False,
    }  # fmt: skip
    model = Model("recorded", "transformer", fields)
    samples = SHARDED["samples"]
    data, tensor = mesh["data"], mesh["tensor"]
    workload = transformer(
        model, tp=tensor, dp=data, pp=STAGES, micro_batch=samples // data, global_batch=samples
    )
    summary = workload.summary
    assert isinstance(summary, Summary)
    # A stage in the middle, without embedding and head.
    ours = {
        (each.group, each.kind): (each.count, each.bytes) for each in summary.classes[1].volumes
    }
    theirs = mesh["collectives"]
    assert {each["kind"] for each in theirs} == {"all-reduce"}
    activations = samples // data * shape["sequence"] * width
    within = [each["elements"] for each in theirs if each["ranks"] == tensor]
    across = [each["elements"] for each in theirs if each["ranks"] == data]
    assert within == [activations] * 4 * layers
    assert ours["tp", "all_reduce"] == (len(within), BYTES * sum(within))
    assert ours["dp", "all_reduce"][1] == BYTES * sum(across)


def refusal(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        import_traces([path])
    return caught.value.problems[0].message


def test_files_of_jax_are_known(tmp_path: Path) -> None:
    """A profile begins with its first plane: a field of the file, an identifier, a name."""
    for plane in WRITTEN["planes"]:
        name = plane.encode()
        body = b"\x08\x01\x12" + bytes([len(name)]) + name
        said = refusal(tmp_path / "a.xplane.pb", b"\x0a" + bytes([len(body)]) + body)
        assert said.startswith("is a profile of XLA of a host alone")
    said = refusal(tmp_path / "program.txt", WRITTEN["program"].encode() + b", is_scheduled=true")
    assert said == "has no computation"
    assert WRITTEN["processes"] and all(
        each.startswith(("/host:", "/device:")) for each in WRITTEN["processes"]
    )
