"""Live peers: each has its requirements, its program and a dated record; differences are found."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path

import pytest
import run_peers
from conftest import ROOT

PEERS = [
    "aiconfigurator", "deepspeed", "fbgemm", "jax", "maxtext", "megatron", "nemo", "ns3",
    "sglang_scheduler", "torchrec", "torchtitan", "transformers", "vllm", "vllm_scheduler", "xla",
]  # fmt: skip
PINS = {
    "fbgemm": "fbgemm-gpu-cpu",
    "megatron": "megatron-core",
    "nemo": "megatron-bridge",
    "ns3": "libns3-dev",
    "sglang_scheduler": "sglang",
    "vllm_scheduler": "vllm",
    "xla": "jax",
}
"""Packages that are not called as the peer is."""


def test_every_peer_has_requirements_a_program_and_a_record() -> None:
    assert run_peers.peers() == PEERS
    assert sorted(path.stem for path in run_peers.RECORDS.glob("*.json")) == PEERS
    programs = (ROOT / "lab/peers").glob("record_*.py")
    assert sorted(path.stem.removeprefix("record_") for path in programs) == PEERS


@pytest.mark.parametrize("name", PEERS)
def test_a_record_names_tool_version_and_date(name: str) -> None:
    """The version is the pinned one."""
    record = json.loads((run_peers.RECORDS / f"{name}.json").read_text(encoding="utf-8"))
    assert list(record) == ["tool", "version", "date", "answers"]
    assert record["tool"] == name
    assert date(2026, 11, 1) <= date.fromisoformat(record["date"])
    requirements = (ROOT / f"requirements/peers/{name}.txt").read_text(encoding="utf-8")
    pin = rf"^(?:# debian: )?{PINS.get(name, name)}(?:==| ){re.escape(record['version'])}$"
    assert re.search(pin, requirements, re.MULTILINE)
    assert record["answers"]


def test_no_peer_is_installed_for_the_tests() -> None:
    """Peers are in environments of their own. Captures of models need transformers."""
    others = {*PEERS, "fbgemm-gpu-cpu"} - {"transformers"}
    for path in (ROOT / "requirements").glob("*.txt"):
        names = {line.split("==")[0] for line in path.read_text(encoding="utf-8").splitlines()}
        assert not names & others, path.name


@pytest.mark.parametrize(
    ("live", "said"),
    [
        ({"a": [1, {"b": 0.5}], "c": None}, []),
        ({"a": [1, {"b": 0.500001}], "c": None}, []),
        ({"a": [1, {"b": 0.51}], "c": None}, ["a[1].b: recorded 0.5, now 0.51"]),
        ({"a": [1], "c": 2}, ["a: recorded [1, {'b': 0.5}], now [1]", "c: recorded None, now 2"]),
        ({"a": [2, {"b": 0.5}], "d": 0}, ["a[0]: recorded 1, now 2", "c: only recorded"]),
    ],
)
def test_differences_are_named(live: object, said: list[str]) -> None:
    recorded = {"a": [1, {"b": 0.5}], "c": None}
    assert list(run_peers.differences(recorded, live))[: len(said) or None] == said


def test_a_record_reads_back_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Recorded, asked again the same, asked again with another answer, and not to be asked."""
    monkeypatch.setattr(run_peers, "RECORDS", tmp_path)
    live = {"version": "1.0", "answers": {"list": [[1, 2.5], {"a": None}], "empty": {}}}
    monkeypatch.setattr(run_peers, "asked", lambda name: live)
    assert run_peers.main(["jax"]) == 1
    assert run_peers.main(["jax", "--record"]) == 0
    assert run_peers.main(["jax"]) == 0
    live["version"] = "2.0"
    assert run_peers.main(["jax"]) == 1

    def refused(name: str) -> dict[str, object]:
        raise run_peers.NotRunError("no such wheel")

    monkeypatch.setattr(run_peers, "asked", refused)
    assert run_peers.main(["jax"]) == 1
    told = f"as recorded on {date.today()}"
    assert capsys.readouterr().out.splitlines() == [
        "jax: has no record (make peers PEERS=jax RECORD=1)",
        f"jax 1.0: {told}",
        f"jax 1.0: {told}",
        f"jax 2.0: differs from the record of {date.today()} in 1 places",
        "  version: recorded '1.0', now '2.0'",
        "jax: not run: no such wheel",
    ]


def test_a_missing_package_of_debian_is_the_reason() -> None:
    with pytest.raises(run_peers.NotRunError, match="libnone-dev is "):
        run_peers.require_debian("# debian: libnone-dev 1.0\n")


def test_an_unknown_peer_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        run_peers.main(["caffe"])
    assert (
        "unknown: caffe (allowed: aiconfigurator, deepspeed, fbgemm, jax" in capsys.readouterr().err
    )
