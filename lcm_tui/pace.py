"""When work beside the keys may run: who types goes first, and the file is followed all the same."""

from __future__ import annotations

from typing import Final

#: A key is answered by then.
ANSWERED_SECONDS: Final = 0.025
#: Until then the pause behind a key has just begun.
BEGUN_SECONDS: Final = 0.05
#: No key for so long is a rest.
REST_SECONDS: Final = 0.15
#: A key is answered before anything is loaded, but a screen follows the file within a second, whatever is
#: pressed: so long a load waits for a good moment.
LONGEST_PAUSE: Final = 0.2
#: Who waits for such a moment looks for it so often: a key may come any time, and the moment behind it.
LOOK_SECONDS: Final = 0.02
#: Without a letter for so long, whoever types into a prompt looks at what it lists.
WORD_SECONDS: Final = 0.4
#: Under a host that writes without a pause, planning takes at most one part in so many of the time.
SHARE: Final = 4
LONGEST_REST: Final = 2.0


def until_calm(since: float) -> float:
    """How long to wait with other work when the last key was pressed so many seconds ago; 0: not at all.

    Whoever presses one key after the other leaves a pause behind each. Its beginning is the best moment for
    what keys would have to wait for; later in it the next one may come any time, until it is a rest.
    """
    if since < ANSWERED_SECONDS:
        return ANSWERED_SECONDS - since
    return 0.0 if since < BEGUN_SECONDS else max(0.0, REST_SECONDS - since)


def rest_after(seconds: float) -> float:
    """How long to rest after a look at the file that took so many seconds, when it changes all the time."""
    return min(LONGEST_REST, (SHARE - 1) * seconds)
