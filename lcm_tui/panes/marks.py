"""What an operator has marked in a list: ids, in the order in which they were marked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

MARK: Final = "●"


class Marks(Generic[K]):
    """The marked ids of one screen; they go with it."""

    def __init__(self, changed: Callable[[Sequence[K]], None]) -> None:
        """*changed* gets the ids whose marks were set or taken away."""
        self._marked: dict[K, None] = {}
        self._changed = changed

    def __contains__(self, key: object) -> bool:
        return key in self._marked

    def __len__(self) -> int:
        return len(self._marked)

    @property
    def keys(self) -> Sequence[K]:
        """What is marked, in the order in which it was."""
        return tuple(self._marked)

    def turn(self, keys: Sequence[K]) -> None:
        """Mark *keys*; when all of them are marked, take their marks away."""
        if all(key in self._marked for key in keys):
            for key in keys:
                del self._marked[key]
        else:
            self._marked.update(dict.fromkeys(keys))
        self._changed(keys)

    def keep(self, known: Collection[K]) -> None:
        """Forget what is not there any more."""
        gone = [key for key in self._marked if key not in known]
        for key in gone:
            del self._marked[key]
        if gone:
            self._changed(gone)

    def clear(self) -> None:
        """Take all marks away: they have done their work."""
        gone = self.keys
        self._marked.clear()
        self._changed(gone)

    def chosen(self, selected: K | None) -> list[K]:
        """The marked ids; without marks the selected one."""
        return list(self._marked) or ([] if selected is None else [selected])

    @property
    def text(self) -> str:
        """How many are marked, for the title bar."""
        return f"{MARK} {len(self._marked):,} marked" if self._marked else ""
