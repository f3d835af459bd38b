"""The words of a memory, kept between searches: a long-lived server says at once what looks alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from typing import Final

#: Scopes whose words are kept, and seconds after which they are read anew.
_KEPT: Final = 4
_FRESH_SECONDS: Final = 60.0


class KnownWords:
    """Words by what was searched. They are suggestions: those of a minute ago do as well."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._words: dict[Hashable, tuple[float, Sequence[str]]] = {}

    def of(self, scope: Hashable, read: Callable[[], Sequence[str]]) -> Sequence[str]:
        """The words of a scope, which *read* finds when they are not known or no longer fresh."""
        kept = self._words.pop(scope, None)
        if kept is None or self._clock() - kept[0] > _FRESH_SECONDS:
            kept = self._clock(), read()
        self._words[scope] = kept
        while len(self._words) > _KEPT:
            self._words.pop(next(iter(self._words)), None)
        return kept[1]
