"""Wall time of a step of embedding tables in one thread, and in more.

    python lab/bench/python/threads.py --threads 2

All take turns, so that other work on the machine slows all down alike. A turn's value is the median
of its steps. Printed are medians over the turns, and the median and quartiles of their ratios.

The last number is what the machine allows: how much more several processes do that share nothing,
each with tables and one thread of its own. They share memory, caches and the power of the
processor, as threads do. `--threads 2` needs memory for two copies of the tables.

Shapes and batches are those of `embedding.py`; row-wise AdaGrad."""

from __future__ import annotations

import argparse
import multiprocessing
import time
from multiprocessing.connection import Connection

import numpy as np
import torch
from embedding import SHAPES, Shape, batches, collection_of

from armillary_train.process import prepare_process
from armillary_train.tables.batch import SparseBatch

BATCHES = 9
"""Batches of a turn. The first one is not counted."""


class Turns:
    """Tables of a shape, and the steps of a turn."""

    def __init__(self, shape: Shape, zipf: bool) -> None:
        lengths = torch.full((shape.tables, shape.samples), shape.pooling)
        made = batches(shape, zipf, BATCHES)
        self.steps = [SparseBatch(lengths, torch.from_numpy(indices)) for indices in made]
        self.gradient = torch.randn(shape.samples, shape.tables * shape.dim)
        self.collection = collection_of(shape, "rowwise", 1)

    def take(self, threads: int) -> float:
        """The median of the seconds of some steps."""
        self.collection.set_threads(threads)
        spent = []
        for batch in self.steps:
            begin = time.perf_counter()
            self.collection(batch).backward(self.gradient)
            spent.append(time.perf_counter() - begin)
        return float(np.median(spent[1:]))


def serve(link: Connection, shape: Shape, zipf: bool) -> None:
    """Takes a turn whenever it is asked to."""
    prepare_process(1)
    turns = Turns(shape, zipf)
    link.send(0.0)
    while link.recv():
        link.send(turns.take(1))


def measure(shape: Shape, zipf: bool, threads: int, count: int) -> list[tuple[float, float, float]]:
    """Seconds of a step in one thread, in several, and in the same number of processes, turn by
    turn."""
    context = multiprocessing.get_context("spawn")
    links, processes = [], []
    for _ in range(threads - 1):
        here, there = context.Pipe()
        processes.append(context.Process(target=serve, args=(there, shape, zipf), daemon=True))
        links.append(here)
    for process in processes:
        process.start()
    turns = Turns(shape, zipf)
    for link in links:
        link.recv()
    found = []
    for _ in range(count + 1):
        one, several = turns.take(1), turns.take(threads)
        for link in links:
            link.send(True)
        together = [turns.take(1), *(link.recv() for link in links)]
        found.append((one, several, float(np.mean(together))))
    for link, process in zip(links, processes, strict=True):
        link.send(False)
        process.join()
    return found[1:]


def main() -> None:
    """Times all shapes and prints a line for each."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--threads", type=int, default=2)
    asked.add_argument("--turns", type=int, default=15)
    given = asked.parse_args()
    prepare_process(1)
    for shape in dict.fromkeys((*SHAPES["core"], *SHAPES["many"])):
        for zipf in (False, True):
            found = measure(shape, zipf, given.threads, given.turns)
            one, several, _ = 1e3 * np.median(np.array(found), 0)
            ratios = [one / several for one, several, _ in found]
            limit = np.median([given.threads * one / together for one, _, together in found])
            lower, middle, upper = np.percentile(ratios, [25, 50, 75])
            print(
                f"{shape}, {'zipf' if zipf else 'uniform':7}: {one:6.2f} ms, "
                f"in {given.threads} threads {several:6.2f}: {middle:.2f} times faster "
                f"({lower:.2f} to {upper:.2f}); {given.threads} processes: {limit:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
