"""Designing platforms: bandwidths, topologies and costs that are optimal, with proofs.
docs/guides/design.md explains the models."""

from .run import design

__all__ = ["design"]
