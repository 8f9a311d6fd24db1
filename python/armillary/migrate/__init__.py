"""Files of users in words of today: keys and values that were renamed, and nothing else.

Here: kinds of files (`kinds.py`), the old words in each (`found.py`), the new text (`text.py`) and
files as a whole (`run.py`). Not here: the old words (`old_words.py`, and `crates/platform` for keys
of platform files)."""

from .run import Migrated, migrate

__all__ = ["Migrated", "migrate"]
