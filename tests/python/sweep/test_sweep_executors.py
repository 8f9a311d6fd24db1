"""Ray and Optuna: skipped, saying so, where they are not installed; what can be tested without them
is."""

from __future__ import annotations

import itertools
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
import toy_studies
from hypothesis import given
from hypothesis import strategies as st

import armillary as arm
from armillary.errors import InputError
from armillary.sweep import processes, ray_executor
from armillary.sweep.points import Point
from armillary.sweep.shares import Shares

pytestmark = pytest.mark.usefixtures("workers_in_copies")

OPTUNA: dict[str, Any] = {
    "parameters": {
        "outer": {
            "set": "platform.links[1].bandwidth",
            "from": "10 GB/s",
            "to": "400 GB/s",
            "scale": "log",
        },
        "chunks": {"set": "platform.scheduler.chunks", "from": 1, "to": 64},
    },
    "search": {"kind": "optuna", "points": 20, "batch": 4, "minimize": "step_time_ns"},
}


class FakeRay:
    """Ray's calls, in this process."""

    def __init__(self) -> None:
        self.killed = 0

    def is_initialized(self) -> bool:
        return True

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 3.0}

    def remote(self, **_: object) -> Callable[[type], type]:
        def decorate(cls: type) -> type:
            class Remote:
                @staticmethod
                def remote(*arguments: object) -> object:
                    inner = cls(*arguments)
                    call = type(
                        "Call",
                        (),
                        {
                            "remote": staticmethod(
                                lambda share: (id(share), tuple(inner.work(share)))
                            )
                        },
                    )
                    return type("Handle", (), {"work": call})()

            return Remote

        return decorate

    def wait(self, refs: list[Any], num_returns: int) -> tuple[list[Any], list[Any]]:
        return refs[-num_returns:], refs[:-num_returns]

    def get(self, ref: tuple[int, tuple[bytes, ...]]) -> list[bytes]:
        return list(ref[1])

    def kill(self, actor: object) -> None:
        self.killed += 1


def test_ray_through_its_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeRay()
    monkeypatch.setattr(ray_executor, "_ray", lambda: fake)
    path = toy_studies.write(tmp_path, toy_studies.study())
    assert arm.sweep(path, executor="ray").table.equals(arm.sweep(path).table)
    assert fake.killed == 3


def test_ray_itself(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: only its calls are tested")
    path = toy_studies.write(tmp_path, toy_studies.study())
    assert arm.sweep(path, executor="ray", workers=2).table.equals(arm.sweep(path).table)


@pytest.mark.parametrize(
    ("name", "extra"), [("ray", "armillary[ray]"), ("optuna", "armillary[sweep]")]
)
def test_what_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    content = toy_studies.study(**(OPTUNA if name == "optuna" else {}))
    with pytest.raises(InputError) as raised:
        arm.sweep(
            toy_studies.write(tmp_path, content),
            tmp_path / "r",
            executor="ray" if name == "ray" else "processes",
        )
    assert extra in str(raised.value)
    assert not (tmp_path / "r").exists()


def test_optuna_finds_the_fast_end_the_same_with_any_workers(tmp_path: Path) -> None:
    pytest.importorskip("optuna", reason="Optuna is not installed")
    path = toy_studies.write(tmp_path, toy_studies.study(**OPTUNA))
    found = [arm.sweep(path, tmp_path / f"r{workers}", workers=workers) for workers in (1, 3)]
    assert (tmp_path / "r1/table.parquet").read_bytes() == (
        tmp_path / "r3/table.parquet"
    ).read_bytes()
    table = found[0].table
    assert table.height == 20
    assert table["step_time_ns"][8:].min() <= table["step_time_ns"][:8].min()  # type: ignore[operator]


def test_optuna_goes_on_where_it_was(tmp_path: Path) -> None:
    pytest.importorskip("optuna", reason="Optuna is not installed")
    content = toy_studies.study(**{**OPTUNA, "constraints": ["chunks % 2 == 0"]})
    content["search"] = {**OPTUNA["search"], "maximize": "dim1_utilisation"}
    path = toy_studies.write(tmp_path, content)
    whole = arm.sweep(path, tmp_path / "r", workers=2)
    assert whole.refused
    assert all(chunks % 2 == 0 for chunks in whole.table["chunks"])
    journal = tmp_path / "r/journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:11]))
    assert arm.sweep(path, tmp_path / "r", resume=True).table.equals(whole.table)


class SlowWorker:
    """A worker that comes up when `up` is set, in place of a process."""

    up = threading.Event()
    made: ClassVar[list[SlowWorker]] = []

    def __init__(self, opening: bytes) -> None:
        self.late = len(self.made) == 1
        self.made.append(self)
        self.process = type("Process", (), {"kill": lambda _: None})()
        self.share, self.ready = 1, False

    def is_ready(self) -> bool:
        if self.late:
            assert self.up.wait(60)
        self.ready = True
        return True

    def work(self, points: Sequence[Point]) -> Iterator[bytes]:
        for index, _ in points:
            assert self.ready, "it was handed a point before it was up"
            time.sleep(0.001)  # or the other worker is through before this one's turn
            yield str(index).encode()

    def end(self) -> str:
        return "exit code 0"


def test_a_worker_still_coming_up_is_left_to_the_thread_that_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first batch ends on the other worker; the second must not talk to the one that the first
    still waits for."""
    monkeypatch.setattr(processes, "Worker", SlowWorker)
    SlowWorker.up.clear()
    SlowWorker.made.clear()
    with processes.Processes(b"", 2) as pool:
        assert answers(pool, 2) == ["0", "1"]
        while len(SlowWorker.made) < 2:
            time.sleep(0.001)
        assert answers(pool, 50) == sorted(map(str, range(50)))
        SlowWorker.up.set()
        for thread in pool.threads:
            thread.join()
        assert answers(pool, 50) == sorted(map(str, range(50)))


def answers(pool: processes.Processes, count: int) -> list[str]:
    """What the workers say to so many points, in order."""
    return sorted(
        line.decode()
        for lines in pool.run([[(index, ()) for index in range(count)]])
        for line in lines
    )


@given(
    st.lists(st.integers(0, 9), max_size=8), st.integers(1, 4), st.randoms(use_true_random=False)
)
def test_every_point_is_handed_out_once(
    sizes: list[int], workers: int, drawn: random.Random
) -> None:
    index = itertools.count()
    groups = [[(next(index), ()) for _ in range(size)] for size in sizes]
    left, seen = Shares(groups, workers), list[int]()
    while left.left:
        worker = drawn.randrange(workers)
        taken = left.take(worker, drawn.randint(1, 4))
        kept = taken[: drawn.randint(1, 4)]
        left.give_back(worker, taken[len(kept) :])
        seen += [point[0] for point in kept]
    assert sorted(seen) == list(range(sum(sizes)))
    assert left.take(0, 4) == []


def test_a_workload_stays_with_its_worker() -> None:
    left = Shares([[(index, ()) for index in range(at, at + 4)] for at in (0, 4, 8)], 2)
    first, second = ([left.take(worker, 1)[0][0] for worker in (0, 1)] for _ in range(2))
    assert (first, second) == ([0, 4], [1, 5])
    assert [left.take(1, 2)[0][0], left.take(1, 1)[0][0]] == [6, 8], (
        "what is left of its own, then a new one"
    )
    assert [left.take(0, 4)[0][0] for _ in range(2)] == [2, 10], (
        "the half that the other has before it"
    )
