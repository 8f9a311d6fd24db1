"""The networks and workloads of the multi-dimensional topologies paper: what its studies share.

Here: Tables III and IV as data, step models, what the three schemes make of a bandwidth. Not here:
the paper's numbers, which stand in the studies."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from armillary.units import GB
from armillary.workload import Workload, build

if TYPE_CHECKING:
    from armillary.estimate.step_model import StepModel, Vector
    from armillary.estimate.topology import Topology


SHAPES = {"2D": "R(8)_SW(128)", "3D": "R(8)_FC(8)_SW(16)", "4D": "R(2)_FC(8)_R(8)_SW(8)"}
"""Table III, 1,024 NPUs each."""

MODELS = {
    "Transformer-17B": ("transformer-17b", {"dp": 1024}),
    "GPT-3": ("gpt3-175b", {"tp": 16, "dp": 64}),
    "Transformer-1T": ("transformer-1t", {"tp": 128, "dp": 8}),
}
"""Table IV: model and parallelism; MP is tensor parallelism."""

TOTALS = tuple(range(100, 1001, 100))
"""GB/s of an NPU."""

NPU: dict[str, object] = {"npu": {"peak": "234 TFLOPS"}}

SETUP = (
    "Tables III and IV: 1,024 NPUs, ZeRO-2, 234 TFLOPS, 100 to 1,000 GB/s an NPU. The time model "
    "is the paper's: compute, then MP, then DP, each as long as its slowest dimension. The paper "
    "gives no batch: 16 samples a replica, for then DP is 2 % of Transformer-1T's communication, "
    "as the utilisations of Fig. 10 imply."
)


@dataclass(frozen=True, eq=False)
class PaperCase:
    """One workload on one network at one bandwidth."""

    workload: str
    shape: str
    gigabytes: int
    """GB/s of an NPU."""
    model: StepModel
    price: list[float]
    """Dollars for a byte a second, by dimension."""
    shares: dict[str, Vector]
    """[D] bytes a second, by scheme."""

    def time(self, scheme: str) -> float:
        """Step time, s."""
        return self.model.time(self.shares[scheme])

    def cost(self, scheme: str) -> float:
        """Dollars."""
        return sum(
            price * float(given)
            for price, given in zip(self.price, self.shares[scheme], strict=True)
        )

    def utilisation(self, scheme: str) -> float:
        """Share of the bandwidth of the dimensions in use, 0..1."""
        return self.model.utilisation(self.shares[scheme])


@cache
def workload(name: str) -> Workload:
    """The workload of that name in Table IV, with nothing overlapping by order."""
    model, parallelism = MODELS[name]
    serial = {"overlap_grad_reduce": False, "overlap_param_gather": False}
    return build(model, zero=2, micro_batch=16, **parallelism, framework_set=serial)


@cache
def step(name: str, shape: str) -> StepModel:
    """The paper's model of a step."""
    from armillary.design import overlap
    from armillary.estimate import terms as steps

    found = steps.step_model(
        overlap.job(name, workload(name), NPU, measured=False), topology(shape)
    )
    assert found is not None, f"{name} has a place on {shape}"
    return found


def topology(shape: str) -> Topology:
    """The network of that name in Table III."""
    from armillary.estimate.topology import parse

    found = parse(SHAPES[shape])
    assert found is not None, f"{SHAPES[shape]} is a topology"
    return found


def case(name: str, shape: str, gigabytes: int) -> PaperCase:
    """Distributions of a bandwidth by the schemes."""
    from armillary.design import cost_file, schemes

    model, net = step(name, shape), topology(shape)
    budget = gigabytes * GB
    smart = schemes.smart(budget, model)
    assert smart is not None, "MP and DP share one dimension at most"
    table = cost_file.load("multidim")
    shares = {
        "EqualBW": schemes.equal(budget, len(net)),
        "MessageBW": schemes.message(budget, model.volume),
    }
    price = table.price(net, table.stack(len(net)))
    return PaperCase(name, shape, gigabytes, model, price, {**shares, "SmartBW": smart})


def cases() -> Iterator[PaperCase]:
    """Every workload on every network at every bandwidth, 90 in all."""
    return (case(*each) for each in itertools.product(MODELS, SHAPES, TOTALS))
