"""Models as facts: fields, parameters, floating-point operations, tables and how they are sharded.

Everything that reads models stands on this room: the generator of workloads today. Not here: what
ranks do with a model (`workload/`)."""

from .files import FAMILIES, Model, load_model, models, models_by_family

__all__ = ["FAMILIES", "Model", "load_model", "models", "models_by_family"]
