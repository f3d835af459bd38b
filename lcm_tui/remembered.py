"""What the app remembers of an operator from one day to the next: where the dividers between panes are.

It is a small private file in our state folder (0600), written when a divider was moved and never by
browsing. A file that is missing, foreign or damaged is ignored: it says how something looks, and no more.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import platformdirs
from lcm_core.errors import LcmError
from lcm_core.private_files import PROGRAM, make_private, read_limited, write_private

log = logging.getLogger(__name__)

#: A file of ours is far smaller.
MOST_BYTES: Final = 16 * 1024
#: Dividers that are remembered; there are some thirty.
MOST_SHARES: Final = 200
#: The part of a screen that a pane can take.
LEAST, LARGEST = 0.02, 0.98


def remembered_path() -> Path:
    """Where it is kept for this user, whether or not it is there yet."""
    return Path(platformdirs.user_state_dir(PROGRAM, appauthor=False)) / "panes.json"


def read_shares(path: Path) -> dict[str, float]:
    """The parts that first panes take, by the name of their screen; what is no such part is left out."""
    try:
        written = read_limited(path, MOST_BYTES)
    except (OSError, ValueError):
        return {}
    import json  # most operators never move a divider: no start of theirs pays for it

    try:
        found = json.loads(written)
    except (ValueError, RecursionError):
        return {}
    shares = found.get("shares") if isinstance(found, dict) else None
    if not isinstance(shares, dict):
        return {}
    sound = ((name, part) for name, part in shares.items() if type(part) is float and LEAST < part < LARGEST)
    return dict(list(sound)[:MOST_SHARES])


class Remembered:
    """What is remembered of the panes: read once, written behind the keys."""

    def __init__(self, path: Path, shares: Mapping[str, float]) -> None:
        self._path = path
        self._shares = dict(shares)
        self._changed: set[str] = set()  #: not written yet
        self._lock = threading.Lock()

    def share(self, name: str) -> float | None:
        """The part of its screen that a first pane takes; None: nobody has moved its divider."""
        return self._shares.get(name)

    def keep(self, name: str, share: float | None) -> None:
        """Remember another part from now on, and in the file with the next `write`; None forgets it."""
        if share is None:
            self._shares.pop(name, None)
        else:
            self._shares[name] = round(share, 4)
        self._changed.add(name)

    @property
    def unwritten(self) -> bool:
        """Whether the file does not know something yet."""
        return bool(self._changed)

    def write(self) -> None:
        """Write what was changed here into the file, beside what others wrote there; blocks."""
        import json

        with self._lock:
            changed, self._changed = self._changed, set()
            if not changed:
                return
            held = read_shares(self._path)
            for name in changed:
                share = self._shares.get(name)
                if share is None:
                    held.pop(name, None)
                else:
                    held[name] = share
            try:
                make_private(self._path.parent)
                write_private(self._path, json.dumps({"shares": held}, indent=1) + "\n", replace=True)
            except (OSError, LcmError) as error:
                log.warning("where panes are divided cannot be remembered: %s", error)
