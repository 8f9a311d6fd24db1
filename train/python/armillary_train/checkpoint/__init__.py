"""Checkpoints of training runs: docs/models/checkpoints.md."""
