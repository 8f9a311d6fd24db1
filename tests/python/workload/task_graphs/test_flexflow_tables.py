"""Strategies and measured operators of FlexFlow: real files and drawn ones come back as tables.

Strategies are written and read again by Google's protobuf, from the messages of
src/runtime/strategy.proto (flexflow/FlexFlow)."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Armillary
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from thorough import usually

from armillary.errors import InputError
from armillary.explain import Listing, contents
from armillary.workload.importer import import_traces

DATA = ROOT / "tests/python/data/flexflow"
SAMPLES = ROOT.parent / "shared/samples/flexflow"
MEASURED = gzip.decompress((DATA / "flexnet_measures_dlrmsmall.json.gz").read_bytes())
KINDS = ("GPU", "CPU")


@cache
def messages() -> tuple[Any, Any]:
    """The messages Strategy and Op."""
    file = descriptor_pb2.FileDescriptorProto(name="s.proto", package="FF", syntax="proto2")
    field = descriptor_pb2.FieldDescriptorProto
    op = file.message_type.add(name="Op")
    for number, name, kind, label in (
        (1, "name", field.TYPE_STRING, field.LABEL_REQUIRED),
        (2, "device_type", field.TYPE_INT32, field.LABEL_REQUIRED),
        (3, "dims", field.TYPE_INT32, field.LABEL_REPEATED),
        (4, "device_ids", field.TYPE_INT32, field.LABEL_REPEATED),
    ):
        op.field.add(number=number, name=name, type=kind, label=label)
    file.message_type.add(name="Strategy").field.add(
        number=1, name="ops", type=field.TYPE_MESSAGE, label=field.LABEL_REPEATED, type_name="Op"
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = (pool.FindMessageTypeByName(f"FF.{name}") for name in ("Strategy", "Op"))
    strategy, op_class = map(message_factory.GetMessageClass, found)
    return strategy, op_class


Op = dict[str, Any]


def written(ops: list[Op], packed: bool = False) -> bytes:
    """A strategy as FlexFlow writes it."""
    strategy = messages()[0]()
    for each in ops:
        strategy.ops.add(**each)
    data: bytes = strategy.SerializeToString()
    if not packed:
        return data
    # Packed numbers, as other writers of protobuf have them.
    out = b""
    for each in ops:
        name = each["name"].encode()
        body = b"\x0a" + bytes([len(name)]) + name + bytes([0x10, each["device_type"]])
        for key, values in ((0x1A, each["dims"]), (0x22, each["device_ids"])):
            body += bytes([key, len(values), *values]) if values else b""
        out += b"\x0a" + bytes([len(body)]) + body
    return out


def listing(path: Path) -> Listing:
    found = contents(path)
    assert isinstance(found, Listing)
    return found


@pytest.mark.parametrize(
    "name", ["flexflow_dlrm_strategy_8embs_8gpus.pb", "flexflow_dlrm_strategy_16embs_16gpus.pb"]
)
def test_real_strategies_are_as_googles_reader_has_them(name: str) -> None:
    path = DATA / name if (DATA / name).is_file() else SAMPLES / name
    if not path.is_file():
        pytest.skip(f"{path} is missing")
    expected = messages()[0].FromString(path.read_bytes())
    found = listing(path).data
    assert len(found["operators"]) == len(expected.ops) > 10
    load = Counter[tuple[str, int]]()
    for row, one in zip(found["operators"], expected.ops, strict=True):
        assert row["name"] == one.name
        assert row["device_type"] == KINDS[one.device_type]
        assert row["dims"] == list(one.dims)
        assert row["device_ids"] == list(one.device_ids)
        load.update((row["device_type"], each) for each in one.device_ids)
    devices = {(each["device_type"], each["device"]): each["parts"] for each in found["devices"]}
    assert devices == load


def drawn(chance: random.Random) -> list[Op]:
    ops = []
    for number in range(chance.randint(1, 12)):
        dims = [chance.choice((1, 1, 2, 3, 4)) for _ in range(chance.randint(1, 4))]
        parts = 1
        for each in dims:
            parts *= each
        devices = [chance.randrange(16) for _ in range(parts)] if chance.random() < 0.9 else []
        kind = chance.randrange(2)
        ops.append(
            {"name": f"op_{number}", "device_type": kind, "dims": dims, "device_ids": devices}
        )
    return ops


@pytest.mark.parametrize("seed", range(usually(20, 1000)))
def test_drawn_strategies_come_back(seed: int, tmp_path: Path) -> None:
    """As a table, as JSON and as CSV."""
    chance = random.Random(seed)
    ops = drawn(chance)
    path = tmp_path / "s.pb"
    data = written(ops, chance.random() < 0.5)
    path.write_bytes(gzip.compress(data) if chance.random() < 0.3 else data)
    found = listing(path)
    assert found.data["operators"] == [
        {
            "name": each["name"],
            "device_type": KINDS[each["device_type"]],
            "dims": each["dims"],
            "parts": len(each["device_ids"]) or row["parts"],
            "device_ids": each["device_ids"],
        }
        for each, row in zip(ops, found.data["operators"], strict=True)
    ]
    rows = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert [list(map(int, row["device_ids"].split())) for row in rows] == [
        each["device_ids"] for each in ops
    ]
    assert [list(map(int, row["dims"].split("-"))) for row in rows] == [
        each["dims"] for each in ops
    ]
    shared = sum(len({*each["device_ids"]}) < len(each["device_ids"]) for each in ops)
    said = [each for each in found.data["warnings"] if "several parts on one device" in each]
    assert bool(shared) == bool(said)
    assert not shared or said[0].startswith(f"{shared} operator")


def one(**changed: object) -> bytes:
    sound = {"name": "a", "device_type": 0, "dims": [1, 2], "device_ids": [0, 1]}
    return written([sound | changed])


TWO = [
    {"name": "a", "device_type": 0, "dims": [2], "device_ids": [0, 1]},
    {"name": "b", "device_type": 1, "dims": [1], "device_ids": [3]},
]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (one(dims=[2, 2]), "2 devices for 4 parts"),
        (one(dims=[0, 2]), "invalid parts: 0 x 2"),
        (one(dims=[-1, 2]), "invalid parts: -1 x 2"),
        (one(dims=[2**20, 2]), "invalid parts: 1048576 x 2"),
        (one(dims=[1] * 17), "has 17 dimensions"),
        (one(dims=[], device_ids=[3]), "has 0 dimensions"),
        (one(device_ids=[0, -3]), "invalid device: -3"),
        (one(device_ids=[2**24, 1]), "invalid device: 16777216"),
        (written(TWO) + b"\x0a\x06\x0a\x01c\x10\x07\x18\x01", "is damaged"),
        (written(TWO) + b"\x0a\x07\x0a\x01c\x10\x07\x18\x01", "unknown type of device: 7"),
        (written([TWO[0], TWO[0]]), "has 'a' several times"),
        (written(TWO)[:-2], "is damaged"),
        (written(TWO) + b"\x0a\x02\x10\x00", "name is missing"),
        (written(TWO) + b"\x08\x01", "is damaged"),
    ],
)
def test_strategies_that_flexflow_would_refuse_are_refused(
    data: bytes, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "s.pb"
    path.write_bytes(data)
    with pytest.raises(InputError) as error:
        contents(path)
    [problem] = error.value.problems
    assert said in f"{problem.place} {problem.message}"
    assert problem.help


def test_names_that_are_hashes_are_said(tmp_path: Path) -> None:
    """`save_strategies_to_file` writes hashes of names."""
    (tmp_path / "s.pb").write_bytes(one(name="12839491230914"))
    assert "names are numbers" in listing(tmp_path / "s.pb").data["warnings"][0]


def test_measured_operators_come_back_with_their_coverage(tmp_path: Path) -> None:
    """Every row; splits are the 20 divisors of 432."""
    (tmp_path / "m.json").write_bytes(MEASURED)
    found = listing(tmp_path / "m.json")
    expected = json.loads(MEASURED)
    assert (found.data["batch"], found.data["gpus"], found.data["splits"]) == (55296, 432, 20)
    rows = list(csv.DictReader(io.StringIO(found.to_csv())))
    for row, text, own in zip(found.data["rows"], rows, expected["measurements"], strict=True):
        assert (row["name"], row["memory_bytes"]) == (own["name"], own["mem_req"])
        assert (row["forward_ms"], row["backward_ms"]) == (own["fw_time"], own["bw_time"])
        assert own["pc_str"] == f"{len(row['dims'])}-{text['dims']}"
        assert float(text["forward_ms"]) == own["fw_time"]
    times = {
        (each["name"], each["pc_str"]): each["fw_time"] + each["bw_time"]
        for each in expected["measurements"]
    }
    covered = {each["name"]: each for each in found.data["coverage"]}
    assert covered["Embed_10000000x128"]["measured"] == 1
    assert covered["Embed_10000000x128"]["efficiency"] is None
    dense = covered["Dense_4096_4096"]
    assert (dense["measured"], dense["least_parts"], dense["most_parts"]) == (20, 1, 432)
    whole, most = (times["Dense_4096_4096", split] for split in ("2-1-1", "2-1-432"))
    assert dense["efficiency"] == pytest.approx(whole / (432 * most))
    assert found.data["warnings"] == [
        "1 operator not measured in every split, such as Embed_10000000x128: 1 of 20"
    ]


Change = Callable[[dict[str, Any]], object]


def row(**changed: object) -> Change:
    return lambda value: value["measurements"][3].update(changed)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (row(pc_str="2-1"), "2-1 says 2 dimensions and has 1"),
        (row(pc_str="1x2"), "is not a split: '1x2'"),
        (row(pc_str=3), "is not a split: '3'"),
        (row(pc_str="2-0-4"), "2-0-4 has more parts than GPUs, or none"),
        (row(pc_str="2-2-432"), "has more parts than GPUs"),
        (row(pc_str="2-1-144"), "in 1-144 parts once more"),
        (row(fw_time=-1), "fw_time invalid time in ms: -1"),
        (row(bw_time="5"), "bw_time invalid time in ms: 5"),
        (row(bw_time=True), "bw_time invalid time in ms: True"),
        (row(mem_req=1.5), "mem_req invalid number: 1.5"),
        (row(name=""), "name is not a name"),
        (row(other=1), "measurements[3].other is unknown"),
        (lambda value: value["measurements"][3].pop("name"), "measurements[3].name is missing"),
        (lambda value: value["measurements"].append(1), "measurements[101] is not a mapping"),
        (lambda value: value.pop("ngpus"), "ngpus is missing"),
        (lambda value: value.update(ngpus=0), "ngpus invalid number: 0"),
        (lambda value: value.update(batch_size=None), "batch_size invalid number: None"),
        (lambda value: value.update(more={}), "more is unknown"),
    ],
)
def test_other_tables_are_refused(change: Change, said: str, tmp_path: Path) -> None:
    value = json.loads(MEASURED)
    change(value)
    (tmp_path / "m.json").write_text(json.dumps(value), encoding="utf-8")
    with pytest.raises(InputError) as error:
        contents(tmp_path / "m.json")
    [problem] = error.value.problems
    assert said in f"{problem.place} {problem.message}"
    assert problem.help


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (MEASURED[:-9], "is not JSON"),
        (MEASURED.replace(b"Dense", b"\xff", 1), "is not UTF-8"),
        (MEASURED.replace(b"0.172442", b"NaN", 1), "is nan"),
    ],
)
def test_damaged_tables_are_refused(data: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "m.json").write_bytes(data)
    with pytest.raises(InputError, match=said):
        contents(tmp_path / "m.json")


def test_the_verbs_print_and_write_them(armillary: Armillary, tmp_path: Path) -> None:
    """`check` prints; `import` writes CSV or JSON, and no workload."""
    (tmp_path / "s.pb").write_bytes(written(TWO))
    ran = armillary("check", "s.pb", "--json", "s.json")
    assert ran.returncode == 0, ran.stderr
    assert "Strategy of FlexFlow: 2 operators on 3 devices" in ran.stdout
    found = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))
    assert found["schema"] == "armillary.flexflow-strategy/1"
    ran = armillary("import", "s.pb", "-o", "table.csv")
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "table.csv").read_text(encoding="utf-8").splitlines() == [
        "name,device_type,dims,parts,device_ids",
        "a,GPU,2,2,0 1",
        "b,CPU,1,1,3",
    ]
    ran = armillary("import", "s.pb", "-o", "table.json")
    assert ran.returncode == 0, ran.stderr
    assert json.loads((tmp_path / "table.json").read_text(encoding="utf-8")) == found
    for words, said in (
        (["-o", "job"], "a name that ends in .csv or .json"),
        (["-o", "t.csv", "--step", "3"], "has no effect on a table"),
    ):
        ran = armillary("import", "s.pb", *words)
        assert ran.returncode == 2
        assert said in ran.stderr
    with pytest.raises(InputError, match="is a strategy of FlexFlow") as error:
        import_traces([tmp_path / "s.pb"])
    assert "armillary import FILE -o TABLE.csv" in str(error.value)
