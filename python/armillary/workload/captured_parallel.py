"""The work of one rank in a captured step under tensor, sequence, context and expert parallelism.

Here: a division that flows from parameters with a rule through the operations, with the collectives
where it begins and ends, as sharding propagates in DTensor. Not here: rules (`capture/plans.py`),
marks and sizes (`captured_marks.py`), operations (`captured_flow.py`), units and stages
(`captured.py`), keys and values between context-parallel ranks
(`captured_attention.py`).

A tensor on a rank is

- divided: along one dimension, by tensor parallelism. The dimension is known by the strides of its
  memory, so that views keep it.
- a partial sum, which is reduced before the first operation that is not a sum of partial sums: over
  all tokens, or with sequence parallelism to the rank's tokens.
- of tokens: what depends on the inputs. Sequence parallelism divides it by tokens, and where an
  operation with a divided tensor reads it, all tokens are gathered. Context parallelism divides all
  but parameters and their gradients.
- sent: rows of tokens at their experts. Expert parallelism sends them before grouped products with
  experts, and back before an operation with tensors that were not sent.
- whole: all else, such as parameters without a rule.

Gradients of inputs are reduced, and inputs gathered again, while gradients of matrices that are
divided by columns are computed. A loss over a divided vocabulary reduces the largest logit, the sum
and the target's logit of each token, 4 bytes each.

Sources: Shoeybi et al. 2019 (arXiv:1909.08053); Korthikanti et al. 2022 (arXiv:2205.05198); Xu et
al. 2021, GSPMD (arXiv:2105.04663, section 3); PyTorch's `torch.distributed.tensor`; Lepikhin et al.
2020 (arXiv:2006.16668)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..capture.parameter_counts import Parameter
from ..capture.records import Block, Operation
from ..capture.result import Capture
from .captured_flow import REDUCES, Flow
from .captured_marks import Fit, Span
from .parallelism import Parallelism
from .script import CollectiveStep, Step

Around = tuple[tuple[Step, ...], tuple[Step, ...]]
"""Messages and copies before and after an operation."""


@dataclass(frozen=True)
class LocalBlock:
    """A block on one rank."""

    block: Block
    """Operations and tensors with the sizes that they have on the rank."""
    _around: Mapping[int, Around]

    @property
    def summed(self) -> frozenset[int]:
        """Identities of operations whose results are partial sums that are reduced to the tokens of
        a rank."""
        return frozenset(
            number
            for number, (_, after) in self._around.items()
            if any(isinstance(x, CollectiveStep) and x.kind == "reduce_scatter" for x in after)
        )

    def around(self, each: Operation) -> Around:
        """Messages and copies before and after one of the operations."""
        return self._around.get(id(each), ((), ()))


@dataclass(frozen=True)
class Division:
    """A captured step on one rank."""

    before: LocalBlock
    blocks: tuple[LocalBlock, ...]
    after: LocalBlock
    fits: tuple[Fit, ...]
    replicated: tuple[str, ...]
    """Parameters of matrix products that tensor parallelism has no rule for."""
    heads: frozenset[int]
    """Heads of queries, keys and values on a rank."""
    mixed: Mapping[str, str]
    """Operations other than attention between tokens of a sequence, and their modules."""
    _spans: Mapping[str, Span]
    _experts: frozenset[str]
    _ep: int

    def held(self, parameter: Parameter) -> int:
        """Elements of a parameter that a rank holds."""
        count = parameter.count
        if parameter.name in self._experts:
            count = count // parameter.shape[0] * -(-parameter.shape[0] // self._ep)
        span = self._spans.get(parameter.name)
        if span is None or not span.extent:
            return count
        return count // span.extent * -(-span.extent // span.degree)


def divide(found: Capture, par: Parallelism) -> Division:
    """The step of one rank."""
    parts = (found.before, *found.blocks, found.after)
    flow, passes = _flow(found, par, {})
    fits = tuple(flow.fits())
    degrees = {fit.root: fit.parts for fit in fits if fit.shared and par.tp > fit.parts}
    if degrees:
        flow, passes = _flow(found, par, degrees)
    before, *blocks, after = (
        _local(flow, block, passes[at, False], passes[at, True]) for at, block in enumerate(parts)
    )
    replicated = tuple(sorted(flow.replicated))
    return Division(
        before,
        tuple(blocks),
        after,
        fits,
        replicated,
        frozenset(flow.heads),
        flow.mixed,
        flow.parameters,
        flow.experts,
        par.ep,
    )


Passes = dict[tuple[int, bool], Sequence[Operation | Step]]
"""Steps of the forward and the backward pass of each block."""


def _flow(found: Capture, par: Parallelism, degrees: Mapping[str, int]) -> tuple[Flow, Passes]:
    """Both passes in their order: forward from the first block, backward from the last."""
    flow, made = Flow(found.rules, par, degrees), Passes()
    parts = (found.before, *found.blocks, found.after)
    order = [(number, False) for number in range(len(parts))]
    order += [(number, True) for number in reversed(range(len(parts)))]
    passes = [
        [each for each in parts[number].operations if each.backward is backward]
        for number, backward in order
    ]
    later: list[set[int]] = [set()]
    for ours in reversed(passes[1:]):
        later.append(later[-1] | {x.memory for each in ours for x in each.reads})
    for (number, backward), ours, needed in zip(order, passes, reversed(later), strict=True):
        modules = parts[number].modules
        results = {x.memory for each in ours for x in each.writes if not backward}
        path = modules[0] if modules else ""
        made[number, backward] = flow.run(ours, path, needed | results)
    return flow, made


def _local(flow: Flow, block: Block, *passes: Sequence[Operation | Step]) -> LocalBlock:
    """A block on the rank."""
    operations: list[Operation] = []
    around: dict[int, Around] = {}
    for steps in passes:
        before: list[Step] = []
        for each in steps:
            if not isinstance(each, Operation):
                before.append(each)
                continue
            if operations and before and before[0].name.endswith(REDUCES):
                # With the operation that gives the partial sum, if it is computed again.
                last = id(operations[-1])
                around[last] = around.get(last, ((), ()))[0], (before.pop(0),)
            operations.append(each)
            if before:
                around[id(each)] = tuple(before), ()
                before = []
        if before:
            last = id(operations[-1])
            around[last] = around.get(last, ((), ()))[0], tuple(before)
    local = replace(
        block,
        operations=tuple(operations),
        saved=tuple(map(flow.kept, block.saved)),
        entering=flow.entering(block.entering),
    )
    return LocalBlock(local, around)
