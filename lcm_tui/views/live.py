"""What the title bar says about the file: whether it is followed, when it changed last, its size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lcm_core.store.opening import Access
from lcm_core.text import safe_line
from lcm_core.times import format_local

from lcm_tui.session import Session
from lcm_tui.views.units import size_text
from lcm_tui.widgets.spans import Line, Span

#: In its place while a screen shows the past.
PAST: Final[Line] = (Span("past, read-only ", "warn"),)


def live_lines(session: Session) -> Sequence[Line]:
    """The state of the file for the title bar, each line shorter than the one before."""
    if session.missing:
        gone = Span("file is missing ", "error")
        return ((gone, Span(safe_line(str(session.database.path)) + " ", "dim")), (gone,))
    state = session.file_state
    copied = session.database.access is Access.COPY
    word = Span("copy " if copied else "live ", "warn" if copied else "ok")
    size = () if state is None else (Span(f"· {size_text(state.size)} ", "dim"),)
    wal: tuple[Span, ...] = ()
    if state and state.wal_size:
        wal = (Span(f"+ WAL {size_text(state.wal_size)} ", "dim"),)
        if session.wal_is_unread:
            word = Span("WAL not read ", "error")
    if session.changed_at is None:
        none = Span("· idle ", "dim")
        return ((word, none, *size, *wal), (word, none, *size), (word, *size), (word,))
    changed = Span(f"changed {format_local(session.changed_at, session.zone)[11:19]} ", "dim")
    return ((word, changed, *size, *wal), (word, changed, *size), (word, changed), (word,))
