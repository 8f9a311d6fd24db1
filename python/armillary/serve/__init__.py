"""Serving: what a deployment of a model delivers to its requests.

An engine schedules requests step by step as vLLM, SGLang or TensorRT-LLM do. The time of a step
comes from its kernels and collectives."""

from .calibrate import Calibrated, calibrated
from .deployment import Choices, Engines, deploy
from .engines import Engine, engines, load_engine
from .fleet import Fleet
from .intervals import Uncertain, uncertain
from .layout import Layout, Precision
from .limits import Limits
from .load import Lengths, Load, Request, drawn
from .run import Answer, Served, Spread, serve

__all__ = [
    "Answer",
    "Calibrated",
    "Choices",
    "Engine",
    "Engines",
    "Fleet",
    "Layout",
    "Lengths",
    "Limits",
    "Load",
    "Precision",
    "Request",
    "Served",
    "Spread",
    "Uncertain",
    "calibrated",
    "deploy",
    "drawn",
    "engines",
    "load_engine",
    "serve",
    "uncertain",
]
