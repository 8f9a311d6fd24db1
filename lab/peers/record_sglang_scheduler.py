"""Decisions of SGLang's scheduler, step by step, on drawn loads (`draw_sglang_loads.py`).

Its own loop runs (`event_loop_normal` and `event_loop_overlap`), with its own scheduler, batches,
allocators, queues and radix cache, on a processor. Kernels (`sgl_kernel`, Triton) can't run there:
the first is an empty module, and slots are written by SGLang's own code for `torch_native`. The
model, the server and the statistics are left out.

An answer is a list of loads. A load has `kind`, `settings`, `requests`, `counts`, `steps` and
`left`. Settings have SGLang's names; `pages` are the pages of the cache, and `radix_cache` says
whether prefixes are kept. Urgent requests preempt none (`disable_priority_preemption`):
SGLang 0.5.10 loses a preempted request if the urgent one then finds no room.

A request is `[arrival, priority, output, [[segment, length], ...]]`, as in
`record_vllm_scheduler.py`. It is in the queue before the call of `get_next_batch_to_run` with that
number. Small priorities are urgent.

A step is `[batch, lost, finished, free, kept, waiting]`. The batch is in SGLang's order: `r` has
one token and generates another, `[r, tokens, cached]` is in the batch with a prompt. `cached` are
the tokens that it has already, also those of its own chunks. Lost are the requests that are
retracted. Finished are those that end before the next call. Free and kept are pages: those that
nothing is in, and those that the radix cache could give back. A number in place of a step: the step
before, that number of times more.

`counts` are steps, lost requests, chunks that do not end a prompt, tokens found in the cache, and
steps with prompts and outputs. `left` is the part of outputs for which room is kept, at the end."""

from __future__ import annotations

import dataclasses
import itertools
import os
import sys
import types
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any

os.environ["SGLANG_LOG_LEVEL"] = "critical"


class Nothing:
    """Any attribute of a kernel's module. None of them runs."""

    def __init__(self, *given: object, **named: object) -> None:
        """Takes anything."""

    def __call__(self, *given: object, **named: object) -> Nothing:
        """Anything again."""
        return Nothing()

    def __getattr__(self, name: str) -> Nothing:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing()


class Kernels(MetaPathFinder, Loader):
    """Finds modules of kernels, which are empty."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """An empty module, if its package has kernels."""
        found = name.partition(".")[0] == "sgl_kernel"
        return ModuleSpec(name, self, is_package=True) if found else None

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        """An empty module."""
        found = types.ModuleType(spec.name)
        found.__dict__["__getattr__"] = Nothing().__getattr__
        return found

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing is in it."""


sys.meta_path.insert(0, Kernels())

import sglang
import torch
from answers import Answers, main
from draw_serving_loads import OUTPUTS
from draw_sglang_loads import HOW, KINDS, Load, load
from sglang.srt.disaggregation.utils import DisaggregationMode
from sglang.srt.managers import schedule_batch, scheduler_output_processor_mixin
from sglang.srt.managers.schedule_batch import Req
from sglang.srt.managers.scheduler import Scheduler
from sglang.srt.mem_cache import allocator, radix_cache
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.chunk_cache import ChunkCache
from sglang.srt.mem_cache.memory_pool import ReqToTokenPool
from sglang.srt.mem_cache.radix_cache import RadixCache
from sglang.srt.sampling.sampling_params import SamplingParams
from sglang.srt.server_args import ServerArgs, set_global_server_args_for_scheduler
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

LONGEST = 1500
"""Steps of a load, so that a scheduler that stalls is noticed."""


class Done(Exception):
    """All requests have ended."""


class Clock:
    """Time that differs each time that it is read."""

    def __init__(self) -> None:
        self.count = itertools.count()

    def monotonic(self) -> int:
        """The next number."""
        return next(self.count)

    perf_counter = monotonic


class Times:
    """Times of a request: when it came into the queue. The rest is taken and forgotten."""

    clock = itertools.count(1)

    def __init__(self) -> None:
        self.wait_queue_entry_time = 0

    def set_wait_queue_entry_time(self) -> None:
        """Now."""
        self.wait_queue_entry_time = next(self.clock)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - methods of SGLang's class
        if not name.startswith("set_"):
            raise AttributeError(name)
        return lambda *given, **named: None


class Grid:
    """A kernel of Triton in Python: `kernel[grid](arguments)`."""

    def __init__(self, kernel: Any) -> None:  # noqa: ANN401 - a function with a kernel's arguments
        self.kernel = kernel

    def __getitem__(self, grid: object) -> Any:  # noqa: ANN401 - likewise
        return self.kernel


def extend(before: Any, after: Any, last: Any, free: Any, out: Any, _: int, page: int) -> None:  # noqa: ANN401 - tensors
    """Slots of prompts, by SGLang's own code without kernels."""
    pages = (after + page - 1) // page - (before + page - 1) // page
    if pages.sum() <= len(free):  # Otherwise SGLang says that memory is out.
        allocator.alloc_extend_naive(before, after, last, free, out, page, "cpu")


def decode(after: Any, last: Any, free: Any, out: Any, _: int, page: int) -> None:  # noqa: ANN401 - tensors
    """The next slot of each request: behind the last one, or the first of a free page."""
    taken = 0
    for at, tokens in enumerate(after.tolist()):
        if (tokens - 1) % page:
            out[at] = last[at] + 1
        elif taken < len(free):  # As above.
            out[at] = free[taken] * page
            taken += 1


class Sampling:
    """Sampling parameters of a batch, which the scheduler cuts and joins."""

    penalizer_orchestrator = types.SimpleNamespace(is_required=False)

    @classmethod
    def from_schedule_batch(cls, *given: object) -> Sampling:
        """None."""
        return cls()

    def filter_batch(self, *given: object) -> None:
        """Nothing is in it."""

    merge_batch = filter_batch


allocator.alloc_extend_kernel = Grid(extend)
allocator.alloc_decode_kernel = Grid(decode)
schedule_batch.SamplingBatchInfo = Sampling
scheduler_output_processor_mixin.get_global_experts_capturer = Nothing


def token(segment: int, place: int) -> int:
    """Token of a place in a segment. Each place has another one."""
    return segment << 20 | place


def tokens(prompt: list[list[int]]) -> list[int]:
    """Tokens of a prompt."""
    return [token(segment, place) for segment, length in prompt for place in range(length)]


class Run(Scheduler):  # type: ignore[misc, unused-ignore]
    """A load on SGLang's scheduler. The model is replaced by the outputs of the load."""

    def __init__(self, drawn: Load) -> None:
        self.load, self.settings = drawn, drawn.settings
        radix_cache.time = Clock()
        self.arguments()
        self.left_off()
        self.pools()
        self.begin()
        self.arrivals = [each.arrival if each.after is None else None for each in drawn.requests]
        self.added: set[int] = set()
        self.ended: set[int] = set()
        self.steps: list[list[Any]] = []
        self.lost: list[int] = []
        self.finished: list[int] = []
        self.cached: dict[int, int] = {}
        self.chunks = self.hits = self.mixes = self.calls = 0

    def arguments(self) -> None:
        """Arguments of the server: SGLang's defaults and the settings of the load."""
        given = self.settings
        arguments = object.__new__(ServerArgs)
        for field in dataclasses.fields(ServerArgs):
            if field.default is not dataclasses.MISSING:
                setattr(arguments, field.name, field.default)
            elif field.default_factory is not dataclasses.MISSING:
                setattr(arguments, field.name, field.default_factory())
        by_priority = given["priority_scheduling"]
        arguments.page_size = given["page_size"]
        arguments.attention_backend = "torch_native"
        arguments.pp_max_micro_batch_size = given["max_running_requests"]
        arguments.chunked_prefill_size = given["chunked_prefill_size"]
        arguments.enable_mixed_chunk = given["enable_mixed_chunk"]
        arguments.schedule_conservativeness = given["schedule_conservativeness"]
        arguments.enable_priority_scheduling = by_priority
        arguments.disable_priority_preemption = True
        arguments.prefill_max_requests = None
        set_global_server_args_for_scheduler(arguments)
        self.server_args = arguments
        self.enable_priority_scheduling = by_priority
        self.enable_overlap = given["overlap"]

    def left_off(self) -> None:
        """Parts that are absent: other kinds of models, caches, servers and processes."""
        self.device = "cpu"
        self.schedule_low_priority_values_first = True
        self.priority_scheduling_preemption_threshold = 0
        self.abort_on_priority_when_disabled = False
        self.spec_algorithm = SpeculativeAlgorithm.NONE
        self.disaggregation_mode = DisaggregationMode.NULL
        self.model_config = types.SimpleNamespace(
            is_encoder_decoder=False, is_matryoshka=False, is_multimodal=False, vocab_size=1 << 40,
            model_impl="auto", hf_config=types.SimpleNamespace(architectures=["LlamaForCausalLM"]),
        )  # fmt: skip
        for name in (
            "enable_hierarchical_cache", "enable_hicache_storage", "enable_hisparse", "enable_lora",
            "enable_metrics", "is_hybrid_swa", "is_hybrid_ssm", "require_mlp_sync",
            "current_scheduler_metrics_enabled",
        ):  # fmt: skip
            setattr(self, name, False)
        self.dllm_config = self.truncation_align_size = self.metrics_collector = None
        self.draft_worker = self.dp_cooperation_info = None
        self.is_generation = True
        self.pp_size = self.dp_size = 1
        self.max_queued_requests = None
        self.num_generated_tokens = self.forward_ct_decode = 0
        self.grammar_manager = types.SimpleNamespace(has_waiting_grammars=lambda: False)

    def begin(self) -> None:
        """Nothing runs, and nothing waits."""
        given = self.settings
        self.max_prefill_tokens = given["max_prefill_tokens"]
        self.max_running_requests = given["max_running_requests"]
        self.schedule_policy = given["schedule_policy"]
        self.running_batch = schedule_batch.ScheduleBatch(reqs=[], batch_is_full=False)
        self.waiting_queue: list[Any] = []
        self.cur_batch = self.last_batch = self.chunked_req = None
        self.forward_ct, self._engine_paused, self.enable_dynamic_chunking = 0, False, False
        self.chunked_prefill_size = max(given["chunked_prefill_size"], 0) or None
        self.is_mixed_chunk = bool(self.chunked_prefill_size and given["enable_mixed_chunk"])
        self.init_schedule_policy()

    def pools(self) -> None:
        """Slots of requests and of tokens, and the cache of prefixes."""
        given = self.settings
        page = self.page_size = given["page_size"]
        longest = max(each.total for each in self.load.requests) + page + 4
        # A request that has ended keeps its place until the next call.
        self.req_to_token_pool = ReqToTokenPool(
            2 * given["max_running_requests"] + 2, longest, "cpu", False
        )
        size = given["pages"] * page
        rest = (torch.bfloat16, "cpu", None, False)
        if page == 1:
            self.token_to_kv_pool_allocator = allocator.TokenToKVPoolAllocator(size, *rest)
        else:
            self.token_to_kv_pool_allocator = allocator.PagedTokenToKVPoolAllocator(
                size, page, *rest
            )
        parameters = CacheInitParams(
            disable=not given["radix_cache"],
            req_to_token_pool=self.req_to_token_pool,
            token_to_kv_pool_allocator=self.token_to_kv_pool_allocator,
            page_size=page,
        )
        chunks = not given["radix_cache"] and given["chunked_prefill_size"] > 0
        self.tree_cache = ChunkCache(parameters) if chunks else RadixCache(parameters)

    def recv_requests(self) -> list[Any]:
        """Puts those into the queue that have arrived."""
        step = self.calls
        if len(self.ended) == len(self.load.requests):
            raise Done
        assert step < LONGEST, (self.load.kind, self.settings, self.steps[-3:])
        for number, wanted in enumerate(self.load.requests):
            arrival = self.arrivals[number]
            if arrival is None or arrival > step or number in self.added:
                continue
            sampling = SamplingParams(
                max_new_tokens=wanted.output, ignore_eos=self.settings["ignore_eos"]
            )
            sampling.normalize(None)
            request = Req(
                f"{number}",
                "",
                tokens(wanted.prompt),
                sampling,
                vocab_size=1 << 40,
                priority=wanted.priority if self.enable_priority_scheduling else None,
                eos_token_ids=set(),
            )
            request.time_stats = Times()
            request.tokenizer = None
            released = request.reset_for_retract

            def noted(number: int = number, released: Any = released) -> None:  # noqa: ANN401 - a method
                self.lost.append(number)
                released()

            request.reset_for_retract = noted
            self.added.add(number)
            self._add_request_to_queue(request)
        return []

    def process_input_requests(self, received: list[Any]) -> None:
        """None has come this way."""

    def get_next_batch_to_run(self) -> Any:  # noqa: ANN401 - of SGLang
        """The next batch, which is recorded."""
        self.note_finished()
        self.lost = []
        batch = super().get_next_batch_to_run()
        self.calls += 1
        items: list[Any] = []
        if batch is not None and batch.forward_mode.is_decode():
            items = [int(each.rid) for each in batch.reqs]
        elif batch is not None:
            decoding = len(batch.decoding_reqs or [])
            prompts = len(batch.reqs) - decoding
            self.mixes += decoding > 0
            for request in batch.reqs[:prompts]:
                number, before = int(request.rid), len(request.prefix_indices)
                if number not in self.cached:
                    self.hits += before
                self.cached[number] = before
                items.append([number, request.extend_input_len, before])
                self.chunks += request is self.chunked_req
            items += [int(each.rid) for each in batch.reqs[prompts:]]
        free = self.token_to_kv_pool_allocator.available_size() // self.page_size
        kept = 0 if self.tree_cache.disable else self.tree_cache.evictable_size() // self.page_size
        self.steps.append([items, self.lost, [], free, kept, len(self.waiting_queue)])
        return batch

    def note_finished(self) -> None:
        """Those that have ended since the last call."""
        if self.steps:
            self.steps[-1][2] = self.finished
        self.finished = []

    def run_batch(self, batch: Any, pp_proxy_tensors: object = None) -> Any:  # noqa: ANN401 - of SGLang
        """The result that the model would return. Tokens are known once it is read."""
        batch.output_ids = torch.zeros(len(batch.reqs), dtype=torch.int64)
        return types.SimpleNamespace(
            copy_done=None, logits_output=None, next_token_ids=None, num_accepted_tokens=0,
            extend_input_len_per_req=None, extend_logprob_start_len_per_req=None,
            can_run_cuda_graph=False, reqs=batch.reqs[:],
        )  # fmt: skip

    def process_batch_result(self, batch: Any, result: Any) -> None:  # noqa: ANN401 - of SGLang
        """Hands the outputs of a batch to the requests."""
        result.next_token_ids = torch.tensor(
            [token(OUTPUTS + int(each.rid), len(each.output_ids)) for each in batch.reqs]
        )
        before = [each for each in batch.reqs if not each.finished()]
        if batch.forward_mode.is_decode():
            self.process_batch_result_decode(batch, result)
        else:
            self.process_batch_result_prefill(batch, result)
        for request in before:
            if request.finished():
                number = int(request.rid)
                assert len(request.output_ids) == self.load.requests[number].output
                self.finished.append(number)
                self.ended.add(number)
                for other, wanted in enumerate(self.load.requests):
                    if wanted.after == number:
                        self.arrivals[other] = self.calls + wanted.arrival

    def self_check_during_idle(self) -> None:
        """The part of it that the scheduler needs."""
        self.new_token_ratio = self.init_new_token_ratio

    def left_out(self, *given: Any, **named: Any) -> None:  # noqa: ANN401 - arguments of many methods
        """Nothing: the scheduler's decisions do not need it."""

    def same(self, batch: Any, *given: Any, **named: Any) -> Any:  # noqa: ANN401 - of SGLang
        """Nothing: only other engines would change something."""
        return batch

    _abort_on_waiting_timeout = _abort_on_running_timeout = stream_output = left_out
    report_prefill_stats = report_decode_stats = cancel_bubble_timer = left_out
    _mamba_prefix_cache_update = launch_batch_sample_if_needed = left_out
    _maybe_update_reasoning_tokens = _prefetch_kvcache = _abort_on_queued_limit = left_out
    maybe_prepare_mlp_sync_batch = _maybe_prepare_ngram_embedding = same

    def record(self) -> dict[str, Any]:
        """The record of the load."""
        try:
            self.event_loop_overlap() if self.enable_overlap else self.event_loop_normal()
        except Done:
            self.note_finished()
        requests = [
            [arrival, each.priority, each.output, each.prompt]
            for arrival, each in zip(self.arrivals, self.load.requests, strict=True)
        ]
        lost = sum(len(each[1]) for each in self.steps)
        return {
            "kind": self.load.kind,
            "settings": self.settings,
            "requests": requests,
            "counts": [len(self.steps), lost, self.chunks, self.hits, self.mixes],
            "steps": shortened(self.steps),
            "left": round(self.new_token_ratio, 9),
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


def recorded(count: int, how: str) -> list[dict[str, Any]]:
    """Records of so many drawn loads. Those for which SGLang runs out of memory are left out."""
    found: list[dict[str, Any]] = []
    for number in itertools.count():
        if len(found) == count:
            break
        try:
            found.append(Run(load(f"{how} {number}", KINDS[number % len(KINDS)], how)).record())
        except RuntimeError as error:
            assert "out of memory" in str(error).lower(), error
    return found


def answers() -> Answers:
    """Loads by how the scheduler is used."""
    return {how: recorded(count, how) for how, count in HOW.items()}


if __name__ == "__main__":
    main(sglang.__version__, answers)
