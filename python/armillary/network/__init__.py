"""Networks under another front end: send, receive, schedule, and the clock.

Here: `Network`, for front ends in Python (`network.py`), and the same for programs in any language,
by records over a pipe (`pipe.py`). Not here: matching of messages, order and time, which are in the
core (`crates/sim/src/exchange.rs`)."""

from .network import Callback, Network
from .pipe import serve

__all__ = ["Callback", "Network", "serve"]
