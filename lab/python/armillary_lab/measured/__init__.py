"""Predictions against measurements: collectives, training steps and memory.

Here: what others measured (`measured/`), each row with its source, and how far our predictions are
from it. Not here: tables and figures of papers, which `studies/` reruns."""
