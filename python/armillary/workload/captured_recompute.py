"""Operations that a captured model computes again before a backward pass, and tensors that it then
does not keep.

Here: recomputation of whole layers, of modules by their names, and of all but chosen results. Not
here: the scripts of passes (`captured.py`), recomputation of decoders (`recompute.py`).

- A module that is recomputed keeps its inputs, not what autograd kept inside of it. A tensor that
  autograd keeps outside of it, too, stays.
- With `ops` a layer keeps its input, results of attention, and every other result of a matrix
  product, the first one included; with sequence parallelism also sums over its ranks. Products that
  route tokens to experts, grouped products and
  products with a bias are computed again.
- All operations of the module or layer run again; with `early_stop` those up to the last tensor
  that autograd keeps. Layers without a backward pass do not run again.

Sources: Chen et al. 2016 (arXiv:1604.06174); PyTorch (`torch.utils.checkpoint`); torchtitan
(`distributed/activation_checkpoint.py`)."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from ..capture.records import Block, Buffer, Operation
from ..capture.result import Capture
from ..errors import InputError, Problem
from .parallelism import Parallelism


@dataclass(frozen=True, slots=True)
class Again:
    """Recomputation of one block."""

    operations: tuple[Operation, ...]
    """Operations of the forward pass that run again."""
    kept: int
    """Bytes that a micro-batch keeps for the backward pass."""
    back: int
    """Bytes that exist again while the backward pass of the block runs."""


def recomputation(
    block: Block, par: Parallelism, repeats: bool = True, summed: Set[int] = frozenset()
) -> Again:
    """Recomputation of a block by the options `recompute`, `recompute_modules` and `early_stop`.
    Blocks that do not repeat (`repeats` is off) only have modules that are named. `summed` are
    identities of operations whose results are reduced to a rank's tokens."""
    whole = sum(each.bytes for each in block.saved)
    if not any(each.backward for each in block.operations):
        return Again((), whole, 0)
    if par.modules:
        return _modules(block, sorted(par.modules), par.early_stop)
    if par.recompute == "none" or not repeats:
        return Again((), whole, 0)
    forward = [each for each in block.operations if not each.backward]
    path = block.modules[0]
    if par.recompute == "full":
        return Again(_needed(forward, path, par.early_stop), block.entering, whole)
    sums = {at for at, each in enumerate(forward) if id(each) in summed}
    stays = set(_chosen(forward)) | sums
    again = [each for at, each in enumerate(forward) if at not in stays]
    results = {
        each.memory: each.bytes // (par.tp if at in sums else 1)
        for at in stays
        for each in forward[at].writes
    }
    back = sum(each.bytes for each in block.saved if each.memory not in results)
    kept = block.entering + sum(results.values())
    return Again(_needed(again, path, par.early_stop), kept, back)


def _chosen(forward: Sequence[Operation]) -> Iterator[int]:
    """Numbers of operations whose results `ops` keeps."""
    experts = {
        x.shape[0]
        for each in forward
        if each.kind == "grouped_matmul"
        for x in each.reads
        if len(x.shape) == 3
    }
    products = 0
    for at, each in enumerate(forward):
        if each.kind == "attention":
            yield at
        elif each.name == "mm" and each.product and each.product.n not in experts:
            products += 1
            if products % 2:
                yield at


def _modules(block: Block, patterns: Sequence[str], early_stop: bool) -> Again:
    """Recomputation of the outermost modules with a name that fits."""
    names = [path for path in paths_of(block) if fits(path, patterns)]
    outermost = [path for path in names if not any(path.startswith(f"{each}.") for each in names)]
    forward = [each for each in block.operations if not each.backward]
    saved = {each.memory: each for each in block.saved}
    again: list[Operation] = []
    dropped: set[int] = set()
    enters: dict[int, int] = {}
    for path in outermost:
        inside = [each for each in forward if _within(each.module, path)]
        made = {each.memory for operation in inside for each in operation.writes}
        used = {
            each.memory
            for operation in block.operations
            if operation.backward and not _within(operation.module, path)
            for each in operation.reads
        }
        dropped |= {memory for memory in saved if memory in made and memory not in used}
        for each in _inputs(inside, made):
            enters[each.memory] = max(enters.get(each.memory, 0), each.bytes)
        again += _needed(inside, path, early_stop)
    dropped -= enters.keys()
    elsewhere = {each.memory for operation in forward for each in operation.writes}
    elsewhere.add(block.enters)
    more = sum(
        size for memory, size in enters.items() if memory in elsewhere and memory not in saved
    )
    back = sum(saved[memory].bytes for memory in dropped)
    return Again(tuple(again), sum(each.bytes for each in block.saved) - back + more, back)


def _inputs(inside: Sequence[Operation], made: set[int]) -> Iterator[Buffer]:
    """Tensors that a module reads and does not make."""
    for operation in inside:
        for each in operation.reads:
            if each.memory not in made and not each.parameter:
                yield each


def _needed(operations: Sequence[Operation], path: str, early_stop: bool) -> tuple[Operation, ...]:
    """The operations of the module at `path` up to the last tensor that autograd keeps inside of
    it; all of them without `early_stop`."""
    ends = [
        at + 1
        for at, each in enumerate(operations)
        if any(_within(name, path) for name in each.saved_in)
    ]
    return tuple(operations[: max(ends, default=0)] if early_stop else operations)


def fits(path: str, patterns: Sequence[str]) -> bool:
    """Whether a path, or its end, fits a pattern: `layers.*.mlp`, `mlp`. A star stands for a
    name."""
    names = path.split(".")
    for pattern in patterns:
        asked = pattern.split(".")
        ends = names[-len(asked) :]
        if len(ends) == len(asked) and all(map(fnmatchcase, ends, asked)):
            return True
    return False


def paths_of(block: Block) -> list[str]:
    """Paths of the modules in a block, in the order of their operations."""
    found: dict[str, None] = {}
    for each in block.operations:
        names = each.module.split(".")
        found.update(dict.fromkeys(".".join(names[: at + 1]) for at in range(len(names))))
    return [path for path in found if path]


def by_names(found: Capture, patterns: Sequence[str]) -> Capture:
    """The capture, with modules that are alike in blocks of their own where a pattern fits only
    some of them. Raises `InputError` for a pattern that fits none."""
    if not patterns:
        return found
    _check(found, patterns)
    blocks: list[Block] = []
    numbers: dict[tuple[int, int], int] = {}
    for at, block in enumerate(found.blocks):
        groups: dict[tuple[bool, ...], list[int]] = {}
        inner = paths_of(block)
        for each, path in enumerate(block.modules):
            key = tuple(fits(_moved(name, block.modules[0], path), patterns) for name in inner)
            groups.setdefault(key, []).append(each)
        for members in groups.values():
            numbers |= {(at, each): len(blocks) for each in members}
            blocks.append(_of(block, [block.modules[each] for each in members]))
    calls = [0] * len(found.blocks)
    order = []
    for at in found.order:
        order.append(numbers[at, calls[at]])
        calls[at] += 1
    return replace(found, blocks=tuple(blocks), order=tuple(order))


def _check(found: Capture, patterns: Sequence[str]) -> None:
    every = [path for block in (found.before, found.after) for path in paths_of(block)]
    for block in found.blocks:
        every += [
            _moved(name, block.modules[0], path)
            for path in block.modules
            for name in paths_of(block)
        ]
    problems = []
    for pattern in patterns:
        if not any(fits(path, [pattern]) for path in every):
            ends = sorted({path.rpartition(".")[2] for path in every} - set(map(str, range(4096))))
            near = difflib.get_close_matches(pattern, ends, n=8, cutoff=0.4) or ends[:8]
            said = f"no module is called {pattern!r}"
            problems.append(Problem(found.name, "recompute_modules", said, ", ".join(near)))
    if problems:
        raise InputError(problems)


def _of(block: Block, modules: Sequence[str]) -> Block:
    """The block of some of its modules, in the names of the first of them."""
    first, path = block.modules[0], modules[0]
    if path == first:
        return replace(block, modules=tuple(modules))

    def named(buffers: Sequence[Buffer]) -> tuple[Buffer, ...]:
        return tuple(
            replace(each, parameter=_moved(each.parameter, first, path)) for each in buffers
        )

    operations = tuple(
        replace(
            each,
            module=_moved(each.module, first, path),
            reads=named(each.reads),
            writes=named(each.writes),
            saved_in=tuple(_moved(name, first, path) for name in each.saved_in),
        )
        for each in block.operations
    )
    saved = tuple(replace(each, module=_moved(each.module, first, path)) for each in block.saved)
    return replace(block, modules=tuple(modules), operations=operations, saved=saved)


def _moved(name: str, first: str, path: str) -> str:
    """A name inside of the module at `first`, as it is inside of the one at `path`."""
    return path + name[len(first) :] if _within(name, first) else name


def _within(name: str, path: str) -> bool:
    return name == path or name.startswith(f"{path}.")
