"""Conversions between units, by name.

Reports hold nanoseconds, the core picoseconds, nccl-tests microseconds. Decimal prefixes: a GB has
1e9 bytes."""

from __future__ import annotations

NS_PER_US, NS_PER_MS, NS_PER_S = 1e3, 1e6, 1e9
TIMES = ((NS_PER_S, "s"), (NS_PER_MS, "ms"), (NS_PER_US, "us"), (1.0, "ns"))
"""Units of time for people, the longest first: ns in one, and its name."""
PS_PER_NS, PS_PER_US, PS_PER_MS, PS_PER_S = 1e3, 1e6, 1e9, 1e12
US_PER_NS, US_PER_MS, US_PER_S = 1e-3, 1e3, 1e6
S_PER_PS, S_PER_NS = 1e-12, 1e-9
MB, GB, TB = 1e6, 1e9, 1e12
GFLOP, TFLOP = 1e9, 1e12
BYTES_PER_US = 1e3
"""Bytes in a microsecond at 1 GB/s."""
PPM = 1e6
"""Parts per million, in which the core keeps efficiencies and factors."""
