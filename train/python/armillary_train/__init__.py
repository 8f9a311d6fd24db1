"""Trains recommendation models, synchronously on any number of processes.

Here: the model in PyTorch, the embedding engine as a module, sharding, data, scores, and the run.
Needs the package `armillary`. Nothing in `armillary` imports this package or PyTorch. Some files
here don't import PyTorch either: `settings.py`, `run/launch.py`, `net/metrics.py` and `data/`."""
