"""Trains recommendation models, synchronously on any number of processes.

Here: the model in PyTorch, the embedding engine as a module, sharding, data, scores, and the run.
Needs the extra `armillary[train]` (PyTorch). Nothing outside this room imports PyTorch, and
`settings.py`, `launch.py`, `metrics.py` and `data/` here don't either."""
