"""nanotron's runs on several nodes: what its software and its cluster do there.

`frameworks/nanotron.yml` says what its code does.

Read off its runs, and explained by nothing we know of (lab/accuracy/steps.md):

- The host takes `MEMBER` for every member of a group in each collective, whatever its size, under
  which GPUs work on: as if all members compared notes first (PyTorch does with
  TORCH_DISTRIBUTED_DEBUG=DETAIL). So do all pipelines, and with more than 32 nodes all but those
  with tensor parallelism over more than two.
- Hosts are blocked for `MESSAGE` by every send and by every receive of a pipeline in some runs and
  not in others, with the same configuration too. `blocked` is what most runs of a kind do.
- Rings that leave a node take `STEP` for each step, those within the node included.
"""

from __future__ import annotations

from ..measured.training import Training

MEMBER = "270 us"
MESSAGE = "290 ms"
STEP = "45 us"


def settings(run: Training, room: bool, messages: bool = True) -> dict[str, object]:
    """Overrides of the platform; `room`: 10 % of every GPU's memory is free; `messages`: where we
    say so, they block hosts."""
    found: dict[str, object] = {}
    if run.tp > 8:
        found |= dict.fromkeys(
            ("library.node.step_latency", "library.network.step_latency"), [STEP] * 3
        )
    if checked(run):
        found["npu.launch.per_member"] = MEMBER
    if messages and blocked(run, room):
        found |= dict.fromkeys(("npu.launch.send", "npu.launch.receive"), MESSAGE)
    return found


def checked(run: Training) -> bool:
    """Whether hosts take time for every member of a collective."""
    return run.nodes > 1 and (run.pp > 1 or (run.nodes > 32 and run.tp <= 16))


def blocked(run: Training, room: bool) -> bool:
    """Whether sends and receives block their hosts.

    All do on more than 32 nodes, or with tensor parallelism over more than two; most with DDP on 4
    to 16 nodes that accumulate gradients of 16 micro-batches or more, and most whose memory is
    full."""
    if run.nodes == 1 or run.pp == 1:
        return False
    batches = run.global_batch // (run.dp * run.micro_batch)
    replicas = run.zero == 0 and run.dp > 1 and 2 < run.nodes <= 16 and batches >= 16
    return run.nodes > 32 or run.tp > 16 or replicas or not room
