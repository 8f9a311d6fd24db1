"""Timelines of requests on engines, read by Perfetto's classes and compared with the answers."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest
from conftest import Armillary

from armillary.model.decoder_reader import decoder
from armillary.model.files import load_model
from armillary.platform import Platform
from armillary.serve import (
    Choices,
    Engines,
    Layout,
    Lengths,
    Load,
    Precision,
    Served,
    deploy,
    drawn,
    load_engine,
    run,
    serve,
)

schema = pytest.importorskip(
    "perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="perfetto is not installed"
)


@dataclass
class Slice:
    """A slice with its exact times, ps."""

    name: str
    arguments: dict[str, int]

    @property
    def begin(self) -> int:
        return self.arguments["start_ps"]

    @property
    def end(self) -> int:
        return self.begin + self.arguments["duration_ps"]


@dataclass
class Read:
    """Slices and values of counters by the path of their track."""

    slices: dict[str, list[Slice]] = field(default_factory=lambda: defaultdict(list))
    values: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))


def read(path: Path) -> Read:
    trace = schema.Trace()
    trace.ParseFromString(path.read_bytes())
    names: dict[int, str] = {}
    keys: dict[int, str] = {}
    tracks: dict[int, str] = {}
    found = Read()
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            of = packet.track_descriptor
            parent = f"{tracks[of.parent_uuid]}/" if of.HasField("parent_uuid") else ""
            tracks[of.uuid] = parent + of.name
        names |= {each.iid: each.name for each in packet.interned_data.event_names}
        keys |= {each.iid: each.name for each in packet.interned_data.debug_annotation_names}
        if packet.HasField("track_event"):
            event = packet.track_event
            track = tracks[event.track_uuid]
            if event.type == 1:
                pairs = ((each.name_iid, each.uint_value) for each in event.debug_annotations)
                arguments = {keys[key]: value for key, value in pairs}
                found.slices[track].append(Slice(names[event.name_iid], arguments))
            elif event.type == 4:
                found.values[track].append(event.counter_value)
    return found


def engines(load: Load, count: int = 1, choices: Choices | None = None) -> Engines:
    return deploy(
        decoder(load_model("llama-3-8b")), Platform.load("dgx-h100"), load_engine("vllm"),
        Layout(), Precision(), count=count, longest=load.longest, choices=choices,
    )  # fmt: skip


def phases(found: Read, served: Served, names: set[str]) -> None:
    """Each request's slices follow each other from its arrival to its last token."""
    for number, each in enumerate(served.answers):
        digits = len(str(len(served.answers) - 1))
        slices = found.slices[f"requests/request {number:0{digits}}"]
        assert {one.name for one in slices} <= names
        assert slices[0].begin == round(each.arrival * 1e12)
        assert slices[-1].end == round(each.end * 1e12)
        assert all(one.end == other.begin for one, other in pairwise(slices))
        lost = sum(one.name == "preempted" for one in slices)
        assert lost <= each.preemptions
        assert (lost > 0) == (each.preemptions > 0)
        decode = sum(one.end - one.begin for one in slices if one.name == "decode")
        if not lost:
            assert decode == round(each.end * 1e12) - round(each.first * 1e12)
        moved = sum(one.end - one.begin for one in slices if one.name == "transfer")
        assert moved == round(each.transfer * 1e12)


def test_slices_are_those_of_the_answers(tmp_path: Path) -> None:
    load = drawn(40, Lengths(400, 0.5, 1.5), Lengths(200, 0.2, 1.8), rate=60)
    kind = engines(load, 2, Choices(blocks=-(-load.longest // 16) + 120, caching=False))
    served = serve(kind, load, timeline=tmp_path / "t")
    assert served == serve(kind, load, timeline=tmp_path / "u")
    assert (tmp_path / "t").read_bytes() == (tmp_path / "u").read_bytes()
    found = read(tmp_path / "t")
    assert sum(each.preemptions for each in served.answers) > 0
    phases(found, served, {"queue", "prefill", "decode", "preempted"})
    parts = dict.fromkeys((part.name.replace(" ", "_") for part in served.parts), 0)
    steps = requests = 0
    for number in range(2):
        slices = found.slices[f"engines/engine {number}"]
        assert all(one.end <= other.begin for one, other in pairwise(slices))
        for one in slices:
            assert (one.name == "tokens") == (one.arguments["prompt_tokens"] == 0)
            steps += one.arguments["steps"]
            requests += one.arguments["tokens"] - one.arguments["prompt_tokens"]
            for name in parts:
                parts[name] += one.arguments.get(f"{name}_ps", 0)
        blocks = found.values[f"engines/engine {number}/blocks in use"]
        assert len(blocks) == len(slices)
        assert 0 < max(blocks) <= kind.blocks
    assert steps == served.steps
    for part in served.parts:
        assert parts[part.name.replace(" ", "_")] / 1e12 == pytest.approx(part.seconds, rel=1e-6)


def test_prompts_apart_have_their_way(tmp_path: Path) -> None:
    load = drawn(12, Lengths(600), Lengths(20), rate=30)
    kind = engines(load)
    way = ((1.0, 0.001), (4096.0, 0.02))
    served = serve(kind, load, decode=kind, transfer=way, timeline=tmp_path / "t")
    found = read(tmp_path / "t")
    phases(found, served, {"queue", "prefill", "decode", "transfer"})
    assert {one.name for one in found.slices["engines/prompts 0"]} == {"prompts"}
    assert sum(one.arguments["steps"] for one in found.slices["engines/tokens 0"]) > 19


def test_size_is_bounded_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "MOST_STEPS", 5)
    monkeypatch.setattr(run, "MOST_SHOWN", 3)
    load = drawn(30, Lengths(600), Lengths(20), rate=30)
    served = serve(engines(load), load, timeline=tmp_path / "t")
    found = read(tmp_path / "t")
    shown = served.timeline
    assert shown is not None
    assert len(found.slices["engines/engine 0"]) == 5
    assert sum(name.startswith("requests/") for name in found.slices) == 3
    assert shown.steps + shown.left_out == served.steps
    assert "3 of 30 requests" in shown.part
    assert f"of {served.steps:,} steps" in shown.part


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("-", "standard output"),
        ("nowhere/t", "nowhere"),
        ("folder", "folder"),
        ("load.csv", "load.csv"),
        ("", "can't be written"),
        ("folder/", "folder"),
        ("load.csv/t", "load.csv"),
        ("out.json", "out.json"),
        ("./out.json", "out.json"),
        ("x" * 300, "name"),
    ],
)
def test_bad_files_are_named(armillary: Armillary, tmp_path: Path, path: str, said: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "load.csv").write_text("arrival_s,input_tokens,output_tokens\n0,5,5\n")
    words = ["serve", "llama-3-8b", "-p", "dgx-h100", "--requests", "load.csv"]
    words += ["--json", "out.json", "--timeline", path]
    found = armillary(*words, cwd=tmp_path)
    assert found.returncode == 2, found.stderr
    assert said in found.stderr
    assert "Traceback" not in found.stderr
    assert (tmp_path / "load.csv").read_text().startswith("arrival_s")
