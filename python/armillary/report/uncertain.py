"""Whether the uncertainty of predictions separates the best of several results from others."""

from __future__ import annotations

from ..units import counted


def sentence(alike: int | None, what: str) -> str:
    """A sentence with a blank before it: how many others, each a `what`, are as good as far as is
    known. `alike` is their number, `None` where it is unknown."""
    if alike is None:
        return (
            " How far off these predictions may be is unknown, so another "
            f"{what} with a similar time may be as good."
        )
    if not alike:
        return ""
    many = counted(alike, f"other {what}")
    return f" The uncertainty of predictions does not separate {many} from it."
