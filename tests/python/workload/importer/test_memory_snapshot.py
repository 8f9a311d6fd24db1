"""Snapshots of PyTorch's memory: an allocator that is written here says what they hold.

It counts bytes forwards from the first allocation, the reader backwards from the last state."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import memory_snapshots as made
import pytest
from conftest import Armillary
from thorough import usually

import armillary as arm
from armillary.errors import InputError
from armillary.explain import contents


@pytest.mark.parametrize("seed", range(usually(25, 2000)))
def test_what_an_allocator_did_comes_back(seed: int, tmp_path: Path) -> None:
    """Several devices, and events without the first ones, which are no longer kept."""
    chance = random.Random(seed)
    devices = [
        made.drawn(chance, device, chance.randint(1, 120)) for device in range(chance.randint(1, 3))
    ]
    kept = [chance.choice((len(one.events), chance.randint(1, len(one.events)))) for one in devices]
    path = made.write(tmp_path / "x.bin", made.snapshot(devices, kept), chance)
    found = contents(path)
    assert found is not None
    rows = {row["device"]: row for row in found.data["devices"]}
    assert [*rows] == [one.device for one in devices]
    for one, count in zip(devices, kept, strict=True):
        row, states = rows[one.device], one.states[len(one.events) - count :]
        blocks = [block for segment in one.segments for block in segment]
        assert row["reserved_bytes"] == one.reserved
        assert row["requested_bytes"] == one.requested
        assert row["allocated_bytes"] == sum(each.size for each in blocks if each.requested)
        assert row["pending_bytes"] == sum(each.size for each in blocks if each.pending)
        assert row["segments"] == len(one.segments)
        assert row["peak_requested_bytes"] == max(requested for requested, _ in states)
        assert row["peak_reserved_bytes"] == max(reserved for _, reserved in states)
        assert row["requested_before_bytes"] == states[0][0]
        ooms = [each["action"] for each in one.events[len(one.events) - count :]].count("oom")
        assert (row["events"], row["failed_allocations"]) == (count, ooms)
        assert sum(each["bytes"] for each in row["holders"]) == row["peak_requested_bytes"]
        whole = count == len(one.events)
        frames = {each["frame"] for each in row["holders"]}
        assert frames <= ({*made.LINES} if whole else {*made.LINES, ""})
        assert (
            any("events begin when" in each for each in found.data["warnings"])
            or whole
            or (not states[0][0])
        )


def test_what_is_held_at_the_peak(tmp_path: Path) -> None:
    """Not what is held at the end. Bytes by line, the largest first."""
    one = made.Allocator(0, random.Random(0))
    blocks = [one.alloc(size * made.MIB, made.FRAMES[at]) for at, size in ((0, 30), (1, 9), (0, 5))]
    for block in blocks[:2]:
        one.free(block, False)
    one.alloc(made.MIB, made.FRAMES[2])
    path = made.write(tmp_path / "x", made.snapshot([one], [len(one.events)]), random.Random(3))
    found = contents(path)
    assert found is not None
    [row] = found.data["devices"]
    assert row["holders"] == [
        {"frame": made.LINES[0], "blocks": 2, "bytes": 35 * made.MIB},
        {"frame": made.LINES[1], "blocks": 1, "bytes": 9 * made.MIB},
    ]
    assert "model.py:12 forward" in str(found)


def small(chance: random.Random) -> made.Allocator:
    one = made.drawn(chance, 0, 40)
    one.alloc(made.MIB + 3, made.FRAMES[0])
    return one


@pytest.mark.parametrize("kept", [0, 1])
def test_without_events_there_is_no_peak(kept: int, tmp_path: Path) -> None:
    """What is held is said all the same; a comparison has nothing to compare."""
    one = small(random.Random(1))
    one.note("snapshot", 0, 0, [])
    # The last event is the snapshot itself.
    path = made.write(tmp_path / "x", made.snapshot([one], [kept]), random.Random(1))
    found = contents(path)
    assert found is not None
    [row] = found.data["devices"]
    assert row["peak_requested_bytes"] is None
    assert sum(each["bytes"] for each in row["holders"]) == one.requested
    assert "_record_memory_history" in found.data["warnings"][0]


def test_events_that_contradict_the_blocks_give_no_peak(tmp_path: Path) -> None:
    """A recording that left out allocations (`skip_actions`)."""
    one = small(random.Random(2))
    value = made.snapshot([one], [len(one.events)])
    value["device_traces"][0] = [
        each for each in value["device_traces"][0] if each["action"] != "alloc"
    ]
    found = contents(made.write(tmp_path / "x", value, random.Random(2)))
    assert found is not None
    assert found.data["devices"][0]["peak_requested_bytes"] is None
    assert "do not lead to the blocks" in found.data["warnings"][0]


Change = Callable[[dict[str, Any]], object]


def block(value: dict[str, Any], **changed: object) -> None:
    used = [
        each
        for segment in value["segments"]
        for each in segment["blocks"]
        if each["state"] == "active_allocated"
    ]
    used[0].update(changed)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda value: value.update(segments={}), "segments is not a list"),
        (lambda value: value["segments"].insert(0, 7), "segments[0] is not a mapping"),
        (lambda value: value["segments"][0].pop("device"), "segments[0].device is missing"),
        (lambda value: value["segments"][0].update(device=-1), "device invalid number: -1"),
        (lambda value: value["segments"][0].update(device=True), "device invalid number: True"),
        (lambda value: value["segments"][0].update(total_size=3), "total_size says 3 bytes"),
        (lambda value: value["segments"][0].update(allocated_size=1), "allocated_size says 1 byte"),
        (lambda value: value["segments"][0].update(active_size=2**61), "active_size invalid"),
        (lambda value: value["segments"][0].update(blocks=None), "blocks is not a list"),
        (lambda value: block(value, state="used"), "state is unknown: 'used'"),
        (lambda value: block(value, size=2**70), "size invalid number"),
        (lambda value: block(value, requested_size=2**59), "is more than the block has"),
        (lambda value: block(value, requested_size=1.5), "requested_size invalid number: 1.5"),
        (lambda value: block(value, address=1), "address is not where the block before it ends"),
        (lambda value: value["segments"].append(value["segments"][0]), "lies in two blocks"),
        (lambda value: value.update(device_traces=3), "device_traces is not a list"),
        (lambda value: value["device_traces"].append("x"), "device_traces[1] is not a list"),
        (lambda value: value["device_traces"][0].append([]), "is not a mapping"),
        (lambda value: value["device_traces"][0][0].update(action=[]), "action invalid text: a"),
        (lambda value: value["device_traces"][0][0].update(action="z"), "action is unknown: 'z'"),
        (lambda value: value["device_traces"][0][0].pop("addr"), "addr is missing"),
        (lambda value: value["device_traces"][0][0].update(size="9"), "size invalid number: '9'"),
        (lambda value: value.update(segments=[], device_traces=[]), "nothing was allocated"),
    ],
)
def test_what_is_not_as_pytorch_writes_it_is_refused(
    change: Change, said: str, tmp_path: Path
) -> None:
    """With the place, and a way out."""
    one = small(random.Random(5))
    value = pickle.loads(pickle.dumps(made.snapshot([one], [len(one.events)])))
    change(value)
    (tmp_path / "x.pickle").write_bytes(pickle.dumps(value))
    with pytest.raises(InputError) as error:
        contents(tmp_path / "x.pickle")
    [problem] = error.value.problems
    assert said in f"{problem.place} {problem.message}"
    assert problem.help


class Calls:
    """A pickle of it calls a function."""

    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("called",)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (pickle.dumps({"segments": Calls()}), "is not loaded"),
        (pickle.dumps({"segments": []})[:-9], "is damaged"),
        (b"\x80\x04", "is damaged"),
        (pickle.dumps([1, 2]), "is a pickle of something else"),
        (b'{"segments": [', "can't be read"),
        (b'{"segments": "' + b"\xff" + b'"}', "can't be read"),
        (b'{"device_traces": []}', "segments is not a list"),
        (b'{"segments":' + b"[" * 100_000, "can't be read"),
    ],
)
def test_damaged_files_are_refused(data: bytes, said: str, tmp_path: Path) -> None:
    """Nothing in them is called."""
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(InputError) as error:
        contents(tmp_path / "x")
    assert said in " ".join(f"{each.place} {each.message}" for each in error.value.problems)


@pytest.fixture(scope="module")
def predicted() -> arm.Result:
    """Two stages, which need different amounts of memory."""
    return arm.simulate("llama-3-8b", "dgx-h100", tp=4, pp=2, sp=True, global_batch=8)


def holding(size: int) -> made.Allocator:
    one = made.Allocator(0, random.Random(0))
    one.free(one.alloc(size, made.FRAMES[0]), False)
    one.note("snapshot", 0, 0, [])
    return one


def test_a_prediction_next_to_snapshots(
    predicted: arm.Result, armillary: Armillary, tmp_path: Path
) -> None:
    """A rank of each stage by the name of its file; the fullest one for a name without a rank."""
    (tmp_path / "p.json").write_text(predicted.to_json(), encoding="utf-8")
    peaks = [each["peak_memory_bytes"] for each in predicted.report["classes"]]
    assert len({*peaks}) == 2
    measured = [peaks[0] * 11 // 10, peaks[1] * 9 // 10, predicted.report["memory_bytes"] or 0]
    names = ["rank_0.pickle", "rank_7.pickle", "snapshot.pickle"]
    for name, size in zip(names, measured, strict=True):
        one = holding(size)
        data = pickle.dumps(made.snapshot([one], [len(one.events)]))
        (tmp_path / name).write_bytes(data)
    run = armillary("compare", "p.json", *names, "--json", "m.json", "--report", "m.html")
    assert run.returncode == 0, run.stderr
    assert "Tensors take 10.0 % more memory than predicted" in run.stdout
    found = json.loads((tmp_path / "m.json").read_text(encoding="utf-8"))
    assert found["schema"] == "armillary.measured-memory/1"
    assert found["predicted"]["memory_bytes"] == predicted.report["memory_bytes"]
    rows = found["measured"]
    assert [row["rank"] for row in rows] == [0, 7, None]
    assert [row["predicted_bytes"] for row in rows] == [*peaks, max(peaks)]
    assert [row["ratio"] for row in rows] == pytest.approx([1.1, 0.9, 1.0], rel=1e-6)
    assert any("does not give the rank" in each for each in found["warnings"])
    assert "10.0 % more memory" in (tmp_path / "m.html").read_text(encoding="utf-8")


def test_a_comparison_needs_a_peak_and_ranks_of_the_job(
    predicted: arm.Result, tmp_path: Path
) -> None:
    one = small(random.Random(4))
    none = made.write(tmp_path / "a", made.snapshot([one], [0]), random.Random(1))
    with pytest.raises(InputError, match="has no peak: device 0: no events of allocations"):
        arm.compare(predicted, none)
    value = made.snapshot([one], [len(one.events)])
    other = made.write(tmp_path / "rank_8.pickle", value, random.Random(1))
    with pytest.raises(InputError, match="is of rank 8, and the predicted run has 8 ranks"):
        arm.compare(predicted, other)
    with pytest.raises(InputError, match="snapshots next to other files"):
        arm.compare(predicted, predicted, other)
    text = tmp_path / "layers.txt"
    text.write_text("DATA\n1\nlayer -1 9 ALLREDUCE 9 9 ALLREDUCE 9 9 ALLREDUCE 9 9\n", "utf-8")
    traffic = arm.simulate(text, arm.Platform("R(4)", bandwidth="1 GB/s", latency="1 us"))
    with pytest.raises(InputError, match="does not say its memory"):
        arm.compare(traffic, none)


def test_words_json_and_import_say_what_it_holds(armillary: Armillary, tmp_path: Path) -> None:
    """`check` prints, `import` names the verbs that take it, `run` names `check`."""
    one = holding(3 * 10**9)
    data = pickle.dumps(made.snapshot([one], [len(one.events)]))
    (tmp_path / "s.pickle").write_bytes(data)
    run = armillary("check", "s.pickle", "--json", "s.json")
    assert run.returncode == 0, run.stderr
    assert "3.000 GB" in run.stdout
    assert "model.py:12 forward" in run.stdout
    found = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))
    assert found["schema"] == "armillary.memory-snapshot/1"
    assert found["devices"][0]["peak_requested_bytes"] == 3 * 10**9
    refused = armillary("import", "s.pickle", "-o", "job")
    assert refused.returncode == 2
    assert "device 0 has 3.00 GB reserved, at most 3.00 GB of tensors" in refused.stderr
    assert "armillary compare PREDICTED.json s.pickle" in refused.stderr
    ran = armillary("run", "s.pickle", "-p", "dgx-h100")
    assert ran.returncode == 2
    assert "armillary check s.pickle" in ran.stderr
    for option in (["--npus", "4"], ["-p", "dgx-h100"], ["--passes", "2"]):
        wrong = armillary("check", "s.pickle", *option)
        assert wrong.returncode == 2
        assert "has no effect on" in wrong.stderr
