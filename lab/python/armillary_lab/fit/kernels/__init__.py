"""Fits of the parameters of single kernels to measured ones, by generation of GPUs.

Here: one search for every kind of kernel (`search.py`), fits without a generation or without some
shapes (`unseen.py`), and the command (`__main__.py`). The formulas are the simulator's own
(`crates/kernels`)."""
