"""Files of every kind: unpacked, told apart, refused with their reason; damaged ones never with a
traceback."""

from __future__ import annotations

import gzip
import json
import random
import tarfile
from pathlib import Path

import pytest
from recorded import Recording, nccl

from armillary.errors import InputError
from armillary.workload.importer import import_traces

REFUSED = {
    "empty.json": (b"", "is empty"),
    "list.json": (b"[[-1, 1, 37888, 7]]", "memory timeline"),
    "t.csv": (b"name,duration\na,1\n", "comma-separated"),
    "chakra.json": (b'{"workload_graph": []}', "Chakra trace"),
    "chakra.et": (b"\x1e\x12\x10\n\x06schema\xea\x01\x051.0.1", "Chakra trace"),
    "version.et": (b"\x07\n\x050.0.4H\x12\x14all_gather_8n", "Chakra trace"),
    "words.md": (b"# Chakra traces, schema 0.0.4\n\nand more", "is not JSON"),
    "network.yml": (b"topology: [ Ring, Switch ]\n", "is not JSON"),
    "blanks.json": (b" " * 5000 + b"x", "is not JSON"),
    "npkit.json": (b'{"NPKIT_EVENT_GPU_SEND": {}}', "NPKit"),
    "other.json": (b'{"a": 1}', "without traceEvents and without nodes"),
    "cut.json": (b'{"traceEvents": [{"ph": "X"', "is not a trace"),
    "nothing.json": (b'{"traceEvents": []}', "no host operation and no kernel"),
    "nodes.json": (b'{"nodes": [{"a": 1}], "schema": "1.1.1"}', "have no id or no name"),
    "cut.gz": (gzip.compress(b'{"traceEvents": []}')[:-9], "can't be read"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(tmp_path: Path, name: str) -> None:
    content, reason = REFUSED[name]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=reason) as caught:
        import_traces([path])
    assert caught.value.problems[0].file.startswith(str(path))


def small(rank: int, world: int) -> Recording:
    trace = Recording(rank, world)
    trace.step(1, 0, 100)
    members = list(range(world))
    trace.kernel(
        "ncclDevKernel_AllReduce", 10, 20, 30, stream=20, **nccl("allreduce", 100, members)
    )
    return trace


def test_archives_and_directories(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    files = [
        small(rank, 2).write(tmp_path / "run" / f"rank{rank}.json{'.gz' * rank}")
        for rank in range(2)
    ]
    archive = tmp_path / "run.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for file in files:
            tar.add(file, arcname=f"run/{file.name}")
    digests = {import_traces([path]).workload.operations for path in (archive, tmp_path / "run")}
    assert digests == {import_traces(files).workload.operations}


def test_every_problem_is_listed(tmp_path: Path) -> None:
    for name in ("list.json", "other.json"):
        (tmp_path / name).write_bytes(REFUSED[name][0])
    with pytest.raises(InputError) as caught:
        import_traces([tmp_path])
    assert len(caught.value.problems) == 2
    with pytest.raises(InputError, match="no such file"):
        import_traces([tmp_path / "missing.json"])


def test_lenient_where_it_is_harmless(tmp_path: Path) -> None:
    """NaN and control characters, as some exporters write them."""
    path = small(0, 1).write(tmp_path / "t.json")
    text = path.read_text(encoding="utf-8").replace(
        '"stream": 20', '"stream": 20, "occupancy": NaN, "note": "a\tb"'
    )
    path.write_text(text, encoding="utf-8")
    assert import_traces([path]).ranks[0].kernels == 1


JUNK: list[object] = [
    None,
    -1,
    0,
    2**70,
    1e300,
    "",
    "x",
    [],
    {},
    [1],
    {"a": 1},
    True,
    "[0, 1, ...]",
    1e-20,
]


def damaged(value: object, chance: random.Random) -> object:
    if chance.random() < 0.01:
        return chance.choice(JUNK)
    if isinstance(value, dict):
        return {
            key: damaged(inner, chance) for key, inner in value.items() if chance.random() > 0.005
        }
    return [damaged(inner, chance) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("seed", range(60))
def test_damage_is_imported_or_refused(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    path = small(0, 2).write(tmp_path / "t.json")
    data = path.read_bytes()
    if seed % 3:
        data = json.dumps(damaged(json.loads(data), chance)).encode()
    else:
        at = chance.randrange(len(data))
        data = data[:at] + bytes([chance.randrange(256)]) + data[at + chance.randint(0, 9) :]
    path.write_bytes(data)
    try:
        assert import_traces([path]).workload.operations > 0
    except InputError as error:
        assert error.problems


KERNEL = (
    '{"ph":"X","cat":"kernel","name":"k","ts":1,"dur":1,"pid":1,"tid":1,'
    '"args":{"stream":7,"device":0,"correlation":1}}'
)


def document(*events: str) -> bytes:
    head = '{"schemaVersion":1,"distributedInfo":{"rank":0,"world_size":1},"traceEvents":['
    return (head + ",".join(events) + "]}").encode()


@pytest.mark.parametrize(
    "event",
    [
        KERNEL.replace('"dur":1', '"dur":NaN'),
        KERNEL.replace('"ts":1', '"ts":Infinity'),
        KERNEL.replace('"ts":1', '"ts":"sNaN"'),
        KERNEL.replace('"dur":1', '"dur":1e9999999999999999999'),
        KERNEL.replace('"name":"k"', '"name":"\\ud800"'),
        KERNEL.replace('"stream":7', '"stream":"\\udc00 \\\\ud800 \\ud83d\\ude00"'),
    ],
)
def test_events_damaged_in_one_place_do_not_end_the_import(tmp_path: Path, event: str) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(document(KERNEL, event))
    assert import_traces([path]).ranks[0].kernels >= 1


HOST = b'{"schema": "1.1.1", "nodes": [{"id": %s, "name": "aten::add", "ctrl_deps": 1}]}'
NESTED = b'{"traceEvents": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (document(KERNEL.replace('"pid":1', '"pid":' + "1" * 5000)), "4,300 digits"),
        (NESTED, "nested too deeply"),
        (HOST % b"Infinity", "a field is of the wrong kind"),
        (document(KERNEL, KERNEL.replace('"ts":1', '"ts":1e16')), "days before"),
    ],
)
def test_what_nothing_can_be_made_of_is_refused(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=reason):
        import_traces([path])


@pytest.mark.parametrize("ranks", [0, -1, 10**30])
def test_numbers_of_ranks_that_are_none(tmp_path: Path, ranks: int) -> None:
    with pytest.raises(InputError, match="invalid number of ranks"):
        import_traces([small(0, 1).write(tmp_path / "t.json")], ranks=ranks)


def test_archives_in_one_another_end(tmp_path: Path) -> None:
    data = document(KERNEL)
    for _ in range(30):
        data = gzip.compress(data)
    (tmp_path / "t.json.gz").write_bytes(data)
    with pytest.raises(InputError, match="packed too many times"):
        import_traces([tmp_path / "t.json.gz"])


def test_bombs_are_refused_before_they_are_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(b" " * (80 * 2**20), 9))
    with pytest.raises(InputError, match="holds more than 200 times its size"):
        import_traces([path])
    monkeypatch.setenv("ARMILLARY_MEMORY", "16 MiB")
    with pytest.raises(InputError, match="memory can hold"):
        import_traces([path])
    monkeypatch.setenv("ARMILLARY_MEMORY", "unlimited")
    with pytest.raises(InputError, match="is empty"):
        import_traces([path])


def test_recordings_repeat_themselves_and_are_unpacked(tmp_path: Path) -> None:
    """Sixty times smaller, which is as small as recordings get."""
    files = [small(rank, 2).write(tmp_path / f"rank{rank}.json") for rank in range(2)]
    wanted = import_traces(files).workload.operations
    packed = []
    for file in files:
        data = file.read_bytes() + b" " * 60 * file.stat().st_size
        packed.append(file.with_suffix(".json.gz"))
        packed[-1].write_bytes(gzip.compress(data))
        file.unlink()
    assert import_traces(packed).workload.operations == wanted


def test_devices_are_no_recordings() -> None:
    with pytest.raises(InputError, match="is a device"):
        import_traces([Path("/dev/zero")])


def test_names_are_looked_at_as_far_as_names_go(tmp_path: Path) -> None:
    """A name of 16 MiB, which patterns would take half a minute to search."""
    path = tmp_path / "t.json"
    name = "a_" * 2**23
    path.write_bytes(document(KERNEL, KERNEL.replace('"name":"k"', f'"name":"{name}"')))
    assert import_traces([path]).ranks[0].kernels == 2
