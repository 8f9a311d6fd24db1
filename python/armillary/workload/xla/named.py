"""Instructions of a module of XLA by their name: the collective that one is, its layer, the kind of
its kernel. Profiles have only names.

Here: look-ups by name, and the same from the text of one instruction, which profiles of TPUs have
in place of a module. Not here: whole programs (`steps.py`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import costs, devices, importing, steps
from .module import (
    BITS,
    MOST_DEVICES,
    Computation,
    DamagedError,
    Groups,
    Instruction,
    Module,
    Shape,
    array,
)

_BASES = (*steps.COLLECTIVES, steps.PERMUTE, "send", "recv")
_NAME = re.compile(
    rf"%?({'|'.join(sorted(_BASES, key=len, reverse=True))}|async-collective|all-reduce-scatter)"
    r"(-start|-done)?(?:[._][\w.\-]*)?"
)
_TEXT = re.compile(
    r"\s*(?:ROOT )?%?([\w.\-]{1,512}) = (.*?)\s([a-z][a-z\-]{1,40})\((.*)", re.DOTALL
)
_ARRAY = re.compile(r"\b([a-z]\w{1,15})\[([\d,]*)\]")
_GROUPS = re.compile(
    r"replica_groups=(\{(?:\{[\d,\s]*\},?\s*)*\}|\[[\d,]+\]<=\[[\d,]+\](?:T\([\d,]+\))?)"
)
_PAIRS = re.compile(r"source_target_pairs=(\{(?:\{[\d,\s]*\},?\s*)*\})")
_CHANNEL = re.compile(r"channel_id=[1-9]")
_STARTED = re.compile(r"%([\w.\-]{1,512})")
_OP_NAME = re.compile(r'op_name="([^"]{0,512})"')
_MOST_TEXT = 65_536
_DEEP = 3
"""Computations inside of others in which the collective of a fusion is looked for."""


@dataclass(frozen=True, slots=True)
class NamedOp:
    """An instruction. `kind` is that of a collective, `send_recv` for messages, empty for others;
    `bytes` is -1 where they are not known. `part` is `start` or `done` of what runs next to
    others."""

    opcode: str
    kind: str = ""
    part: str = ""
    bytes: int = -1
    groups: Groups = ()
    pairs: tuple[tuple[int, int], ...] = ()
    layer: str = ""
    kernel: str = ""
    started: str = ""
    """Name of the instruction that a `done` waits for."""


def split(name: str) -> tuple[str, str]:
    """Opcode of a collective and `start`, `done` or nothing, by the name that XLA gives; nothing
    for another name."""
    found = _NAME.fullmatch(name[:512])
    return (found[1], (found[2] or "").removeprefix("-")) if found else ("", "")


def kind_of(opcode: str) -> str:
    """The kind of a collective, empty for others."""
    if opcode == "all-reduce-scatter":
        return "reduce_scatter"
    if opcode in (steps.PERMUTE, "send", "recv"):
        return "send_recv"
    return steps.COLLECTIVES.get(opcode, "")


class NamedModule:
    """Instructions of a module by name. Raises `DamagedError` for a file that is none."""

    def __init__(self, data: bytes) -> None:
        self.module = importing.read_module(data)
        self.name = self.module.name
        self._places: dict[str, tuple[Computation, Instruction]] = {}
        for computation in self.module.computations:
            for each in computation.instructions:
                self._places.setdefault(each.name, (computation, each))
        self._known: dict[str, NamedOp] = {}

    def __len__(self) -> int:
        return len(self._places)

    def find(self, name: str) -> NamedOp | None:
        """The instruction of a name; none where the module does not have it."""
        name = name.removeprefix("%")
        if name not in self._places:
            return None
        if name not in self._known:
            self._known[name] = self._of(*self._places[name])
        return self._known[name]

    def _of(self, computation: Computation, each: Instruction) -> NamedOp:
        base, part = each.opcode, ""
        for end in ("-start", "-done", "-update"):
            if base.endswith(end):
                base, part = base.removesuffix(end), end.removeprefix("-")
        layer = steps.layer_of(each.op_name)
        if part in ("done", "update"):
            start = self._started(computation, each)
            known = self.find(start) if start else None
            base = known.opcode if known is not None else base
            return NamedOp(base, kind_of(base), part, layer=layer, started=start)
        found = self._collective(computation, each, 0)
        if found is None:
            return NamedOp(each.opcode, layer=layer, kernel=self._kernel(each))
        around, inner = found
        opcode = inner.opcode.removesuffix("-start")
        operands = around.operands(inner)
        if opcode == "ragged-all-to-all":
            operands = operands[:1]
        size = sum(one.shape.bytes for one in operands)
        groups, pairs = _members(self.module, inner, opcode)
        kind = kind_of(opcode)
        if "reduce-scatter" in each.name and kind == "all_reduce":
            kind = "reduce_scatter"
        return NamedOp(opcode, kind, part, size, groups, pairs, layer)

    def _collective(
        self, computation: Computation, each: Instruction, depth: int
    ) -> tuple[Computation, Instruction] | None:
        """The collective that an instruction is or runs."""
        if kind_of(each.opcode.removesuffix("-start")):
            return computation, each
        if depth >= _DEEP or each.opcode in ("while", "conditional", "call"):
            return None
        for place in each.calls:
            inner = self.module.computations[place]
            for one in inner.instructions:
                if found := self._collective(inner, one, depth + 1):
                    return found
        return None

    def _started(self, computation: Computation, each: Instruction) -> str:
        """The name of what an instruction waits for."""
        for _ in range(64):
            operands = computation.operands(each)
            if not operands:
                return ""
            each = operands[0]
            if each.opcode.endswith("-start") or each.opcode in ("send", "recv"):
                return each.name
        return ""

    def _kernel(self, each: Instruction) -> str:
        """The kind of a kernel, empty where only its name can say it."""
        inner = [each]
        if each.opcode == "fusion" and each.calls:
            inner = costs.has_product(self.module.computations[each.calls[0]])
        products = [one for one in inner if one.opcode in ("dot", "ragged-dot", "convolution")]
        if products:
            kinds = {steps.product_kernel(one) for one in products}
            return kinds.pop() if len(kinds) == 1 else "gemm"
        if each.opcode in ("gather", "scatter"):
            return "embedding"
        return "" if each.opcode == "custom-call" else "elementwise"


def _members(
    module: Module, each: Instruction, opcode: str
) -> tuple[Groups, tuple[tuple[int, int], ...]]:
    """Groups, or messages, of a collective in ranks; nothing where they do not fit together."""
    try:
        if opcode == steps.PERMUTE:
            return (), devices.pairs_of(module, each)
        if opcode in ("send", "recv"):
            return (), ()
        return devices.ranks_of(module, each, opcode), ()
    except DamagedError:
        return (), ()


def from_text(text: str, world: int) -> NamedOp | None:
    """The same from the text of an instruction in a module of `world` devices; none for another
    text."""
    found = _TEXT.match(text[:_MOST_TEXT])
    if found is None:
        return None
    name, shape, opcode, rest = found[1], found[2], found[3], found[4]
    base, part = opcode, ""
    for end in ("-start", "-done"):
        if base.endswith(end):
            base, part = base.removesuffix(end), end.removeprefix("-")
    said = _OP_NAME.search(rest)
    layer = steps.layer_of(said[1]) if said else ""
    kind = kind_of(base)
    if not kind and (base in ("async", "fusion")):
        base, named = split(name)
        part, kind = part or named, kind_of(base)
    if not kind:
        kernel = {"dot": "gemm", "convolution": "gemm", "gather": "embedding"}.get(opcode, "")
        return NamedOp(opcode, layer=layer, kernel=kernel)
    if part == "done":
        started = _STARTED.search(rest[: _closing(rest)])
        return NamedOp(base, kind, part, layer=layer, started=started[1] if started else "")
    size = _size(base, part, shape, rest)
    groups, pairs = _said(base, rest, world)
    return NamedOp(base, kind, part, size, groups, pairs, layer)


def _size(base: str, part: str, shape: str, rest: str) -> int:
    """Bytes of the operands, -1 where the text has no shapes of them."""
    operands = _arrays(rest[: _closing(rest)])
    if base == "ragged-all-to-all":
        operands = operands[:1]
    if operands:
        return sum(each.bytes for each in operands)
    results = _arrays(shape)
    same = base in ("all-reduce", steps.PERMUTE, "all-to-all") and not part
    return sum(each.bytes for each in results) if same and results else -1


def _closing(text: str) -> int:
    """Where the parenthesis that is open at the start of a text is closed."""
    depth = 1
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if not depth:
            return place
    return len(text)


def _arrays(text: str) -> list[Shape]:
    found = []
    for kind, dims in _ARRAY.findall(text):
        if kind in BITS:
            sizes = [int(each[:19]) for each in dims.split(",") if each]
            try:
                found.append(array(kind, sizes, 0, ""))
            except DamagedError:
                return []
    return found


def _said(base: str, rest: str, world: int) -> tuple[Groups, tuple[tuple[int, int], ...]]:
    if not 0 < world <= MOST_DEVICES:
        return (), ()
    channel = _CHANNEL.search(rest) is not None
    attributes: dict[str, Any] = {"channel": channel}
    attributes["global_ids"] = "use_global_device_ids=true" in rest
    try:
        if (match := _GROUPS.search(rest)) is not None:
            attributes["groups"] = devices.parse(match[1], base)
        if (match := _PAIRS.search(rest)) is not None:
            attributes["pairs"] = devices.parse_pairs(match[1], base)
    except DamagedError:
        return (), ()
    counts = (1, world) if channel else (world, 1)
    module = Module("", [], None, *counts)
    each = Instruction(base, base, Shape("token"), attributes=_frozen(attributes))
    return _members(module, each, base)


def _frozen(values: dict[str, Any]) -> Mapping[str, Any]:
    return {key: value for key, value in values.items() if value}
