"""Turns a recorded corpus of ASTRA-sim runs into `tests/golden/astra_sim/*.json`.

    python tests/golden/tools/convert.py CORPUS tests/golden/astra_sim

CORPUS holds `index.json` (cases and what ASTRA-sim printed) and `cases/<id>/` (its inputs). What
comes out has the parameters, the workload as programs and the expected numbers, one file for each
family of cases; `tests/golden/README.md` describes the form. The traces are decoded here by hand,
so that the data owes nothing to the reader it tests. Standard library only."""

from __future__ import annotations

import itertools
import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Case = dict[str, Any]
Node = dict[str, Any]
Groups = dict[str, list[int]]

TYPES = {0: "invalid", 1: "metadata", 2: "load", 3: "store", 4: "compute", 5: "send", 6: "recv"}
KINDS = {
    0: "all_reduce",
    1: "reduce",
    2: "all_gather",
    3: "gather",
    4: "scatter",
    5: "broadcast",
    6: "all_to_all",
    7: "reduce_scatter",
    9: "barrier",
}
SIGNED = {7, 9}  # int32, int64: two's complement in a varint


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The number that begins at a place, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """Every (field number, wire type, value) of a protobuf message."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        number, wire = key >> 3, key & 7
        value: Any
        if wire == 0:
            value, at = varint(data, at)
        elif wire == 2:
            length, at = varint(data, at)
            value, at = data[at : at + length], at + length
            assert len(value) == length, "message cut short"
        else:
            width, form = {1: (8, "<Q"), 5: (4, "<I")}[wire]
            value, at = struct.unpack(form, data[at : at + width])[0], at + width
        yield number, wire, value


def numbers(wire: int, value: Any) -> Iterator[int]:  # noqa: ANN401
    """A repeated integer field, packed or not."""
    if wire == 0:
        yield value
        return
    at = 0
    while at < len(value):
        one, at = varint(value, at)
        yield one


def attribute(data: bytes) -> tuple[str, Any]:
    """Name and value of an attribute."""
    name, value = "", None
    for number, _, raw in fields(data):
        if number == 1:
            name = raw.decode()
        elif number in SIGNED:
            value = raw - (1 << 64) if raw >> 63 else raw
        elif number in (11, 13, 27):
            value = raw
        elif number == 28:
            value = [bool(v) for _, w, r in fields(raw) for v in numbers(w, r)]
        elif number == 29:
            value = raw.decode()
        elif number == 30:
            value = [r.decode() for _, _, r in fields(raw)]
        elif number != 2:
            raise ValueError(
                f"attribute {name}: value of field {number} is not expected in this corpus"
            )
    return name, value


def messages(path: Path) -> Iterator[bytes]:
    """The messages of a file, each behind its length."""
    data, at = path.read_bytes(), 0
    while at < len(data):
        length, at = varint(data, at)
        yield data[at : at + length]
        at += length


def node(data: bytes) -> Node:
    """One node with its attributes, as the file has it."""
    found: Node = {"id": 0, "name": "", "type": 0, "deps": [], "us": 0, "attr": {}, "declares": []}
    for number, wire, value in fields(data):
        if number == 1:
            found["id"] = value
        elif number == 2:
            found["name"] = value.decode()
        elif number == 3:
            found["type"] = value
        elif number in (4, 5):
            found["deps"] += numbers(wire, value)
        elif number == 7:
            found["us"] = value
        elif number == 8:
            found["declares"] += [
                json.loads(json.loads(v)[0]) for n, _, v in fields(value) if n == 1
            ]
        elif number == 10:
            name, content = attribute(value)
            found["attr"][name] = content
        else:
            raise ValueError(f"node field {number} is not expected in this corpus")
    return found


def program(path: Path, rank: int) -> tuple[list[Node], list[str], Groups]:
    """(nodes seen from `rank`, group names by slot, groups the trace declares)."""
    nodes: list[Node] = []
    slots: list[str] = []
    declared: Groups = {}
    for data in itertools.islice(messages(path), 1, None):
        raw = node(data)
        for group in itertools.chain(*raw["declares"]):
            declared[group["pg_name"]] = group["ranks"]
        nodes.append(seen_from(rank, raw, slots))
    assert len({n["id"] for n in nodes}) == len(nodes), f"{path}: ids repeat"
    return nodes, slots, declared


def seen_from(rank: int, raw: Node, slots: list[str]) -> Node:
    """A node as its rank sees it."""
    attr = raw["attr"]
    out = {"id": raw["id"], "name": raw["name"], "op": TYPES.get(raw["type"])}
    if raw["deps"]:
        out["after"] = raw["deps"]
    if raw["us"]:
        out["us"] = raw["us"]
    if out["op"] == "compute":
        out.update(
            {
                key: attr[name]
                for key, name in (("ops", "num_ops"), ("bytes", "tensor_size"))
                if name in attr
            }
        )
        if attr.get("is_cpu_op"):
            out["cpu"] = True
    elif out["op"] in ("load", "store"):
        out["bytes"] = attr["tensor_size"]
    elif out["op"] in ("send", "recv"):
        mine, other = ("comm_src", "comm_dst") if out["op"] == "send" else ("comm_dst", "comm_src")
        assert attr.get(mine, rank) == rank
        out.update(peer=attr[other] - rank, bytes=attr["comm_size"], tag=attr["comm_tag"])
    elif out["op"] is None:
        collective(out, attr, slots)
    return out


def collective(out: Node, attr: dict[str, Any], slots: list[str]) -> None:
    """Adds what a collective says of itself."""
    out.update(op=KINDS[attr["comm_type"]], bytes=attr["comm_size"])
    group = attr.get("pg_name", "")
    group = "" if group == "0" else group
    if group not in slots:
        slots.append(group)
    if slots.index(group):
        out["slot"] = slots.index(group)
    if attr.get("comm_priority"):
        out["priority"] = attr["comm_priority"]
    if "involved_dim" in attr:
        out["dims"] = [d for d, takes_part in enumerate(attr["involved_dim"]) if takes_part]


def workload(case: Case, folder: Path) -> tuple[list[list[Node]], list[list[Any]], Groups]:
    """(programs, [[ranks in a row, program, group names by slot]], declared groups)."""
    programs: list[list[Node]] = []
    rows: list[tuple[int, list[str]]] = []
    declared: Groups = {}
    npus = case["npus"]
    same = case.get("uniform_trace") or case.get("replicate_rank0")
    for rank in range(1 if same else npus):
        nodes, slots, own = program(folder / f"trace.{rank}.et", rank)
        declared.update(own)
        if nodes not in programs:
            programs.append(nodes)
        rows.append((programs.index(nodes), [] if slots in ([], [""]) else slots))
    if same:
        rows *= npus
    ranks = [[len(list(run)), *key] for key, run in itertools.groupby(rows)]
    return programs, ranks, declared


def expected(case: Case) -> tuple[dict[str, list[list[Any]]], dict[str, str]]:
    """Results of ASTRA-sim: {backend: [[ranks in a row, finish, exposed]]}, {backend: why nothing
    can be compared}."""
    numbers: dict[str, list[list[Any]]] = {}
    nothing: dict[str, str] = {}
    for backend, run in case["expected"].items():
        if run.get("rc") == 0 and run.get("all_finished"):
            finish = run.get("finish") or [run["finish_all_equal"]] * case["npus"]
            exposed = run.get("exposed") or [run.get("exposed_all_equal")] * case["npus"]
            runs = [
                [len(list(g)), *key]
                for key, g in itertools.groupby(zip(finish, exposed, strict=True))
            ]
            numbers[backend] = runs
        else:
            nothing[backend] = why(run)
    return numbers, nothing


def why(run: dict[str, Any]) -> str:
    """Why a run has no numbers."""
    text = " ".join(run.get("message") or [])
    if "only support 1-dim topology" in text:
        return "runs one dimension only"
    if run.get("timeout"):
        return "does not end"
    if run["rc"] == 0:
        done = run.get("finished_ranks") or []
        return f"ends with exit code 0 after {len(done)} of the ranks" + (
            f": {done}" if done else ""
        )
    return f"exit code {run['rc']}" + (f": {text[:160]}" if text else "")


def convert(case: Case, corpus: Path) -> Case:
    """A case in the form that the tests read."""
    folder = corpus / "cases" / case["id"]
    programs, ranks, declared = workload(case, folder)
    groups = declared
    if (folder / "comm_group.json").exists():
        groups |= json.loads((folder / "comm_group.json").read_text())
    numbers, nothing = expected(case)
    out = {"id": case["id"], "tags": case["tags"]}
    if case["note"]:
        out["note"] = case["note"]
    if "paper_us" in case:
        out["paper_us"] = case["paper_us"]
    out["network"] = {key: case[key] for key in ("topology", "npus_count", "bandwidth", "latency")}
    out["system"] = json.loads((folder / "system.json").read_text())
    out["memory"] = json.loads((folder / "memory.json").read_text())
    out |= {key: value for key, value in (("args", case["args"]), ("groups", groups)) if value}
    if case.get("replicate_rank0"):
        out["one_file"] = True
    out["programs"], out["ranks"] = programs, ranks
    out["expected"] = numbers
    if nothing:
        out["nothing_to_compare"] = nothing
    return out


def show(case: Case) -> str:
    """A case with one node and one stretch of ranks a line."""
    lines = []
    for key, value in case.items():
        if key == "programs":
            bodies = [",\n".join("   " + json.dumps(n) for n in nodes) for nodes in value]
            lines.append(
                '  "programs": ['
                + ", ".join(f"[\n{body}]" if body else "[]" for body in bodies)
                + "]"
            )
        elif key == "groups":
            body = ",\n".join(
                f"   {json.dumps(name)}: {json.dumps(ranks)}" for name, ranks in value.items()
            )
            lines.append('  "groups": {\n' + body + "}")
        else:
            lines.append(f"  {json.dumps(key)}: {json.dumps(value)}")
    return " {\n" + ",\n".join(lines) + "\n }"


def main(corpus: Path, target: Path) -> None:
    """Writes one file for each family."""
    index = json.loads((corpus / "index.json").read_text())
    cases = sorted(index["cases"], key=lambda c: c["id"])
    for family, members in itertools.groupby(cases, key=lambda c: c["id"].split("_")[0]):
        texts = [show(convert(case, corpus)) for case in members]
        (target / f"{family}.json").write_text("[\n" + ",\n".join(texts) + "\n]\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
