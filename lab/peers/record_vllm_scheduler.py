"""Decisions of vLLM's scheduler, step by step, on drawn loads (`draw_serving_loads.py`).

Four answers are lists of loads; `prefixes` is the cache alone (`kept_prefixes.py`).

A load has `kind`, `settings`, `requests`, `counts`, `steps` and `left`. Settings have vLLM's names,
but `blocks` is its `num_gpu_blocks`: it counts the null block, so requests can have `blocks - 1`.

A request is `[arrival, priority, output, [[segment, length], ...]]`, and its number is its place.
It is handed over before the call of `schedule` with that number, in order of numbers. Token i of
segment s is the same everywhere and differs from all others. The output of request r is the
segment 1000000 + r. `output` is `max_tokens`: the longest length of the model can end it earlier.

A step is `[batch, preempted, finished, free, waiting, running]`. The batch is in vLLM's order:
`r` has one token, `[r, tokens]` more, and `[r, tokens, cached]` is admitted, for the first time or
again. Free blocks and lengths of queues are those after the call of `schedule`. Finished are the
requests that end in the update after it. A number in place of a step: the step before, that
number of times more. With speculation there is a seventh item, `[[r, drafts, accepted], ...]` of
this batch; with `ngram` an eighth, `[[r, drafts], ...]`: what is proposed after the update. `eagle`
and `draft_model` propose `speculative_tokens` always.

With `async_scheduling`, the update after a call is that of the batch before, as an engine does
whose queue has two batches. A batch that is not empty and alone in the queue is not awaited.

`counts` are steps, preemptions, requests with a chunk that does not end the prompt, cached tokens
of admissions, and evictions of cached blocks. `left` is the queue of free blocks at the end, from
the front: `[block, 1 if it is still cached]`. Blocks are numbered from 1.

The scheduler's rules in 0.19.0, for full attention. A request has N tokens that are known (prompt
and outputs so far), C that are computed, D drafts, and H outputs in flight (0 unless async). A
block has B tokens.

Running requests first, in order of admission, while the budget of tokens lasts:

- With H > 0 and C + 2 - H >= prompt + `max_tokens`, the request is passed over: it ends in flight.
- It wants N + D + H - C tokens, at most the threshold of long prompts (if not 0), the rest of the
  budget, and `max_model_len` - 1 - C. If that is 0, the next request is tried.
- If blocks are missing, a victim is preempted, as often as needed. With fcfs it is the last running
  request. With priority it is the one with the largest (priority, arrival time), the first of equal
  ones in the list. A victim that is in the batch already leaves it, and its tokens return to the
  budget. If a victim stands before the request but is not in the batch, the request after this one
  is passed over in this step.
- A request that is its own victim ends the loop. Those after it are not in the batch.
- A victim's blocks are freed; C = D = 0; its outputs stay. It goes to the front of the queue (fcfs)
  or to its place (priority). Its output in flight is still appended, and can end it in the queue.

Waiting requests next, unless one was preempted in this step:

- They end where the budget or `max_num_seqs` is used up. They end too where the first of the queue
  can't be admitted: others behind it are not tried, and nothing is preempted for it.
- The queue is in order of arrival, or a heap by (priority, arrival time, name as text).
- It wants N less the cached tokens, at most the threshold. Without chunked prefill it is left
  if that is more than the rest of the budget; with it, the rest is taken.
- With `scheduler_reserve_full_isl`, blocks for all N tokens must be free, not only for the chunk.
- There is no watermark, and the numbers of partial prefills are not used.

After that, C grows by the scheduled tokens. A request gives outputs if C reaches N + H. Async, it
then has H + 1 + drafts in flight, and D = `speculative_tokens` placeholders.

The update walks through the batch. Rejected drafts leave C (and H, if they are not 0). Outputs are
appended one by one until `max_tokens` or `max_model_len` is reached; the rest is dropped. Blocks of
a request that ends are freed at once. Not async, proposals become D, unless the request is still in
its prompt. A request that is not in the batch keeps its drafts.

Blocks:

- The queue of free blocks has 1, 2, 3, ... at first. Blocks are taken from its front; a cached one
  is forgotten then. A request frees its blocks from the last to the first, to the end of the queue,
  also those that are not cached. A block that others hold is not freed.
- Slots are needed for C + scheduled tokens + lookahead, at most `max_model_len`. The lookahead is
  `speculative_tokens` for running requests with `eagle` and `draft_model`, else 0. Blocks for
  rejected drafts stay with the request.
- Admission counts cached blocks that are free as taken. They leave the queue of free blocks before
  new ones are taken, from whatever place. Looking up changes nothing.
- A block is cached when it is scheduled, not when it is computed: all full blocks of min(C +
  scheduled, N) tokens. So requests later in the batch find it, and a victim of the same step leaves
  blocks in the cache that were not computed. Async, blocks of outputs are cached in the update:
  full blocks of C - H tokens, for requests that are still running, also if they end.
- The last output is never computed, so a block that it fills isn't cached.
- At most (N - 1) // B blocks are found, from the first to the first miss, so that one token is
  computed. The block that is computed again has a second copy. The copy that was cached first is
  found while it is there. `eagle` gives the last found block back.

`draft_model` has a smaller budget: `max_num_batched_tokens` - `max_num_seqs`."""

from __future__ import annotations

import json
import os
import random
import tempfile
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["VLLM_LOGGING_LEVEL"] = "CRITICAL"  # read when vLLM is imported

import vllm
import vllm.platforms
from answers import Answers, main
from draw_serving_loads import KINDS, OUTPUTS, SPECULATIONS, Load, load
from vllm.platforms.cpu import CpuPlatform

vllm.platforms._current_platform = CpuPlatform()

from kept_prefixes import config, left, sequences, token, tokens
from vllm.config import (
    CacheConfig,
    DeviceConfig,
    ModelConfig,
    ParallelConfig,
    SchedulerConfig,
    SpeculativeConfig,
    VllmConfig,
)
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.outputs import DraftTokenIds, ModelRunnerOutput
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": 1000,
    "max_position_embeddings": 65536,
    "dtype": "float32",
}
"""A configuration that vLLM asks for. The scheduler uses its longest length alone."""
DRAFTER = {**MODEL, "architectures": ["EagleLlamaForCausalLM"]}
LONGEST = 600
"""Steps of a load, so that a scheduler that stalls is noticed."""


class Run:
    """A load on vLLM's scheduler. The model is replaced by the outputs of the load."""

    def __init__(self, drawn: Load, folders: tuple[str, str], draw: random.Random) -> None:
        self.load, self.draw = drawn, draw
        self.settings = drawn.settings
        self.speculative: int = self.settings["speculative_tokens"]
        self.rate = draw.random()
        self.scheduler = self.scheduler_of(*folders)
        self.hasher = get_request_block_hasher(self.settings["block_size"], sha256)
        self.preempted: list[int] = []
        self.evictions = 0
        self.count_preemptions()
        self.count_evictions()
        self.arrivals: list[int | None] = [
            each.arrival if each.after is None else None for each in drawn.requests
        ]
        self.added: set[int] = set()
        self.steps: list[list[Any]] = []
        self.chunked: set[int] = set()
        self.hits = 0

    def scheduler_of(self, folder: str, drafter: str) -> Any:  # noqa: ANN401 - a class of vLLM
        """The scheduler with the settings of the load."""
        given = self.settings
        longest = given["max_model_len"]
        model = ModelConfig(
            model=folder,
            tokenizer=folder,
            skip_tokenizer_init=True,
            max_model_len=longest,
            dtype="float32",
        )
        scheduling = SchedulerConfig(
            max_num_seqs=given["max_num_seqs"],
            max_num_batched_tokens=given["max_num_batched_tokens"],
            max_model_len=longest,
            is_encoder_decoder=False,
            enable_chunked_prefill=given["chunked_prefill"],
            long_prefill_token_threshold=given["long_prefill_token_threshold"],
            scheduler_reserve_full_isl=given["scheduler_reserve_full_isl"],
            policy=given["policy"],
            async_scheduling=False,
        )
        cache = CacheConfig(
            block_size=given["block_size"], enable_prefix_caching=given["prefix_caching"]
        )
        speculation = None
        if how := given["speculation"]:
            ways: dict[str, dict[str, Any]] = {
                "ngram": {"prompt_lookup_max": 4},
                "eagle": {"model": drafter},
                "draft_model": {"model": folder},
            }
            speculation = SpeculativeConfig(
                method=how,
                num_speculative_tokens=self.speculative,
                target_model_config=model,
                target_parallel_config=ParallelConfig(),
                **ways[how],
            )
        whole = VllmConfig(
            model_config=model,
            scheduler_config=scheduling,
            cache_config=cache,
            device_config=DeviceConfig("cpu"),
            speculative_config=speculation,
        )
        # VllmConfig turns this off on processors, where no worker runs ahead.
        scheduling.async_scheduling = given["async_scheduling"]
        cache.num_gpu_blocks = given["blocks"]
        kept = (
            cache.block_size,
            cache.enable_prefix_caching,
            scheduling.enable_chunked_prefill,
            scheduling.max_num_batched_tokens,
            scheduling.max_num_scheduled_tokens or scheduling.max_num_batched_tokens,
        )
        names = ("block_size", "prefix_caching", "chunked_prefill", "max_num_batched_tokens")
        assert kept == tuple(given[name] for name in (*names, "max_num_scheduled_tokens")), kept
        kind = AsyncScheduler if given["async_scheduling"] else Scheduler
        return kind(
            vllm_config=whole,
            kv_cache_config=config(given["blocks"], cache.block_size),
            structured_output_manager=StructuredOutputManager(whole),
            block_size=cache.block_size,
        )

    def count_preemptions(self) -> None:
        """Notes preempted requests in their order, which the scheduler's answer does not have."""
        whole: Callable[..., None] = self.scheduler._preempt_request

        def noted(request: Request, *rest: Any) -> None:  # noqa: ANN401 - handed on
            self.preempted.append(int(request.request_id))
            whole(request, *rest)

        self.scheduler._preempt_request = noted

    def count_evictions(self) -> None:
        """Counts cached blocks that are taken for something else."""
        pool = self.scheduler.kv_cache_manager.block_pool
        whole: Callable[..., bool] = pool._maybe_evict_cached_block

        def counted(block: Any) -> bool:  # noqa: ANN401 - handed on
            gone = whole(block)
            self.evictions += gone
            return gone

        pool._maybe_evict_cached_block = counted

    def add(self, step: int) -> None:
        """Hands over the requests that have arrived."""
        for number, wanted in enumerate(self.load.requests):
            arrival = self.arrivals[number]
            if arrival is None or arrival > step or number in self.added:
                continue
            self.scheduler.add_request(
                Request(
                    request_id=f"{number:04d}",
                    prompt_token_ids=tokens(wanted.prompt),
                    sampling_params=SamplingParams(max_tokens=wanted.output, ignore_eos=True),
                    pooling_params=None,
                    arrival_time=float(len(self.added)),
                    priority=wanted.priority,
                    block_hasher=self.hasher,
                )
            )
            self.added.add(number)

    def scheduled(self) -> tuple[Any, list[Any], list[int], list[list[int]]]:
        """A call of the scheduler: its answer, its record, whose outputs the model gives, and
        drafts with how many of them are accepted."""
        self.preempted = []
        found = self.scheduler.schedule()
        requests = self.scheduler.requests
        first = {each.req_id: each.num_computed_tokens for each in found.scheduled_new_reqs}
        others = found.scheduled_cached_reqs
        first |= {
            name: computed
            for name, computed in zip(others.req_ids, others.num_computed_tokens, strict=True)
            if name in others.resumed_req_ids
        }
        items: list[Any] = []
        for name, count in found.num_scheduled_tokens.items():
            number = int(name)
            if name in first:
                items.append([number, count, first[name]])
                self.hits += first[name]
            else:
                items.append(number if count == 1 else [number, count])
            if requests[name].is_prefill_chunk:
                self.chunked.add(number)
        sampled = [
            int(name) for name in found.num_scheduled_tokens if not requests[name].is_prefill_chunk
        ]
        drafts = []
        for name, proposed in found.scheduled_spec_decode_tokens.items():
            taken = 0
            while taken < len(proposed) and self.draw.random() < self.rate:
                taken += 1
            drafts.append([int(name), len(proposed), taken])
        running, waiting = self.scheduler.get_request_counts()
        free = self.scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
        step = [items, self.preempted, [], free, waiting, running]
        if self.speculative:
            step.append(drafts)
        return found, step, sampled, drafts

    def updated(self, found: Any, sampled: list[int], drafts: list[list[int]]) -> list[int]:  # noqa: ANN401 - of vLLM
        """Hands the outputs of a batch to the scheduler. Returns the requests that end."""
        names = list(found.num_scheduled_tokens)
        taken = {number: count for number, _, count in drafts}
        outputs: list[list[int]] = []
        for name in names:
            number, request = int(name), self.scheduler.requests.get(name)
            if number not in sampled or request is None:
                outputs.append([])
                continue
            begin = request.num_output_tokens
            end = begin + 1 + taken.get(number, 0)
            outputs.append([token(OUTPUTS + number, place) for place in range(begin, end)])
        before = [name for name in names if name in self.scheduler.requests]
        self.scheduler.update_from_output(
            found,
            ModelRunnerOutput(
                req_ids=names,
                req_id_to_index={name: place for place, name in enumerate(names)},
                sampled_token_ids=outputs,
            ),
        )
        return [int(name) for name in before if name not in self.scheduler.requests]

    def propose(self, found: Any) -> list[list[int]]:  # noqa: ANN401 - of vLLM
        """Drafts for the next step of a batch's requests, where the scheduler waits for outputs."""
        drawn = self.settings["speculation"] == "ngram"
        proposed: dict[str, list[int]] = {}
        for name in found.num_scheduled_tokens:
            request = self.scheduler.requests.get(name)
            if request is not None and not request.is_prefill_chunk:
                count = self.draw.randint(0, self.speculative) if drawn else self.speculative
                proposed[name] = [-1] * count
        self.scheduler.update_draft_token_ids(
            DraftTokenIds(list(proposed), list(proposed.values()))
        )
        return [[int(name), len(drafts)] for name, drafts in proposed.items()]

    def ended(self, number: int, step: int) -> None:
        """Lets those arrive that wait for the request."""
        for other, wanted in enumerate(self.load.requests):
            if wanted.after == number:
                self.arrivals[other] = step + 1 + wanted.arrival

    def run(self) -> dict[str, Any]:
        """The record of the load."""
        ahead = self.settings["async_scheduling"]
        batches: deque[tuple[Any, list[int], list[list[int]]]] = deque()
        done, step = 0, 0
        while done < len(self.load.requests):
            assert step < LONGEST, (self.load.kind, self.settings)
            self.add(step)
            found, record, sampled, drafts = self.scheduled()
            batches.append((found, sampled, drafts))
            self.steps.append(record)
            if not (ahead and found.total_num_scheduled_tokens and len(batches) < 2):
                oldest = batches.popleft()
                record[2] = self.updated(*oldest)
                for number in record[2]:
                    self.ended(number, step)
                done += len(record[2])
                if self.speculative and not ahead:
                    proposed = self.propose(found)
                    if self.settings["speculation"] == "ngram":
                        record.append(proposed)
            step += 1
        requests = [
            [arrival, each.priority, each.output, each.prompt]
            for arrival, each in zip(self.arrivals, self.load.requests, strict=True)
        ]
        preemptions = sum(len(each[1]) for each in self.steps)
        counts = [step, preemptions, len(self.chunked), self.hits, self.evictions]
        return {
            "kind": self.load.kind,
            "settings": self.settings,
            "requests": requests,
            "counts": counts,
            "steps": shortened(self.steps),
            "left": left(self.scheduler.kv_cache_manager),
        }


def shortened(steps: list[list[Any]]) -> list[Any]:
    """Steps, with a number in place of equal ones that follow each other."""
    found: list[Any] = []
    last = None
    for step in steps:
        if step != last:
            found.append(step)
        elif isinstance(found[-1], int):
            found[-1] += 1
        else:
            found.append(1)
        last = step
    return found


def recorded(count: int, how: tuple[str, ...], pending: bool = False) -> list[dict[str, Any]]:
    """Records of so many drawn loads."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        folders = (f"{folder}/model", f"{folder}/drafter")
        for path, content in zip(folders, (MODEL, DRAFTER), strict=True):
            Path(path).mkdir()
            (Path(path) / "config.json").write_text(json.dumps(content), encoding="utf-8")
        for number in range(count):
            way = how[number % len(how)]
            kind = KINDS[number % len(KINDS)]
            seed = f"scheduler {way} {pending} {number}"
            drawn = load(seed, kind, way, pending)
            found.append(Run(drawn, folders, random.Random(f"{seed} outputs")).run())
    return found


def answers() -> Answers:
    """Loads by how the scheduler is used, and sequences of the cache alone."""
    init_none_hash(sha256)
    return {
        "plain": recorded(200, ("plain",)),
        "async": recorded(40, ("async",)),
        "speculative": recorded(30, SPECULATIONS),
        "async speculative": recorded(20, ("eagle", "draft_model"), pending=True),
        "prefixes": sequences(40),
    }


if __name__ == "__main__":
    main(vllm.__version__, answers)
