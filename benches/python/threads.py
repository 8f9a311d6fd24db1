"""Wall time of a step of embedding tables in one thread, and in more.

    python benches/python/threads.py --threads 2

Both take turns, so that other work on the machine slows both down alike. A turn's value is the
median of its steps. Printed are medians over the turns, and the median and quartiles of their
ratios. Shapes and batches are those of `embedding.py`; row-wise AdaGrad."""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from embedding import SHAPES, batches, collection_of

from armillary.trainer.batch import SparseBatch
from armillary.trainer.embedding import EmbeddingCollection
from armillary.trainer.process import prepare_process

BATCHES = 9
"""Batches of a turn. The first one is not counted."""


def turn(
    collection: EmbeddingCollection, steps: list[SparseBatch], gradient: torch.Tensor
) -> float:
    """The median of the seconds of some steps."""
    spent = []
    for batch in steps:
        begin = time.perf_counter()
        collection(batch).backward(gradient)
        spent.append(time.perf_counter() - begin)
    return float(np.median(spent[1:]))


def main() -> None:
    """Times all shapes and prints a line for each."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--threads", type=int, default=2)
    asked.add_argument("--turns", type=int, default=15)
    given = asked.parse_args()
    prepare_process(1)
    for shape in dict.fromkeys((*SHAPES["core"], *SHAPES["many"])):
        for zipf in (False, True):
            lengths = torch.full((shape.tables, shape.samples), shape.pooling)
            made = batches(shape, zipf, BATCHES)
            steps = [SparseBatch(lengths, torch.from_numpy(indices)) for indices in made]
            gradient = torch.randn(shape.samples, shape.tables * shape.dim)
            collection = collection_of(shape, "rowwise", 1)
            found = []
            for _ in range(given.turns + 1):
                pair = []
                for threads in (1, given.threads):
                    collection.set_threads(threads)
                    pair.append(turn(collection, steps, gradient))
                found.append(pair)
            one, several = 1e3 * np.median(np.array(found[1:]), 0)
            ratios = [one / several for one, several in found[1:]]
            lower, middle, upper = np.percentile(ratios, [25, 50, 75])
            print(
                f"{shape}, {'zipf' if zipf else 'uniform':7}: {one:6.2f} ms, "
                f"in {given.threads} threads {several:6.2f}: {middle:.2f} times faster "
                f"({lower:.2f} to {upper:.2f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
