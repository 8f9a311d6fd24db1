"""Evaluations on 10,000 made-up samples instead of 100,000.

A process that loads this module has them, and so have its copies. An evaluation of 100,000 takes
longer than all steps of a test's run."""

from __future__ import annotations

import armillary_train.data

armillary_train.data.EVALUATION_SAMPLES = 10_000
