"""The text of a module of XLA (HLO), read with bounds.

    HloModule jit_step, is_scheduled=true, num_partitions=8

    %add (x: f32[], y: f32[]) -> f32[] {
      %x = f32[] parameter(0)
      ROOT %sum = f32[] add(%x, %y)
    }
    ENTRY %main ... {

Here: lines to instructions. No function calls itself, and no character is looked at more than a
few times. Not here: the same module as protobuf (`proto.py`), what an attribute means
(`attributes.py`).

Format: https://openxla.org/xla/hlo_to_thunks, and the printer in xla/hlo/ir of openxla/xla."""

from __future__ import annotations

import re
from collections.abc import Iterator

from . import attributes
from .module import (
    MOST_DEVICES,
    TUPLE,
    Computation,
    DamagedError,
    Instruction,
    Module,
    Shape,
    array,
    whole,
)

BEGIN = b"HloModule "
_MOST = 20_000_000
"""Instructions of a module."""
_DEEPEST = 64
_MARK = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\Z)|[(){}\[\],\n]', re.DOTALL)
_NAME = r"%?([\w.\-$]+)"
_HEAD = re.compile(rf"^(ENTRY[ \t]+)?{_NAME}[ \t]*(?:\([^\n]*)?\{{[ \t\r]*$", re.MULTILINE)
_BEGIN = re.compile(rf"\s*(ROOT\s+)?{_NAME}\s*=\s*")
_END = re.compile(r"\s*\}[^\n]*")
_OPCODE = re.compile(r"\s*([a-z][a-z0-9\-]*)\(")
_KEY = re.compile(r",\s*([\w.\-]+)=")
_COMMENT = re.compile(r"/\*[^*\n]*\*/")
_ARRAY = re.compile(
    r"\s*([a-z]\w*)\[([^\]\n]*)\](?:\{([\d,]*)(?::((?:[^{}()]|\((?:[^()]|\([^()]*\))*\))*))?\})?"
)
_SPACE = re.compile(r"S\((\d+)\)")
_OPERAND = re.compile(r"%([\w.\-$]+)")
_LAST = re.compile(r"([\w.\-$]+)\s*$")
_DIMENSION = re.compile(r"(?:<=)?\s*(\d+)")


def is_module(data: bytes) -> bool:
    """Whether a file looks like such a text."""
    return data[:4096].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(BEGIN)


def read(text: str) -> Module:
    """The module in a text. Raises `DamagedError`."""
    return _Reader(text).module()


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.shapes: dict[str, Shape] = {}
        self.left = _MOST
        self.values = attributes.Reader()

    def module(self) -> Module:
        start = self.text.index("HloModule ") + len("HloModule ")
        name = re.compile(r"[^\s,]*").match(self.text, start)
        assert name is not None
        head, at = self._attributes(name.end(), "HloModule")
        module = Module(
            name[0],
            [],
            None,
            self._count(head, "replica_count"),
            self._count(head, "num_partitions"),
            head.get("is_scheduled") == "true",
        )
        if module.devices > MOST_DEVICES:
            said = f"{module.replicas:,} replicas of {module.partitions:,} partitions"
            raise DamagedError("HloModule", said, f"at most {MOST_DEVICES:,} devices")
        called: list[list[tuple[str, ...]]] = []
        known: dict[str, int] = {}
        while (match := _HEAD.search(self.text, at)) is not None:
            computation, names, at, ended = self._computation(match)
            if not ended:
                module.cut = computation.name
            if computation.name in known:
                raise DamagedError(computation.name, "is there twice")
            if match[1]:
                module.entry = len(module.computations)
            known[computation.name] = len(module.computations)
            module.computations.append(computation)
            called.append(names)
        for computation, names in zip(module.computations, called, strict=True):
            for instruction, callees in zip(computation.instructions, names, strict=True):
                instruction.calls = tuple(self._place(known, module, each) for each in callees)
        return module

    def _count(self, head: dict[str, str], key: str) -> int:
        return max(1, whole(head.get(key, "1"), f"HloModule {key}", MOST_DEVICES))

    def _place(self, known: dict[str, int], module: Module, name: str) -> int:
        """Place of a computation; -1 for one that is behind the end of a file that is cut off."""
        if name in known:
            return known[name]
        if module.cut or module.entry is None:
            return -1
        raise DamagedError(name, "is called, but is not there", "a whole module")

    def _computation(
        self, head: re.Match[str]
    ) -> tuple[Computation, list[tuple[str, ...]], int, bool]:
        """A computation, the names of those that each instruction calls, the place behind it, and
        whether it ends before the file does."""
        found: list[Instruction] = []
        called: list[tuple[str, ...]] = []
        places: dict[str, int] = {}
        controls: list[tuple[int, list[str]]] = []
        root, at = -1, head.end()
        while (end := _END.match(self.text, at)) is None:
            match = _BEGIN.match(self.text, at)
            if match is None:
                if not self.text[at:].strip():
                    break
                line = self.text[at:].lstrip().split("\n", 1)[0]
                said = f"is not an instruction: {line[:60]!r}"
                raise DamagedError(head[2], said, "%name = shape opcode(operands)")
            instruction, after, callees, at = self._instruction(match, places)
            if instruction is None:
                return Computation(head[2], found, root), called, len(self.text), False
            if match[1]:
                root = len(found)
            if instruction.name in places:
                raise DamagedError(instruction.name, "is there twice")
            places[instruction.name] = len(found)
            if after:
                controls.append((len(found), after))
            found.append(instruction)
            called.append(callees)
        for place, names in controls:
            found[place].controls = tuple(places[name] for name in names if name in places)
        if end is not None and root < 0:
            root = len(found) - 1
        if end is not None and not found:
            raise DamagedError(head[2], "has no instruction")
        stop = end.end() if end is not None else len(self.text)
        return Computation(head[2], found, root), called, stop, end is not None

    def _instruction(
        self, match: re.Match[str], places: dict[str, int]
    ) -> tuple[Instruction | None, list[str], tuple[str, ...], int]:
        """One instruction, names of its control predecessors and of what it calls; none where the
        file ends in it."""
        name = match[2]
        self.left -= 1
        if self.left < 0:
            raise DamagedError(name, f"more than {_MOST:,} instructions")
        shape, at = self._shape(match.end(), name)
        opcode = _OPCODE.match(self.text, at)
        if shape is None or opcode is None:
            if "\n" not in self.text[at:]:
                return None, [], (), len(self.text)
            raise DamagedError(name, "has no opcode behind its shape", "shape opcode(operands)")
        stop = self._closing(opcode.end())
        if stop < 0:
            return None, [], (), len(self.text)
        inside = self.text[opcode.end() : stop]
        said, at = self._attributes(stop + 1, name)
        if at < 0:
            return None, [], (), len(self.text)
        values, calls, after = self.values.of_text(name, opcode[1], inside, said)
        operands: tuple[int, ...] = ()
        if opcode[1] not in ("constant", "parameter", "iota"):
            operands = tuple(self._operands(name, inside, places))
        found = Instruction(name, opcode[1], shape, operands, (), (), values)
        found.op_name = attributes.op_name(said.get("metadata", ""))
        if "value" in values and shape.kind[0] not in "spu":
            del values["value"]
        return found, after, calls, at

    def _operands(self, name: str, inside: str, places: dict[str, int]) -> Iterator[int]:
        names = _OPERAND.findall(inside) if "%" in inside else _bare(inside)
        for each in names:
            place = places.get(each)
            if place is None:
                raise DamagedError(name, f"takes {each[:60]!r}, which is not before it")
            yield place

    def _closing(self, at: int) -> int:
        """Place of the bracket that closes the one before `at`; -1 where the file ends first."""
        depth = 1
        for mark in _MARK.finditer(self.text, at):
            sign = mark[0]
            if sign in "([{":
                depth += 1
            elif sign in ")]}":
                depth -= 1
                if not depth:
                    return mark.start()
        return -1

    def _attributes(self, at: int, where: str) -> tuple[dict[str, str], int]:
        """Attributes up to the end of the line, as text; the place behind them, -1 where the file
        ends inside one."""
        found: dict[str, str] = {}
        while (key := _KEY.match(self.text, at)) is not None:
            start, depth = key.end(), 0
            at = len(self.text)
            for mark in _MARK.finditer(self.text, start):
                sign = mark[0]
                if sign in "([{":
                    depth += 1
                elif sign in ")]}":
                    depth -= 1
                elif depth == 0 and sign in ",\n":
                    at = mark.start()
                    break
                if depth < 0:
                    raise DamagedError(where, f"an attribute with a bracket too many: {key[1]!r}")
            else:
                if depth:
                    return found, -1
            if key[1] in attributes.READ:
                found[key[1]] = self.text[start:at]
        return found, at

    def _shape(self, at: int, where: str) -> tuple[Shape | None, int]:
        """A shape, and the place behind it; none where the file ends in it."""
        match = _ARRAY.match(self.text, at)
        if match is not None:
            return self._array(match, where), match.end()
        stack: list[list[Shape]] = []
        while True:
            at = self._blank(at)
            sign = self.text[at : at + 1]
            if sign == "(" or self.text.startswith("b(", at):
                stack.append([])
                at += 1 if sign == "(" else 2
                if len(stack) > _DEEPEST:
                    raise DamagedError(where, f"tuples more than {_DEEPEST} deep")
            elif sign == ")" and stack:
                parts = stack.pop()
                at += 1
                made = Shape(TUPLE, (), tuple(parts))
                if not stack:
                    return made, at
                stack[-1].append(made)
            elif sign == "," and stack:
                at += 1
            elif stack and (match := _ARRAY.match(self.text, at)) is not None:
                stack[-1].append(self._array(match, where))
                at = match.end()
            elif not sign:
                return None, at
            else:
                said = f"has an unknown shape: {self.text[at : at + 40]!r}"
                raise DamagedError(where, said, "such as f32[2,3]{1,0}")

    def _blank(self, at: int) -> int:
        """The next place that is neither a space nor in a comment."""
        while at < len(self.text):
            if self.text[at] in " \t\r\n":
                at += 1
            elif (match := _COMMENT.match(self.text, at)) is not None:
                at = match.end()
            else:
                break
        return at

    def _array(self, match: re.Match[str], where: str) -> Shape:
        known = self.shapes.get(match[0])
        if known is None:
            space = _SPACE.search(match[4]) if match[4] else None
            dims = []
            for text in match[2].split(","):
                if not text.strip():
                    continue
                size = _DIMENSION.fullmatch(text.strip())
                if size is None:
                    said = f"has a dimension that is not bounded: {match[0].strip()[:60]!r}"
                    raise DamagedError(where, said, "a number, or <= a number")
                dims.append(whole(size[1], where))
            number = whole(space[1], where) if space else 0
            known = self.shapes[match[0]] = array(match[1], dims, number, where)
        return known


def _bare(inside: str) -> Iterator[str]:
    """Names of operands without the sign %: the last word of each part."""
    depth, start = 0, 0
    inside = _COMMENT.sub("", inside)
    for mark in [*_MARK.finditer(inside), None]:
        sign = mark[0] if mark is not None else ","
        if sign in "([{":
            depth += 1
        elif sign in ")]}":
            depth -= 1
        elif sign == "," and depth == 0:
            stop = mark.start() if mark is not None else len(inside)
            word = _LAST.search(inside, start, stop)
            if word is not None:
                yield word[1]
            start = stop + 1
