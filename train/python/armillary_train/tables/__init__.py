"""Embedding tables on one process: lookups, gradients and optimizers on processors and GPUs."""
