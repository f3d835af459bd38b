"""The panel above the first list, and what the title bar says about the file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from enum import Enum
from typing import TYPE_CHECKING, Final

from lcm_core.base.text import cell_width, clip, counted, safe_line
from lcm_core.base.times import format_local
from lcm_core.base.values import Record, field
from lcm_core.store.opening import Access

from lcm_tui.kit.session import Session
from lcm_tui.kit.spans import Line, Span, StyleName, share_text
from lcm_tui.tables.blocks import bar_text, size_text, tokens_text

if TYPE_CHECKING:
    from lcm_core.base.records import ConversationId, SummaryId
    from lcm_core.store.remembered import Verdict

# -- the panel -------------------------------------------------------------------------------------------
# What it says of a database, line by line, each with a way to more. A line is only there when it has
# something to say. Where it leads, its key says (`PanelKey`).

#: Contexts and conversations that stand in a line where there is no room for one each.
MOST: Final = 3
#: Cells of the name of a line, and of a bar.
LABEL: Final = 9
BAR: Final = 8
#: Cells that a conversation takes at least where several stand in a line, and those of its name at most.
ENTRY: Final = 30
LONGEST: Final = 40
#: Cells of the name of the database, at most.
NAME: Final = 24


class Subject(Enum):
    """What a line is about."""

    STATE = "database"
    BROKEN = "broken"
    STALE = "stale"
    DRAFTS = "waiting"
    ENGINE = "engine"
    INGESTING = "ingesting"
    SESSIONS = "on disk"
    NEAREST = "context"
    LARGEST = "disk"
    OPERATION = "changes"


class PanelKey(Record, frozen=True):
    """A line of the panel."""

    subject: Subject
    ref: int | str | None = None  #: a conversation, or an operation


class Filled(Record, frozen=True):
    """A context, and how near it is to compaction."""

    conversation_id: int
    name: str
    tokens: int
    budget: int  #: tokens, the whole of every share of a context on any screen
    threshold: int  #: tokens at which it is compacted

    @property
    def share(self) -> float:
        """Of the budget."""
        return self.tokens / max(self.budget, 1)

    @property
    def nearness(self) -> float:
        """To compaction: 1 and more sets it off."""
        return self.tokens / max(self.threshold, 1)


class Sized(Record, frozen=True):
    """A conversation, and the bytes of its texts."""

    conversation_id: int
    name: str
    bytes: int


class Changed(Record, frozen=True):
    """A line of the history: an operation of ours, or a batch."""

    id: str
    title: str
    when: str
    holds: bool  #: else it was undone
    is_undo: bool = False  #: it only takes others back, or makes them again


class Outlook(Record, frozen=True):
    """All that the panel can say; what has not been read yet is None or empty."""

    database: str
    engine: str
    zone: tzinfo | None = None  #: in which times are shown
    empty: bool = False  #: the database holds no conversation
    early: bool = False  #: what is urgent has not all been read: what stands below it waits, so that it stays
    verdict: Verdict | None = None
    broken: int = 0  #: summaries
    broken_in: int = 0  #: conversations
    unreadable: int = 0  #: conversations that the file's damage keeps from being counted
    stale: Mapping[ConversationId, Sequence[SummaryId]] = field(
        default_factory=dict
    )  #: those of each conversation
    drafts: int = 0  #: summaries whose drafts wait for a decision
    #: Why work of the engine does not go on by itself, the most urgent first, and in how many conversations.
    engine_needs: Sequence[tuple[str, int]] = ()
    sessions: int = 0  #: that only the host knows
    ingesting: Line = ()  #: whether the engine keeps up with the host; empty: there is nothing to compare
    nearest: Sequence[Filled] = ()  #: the fullest first
    largest: Sequence[Sized] = ()  #: the largest first
    total_bytes: int = 0  #: of all conversations
    changes: Sequence[Changed] = ()  #: the newest first
    #: The key of the list that leads there, too; None: from a change that cannot be undone, to the history.
    keys: dict[Subject | None, str] = field(default_factory=dict)


def panel_keys(outlook: Outlook, most: int) -> tuple[PanelKey, ...]:
    """The lines of a panel of one column: the most urgent ones; what is left is spread over the others."""
    if outlook.early:
        return tuple(_first(outlook)[:most])
    ranked = [
        *_first(outlook),
        *_ones(Subject.NEAREST, bool(outlook.nearest)),
        *_ones(Subject.SESSIONS, bool(outlook.sessions)),
        *_ones(Subject.OPERATION, bool(outlook.changes)),
        *_ones(Subject.LARGEST, len(outlook.largest) > 1),
    ][:most]
    for several in (_nearest(outlook), _largest(outlook), _changes(outlook)):
        more = most - len(ranked)
        if more and several and (whole := PanelKey(several[0].subject)) in ranked:
            ranked.remove(whole)
            ranked += several[: more + 1]
    order = list(Subject)
    return tuple(sorted(ranked, key=lambda key: order.index(key.subject)))


def panel_columns(outlook: Outlook, most: int) -> tuple[tuple[PanelKey, ...], tuple[PanelKey, ...]]:
    """The lines of a panel of two columns: how things are and what to do; what is large and what was done."""
    if outlook.early:
        return tuple(_first(outlook)[:most]), ()
    left = [*_first(outlook), *_ones(Subject.SESSIONS, bool(outlook.sessions)), *_nearest(outlook)]
    changes = _changes(outlook)[: most - MOST]
    return tuple(left[:most]), (*_largest(outlook)[: most - len(changes)], *changes)


def _nearest(outlook: Outlook) -> list[PanelKey]:
    return [PanelKey(Subject.NEAREST, one.conversation_id) for one in outlook.nearest]


def _largest(outlook: Outlook) -> list[PanelKey]:
    return [PanelKey(Subject.LARGEST, one.conversation_id) for one in outlook.largest]


def _changes(outlook: Outlook) -> list[PanelKey]:
    return [PanelKey(Subject.OPERATION, one.id) for one in outlook.changes]


def _first(outlook: Outlook) -> list[PanelKey]:
    return [
        PanelKey(Subject.STATE),
        *_ones(Subject.BROKEN, bool(outlook.broken)),
        *(PanelKey(Subject.STALE, owner) for owner in list(outlook.stale)[:1]),
        *_ones(Subject.DRAFTS, bool(outlook.drafts)),
        *_ones(Subject.ENGINE, bool(outlook.engine_needs)),
        *_ones(Subject.INGESTING, bool(outlook.ingesting)),
    ]


def _ones(subject: Subject, said: bool) -> list[PanelKey]:
    return [PanelKey(subject)] if said else []


def panel_line(outlook: Outlook, key: PanelKey, width: int, *, repeated: bool = False) -> Line:
    """A line; *repeated*: the one above is about the same."""
    hint = outlook.keys.get(key.subject if _is_led(outlook, key) else None, "")
    label = "" if repeated else key.subject.value
    line = [Span(f" {label:<{LABEL}} ", "heading" if label else "text")]
    room = width - cell_width(line[0].text) - cell_width(hint) - 2
    said = list(_clipped(_said(outlook, key, room), room))
    space = " " * (room - _cells(said))
    return (*line, *said, Span(f"{space} "), Span(hint, "key"), Span(" "))


def _is_led(outlook: Outlook, key: PanelKey) -> bool:
    """Whether the key of a line does something about it: a change that holds is undone."""
    if key.subject is not Subject.OPERATION:
        return True
    shown = [one for one in outlook.changes if key.ref in (None, one.id)][:1]
    return any(one.holds and not one.is_undo for one in shown)


def conversation_at(outlook: Outlook, key: PanelKey, width: int, cell: int) -> int | None:
    """The conversation at a cell of a line that names several; None: it names none there."""
    found, at = None, 0
    for span in panel_line(outlook, key, width):
        if at > cell:
            break
        if span.style == "key" and span.text.strip().isdigit():
            found = int(span.text)
        at += cell_width(safe_line(span.text))
    return found if key.subject in (Subject.NEAREST, Subject.LARGEST) else None


def _said(outlook: Outlook, key: PanelKey, width: int) -> Line:
    match key.subject:
        case Subject.STATE:
            return _state(outlook, width)
        case Subject.BROKEN:
            return (
                Span(f"✗ {counted(outlook.broken, 'broken summary')}", "error"),
                Span(f" in {counted(outlook.broken_in, 'conversation')}"),
                *((Span(f", {outlook.unreadable:,} unreadable", "warn"),) if outlook.unreadable else ()),
            )
        case Subject.STALE:
            owners, total = len(outlook.stale), sum(map(len, outlook.stale.values()))
            where = f"conversation {key.ref}" if owners == 1 else f"{owners:,} conversations"
            stale = Span(f"! {counted(total, 'stale summary')}", "warn")
            return (stale, Span(f" in {where}, made from a replaced text"))
        case Subject.DRAFTS:
            return (Span(f"{counted(outlook.drafts, 'draft')} to review", "warn"),)
        case Subject.ENGINE:
            number = counted(sum(times for _, times in outlook.engine_needs), "conversation")
            whys = (f"{why} ×{times:,}" if times > 1 else why for why, times in outlook.engine_needs)
            return (Span(f"{number}: {'; '.join(whys)}", "warn"),)
        case Subject.INGESTING:
            return outlook.ingesting
        case Subject.SESSIONS:
            said = counted(outlook.sessions, "session is", "sessions are")
            return (Span(f"{said} not in the database"),)
        case Subject.NEAREST:
            return _entries(_asked(outlook.nearest, key), outlook, width)
        case Subject.LARGEST:
            return _entries(_asked(outlook.largest, key), outlook, width)
        case Subject.OPERATION:
            shown = [one for one in outlook.changes if key.ref in (None, one.id)]
            return _changed(shown, key.ref is None, width)


def _asked(found: Sequence[Filled | Sized], key: PanelKey) -> list[Filled | Sized]:
    """The one that a line is about, or the first few."""
    if key.ref is None:
        return list(found[:MOST])
    return [one for one in found if one.conversation_id == key.ref]


def _state(outlook: Outlook, width: int) -> Line:
    """Which database it is, whether it is sound, who wrote it, and how much was checked.

    What has no room is left out as a whole, the version of the engine before how far the verdict holds.
    """
    database = safe_line(outlook.database)
    name = Span(f"{clip(database, NAME)}  ")
    engine = Span(f"LCM {outlook.engine.partition(',')[0]}  ", "dim")
    verdict = outlook.verdict
    if outlook.empty:
        return (name, engine, Span("no conversation yet", "dim"))
    if outlook.unreadable or (verdict is not None and verdict.damaged):
        return (name, Span("✗ damaged: cannot be read in part", "error"))
    if verdict is None:
        return (name, engine, Span("checking …", "dim"))
    said = []
    if verdict.broken:
        said.append(Span(f"✗ {counted(verdict.broken, 'finding')} ", "error"))
    if verdict.suspicious:
        said.append(Span(f"? {verdict.suspicious:,} suspicious ", "warn"))
    if verdict.more and not verdict.by_health:
        said.append(Span(f"{verdict.more:,} more when Health ran ", "warn"))
    sound = "✓ no damage found " if verdict.by_health else "✓ structure sound "
    verdicts = said or [Span(sound, "ok")]
    extent = [f"{verdict.checks} of {verdict.known} checks"]
    if verdict.fixable:
        extent.append(f"{verdict.fixable:,} fixable")
    if verdict.at:
        extent.append(format_local(datetime.fromtimestamp(verdict.at, UTC), outlook.zone)[5:16])
    outdated = ["changed since"] if verdict.outdated else []
    quick, every = "", ""
    if not verdict.by_health:  # what Health finds is more
        key = outlook.keys.get(Subject.STATE)
        quick, every = "quick check", f"quick check{f', {key} runs all' if key else ''}"
    bare = (name, *verdicts, Span(" "))
    first, *more_than_it = re.split(r"\+| or ", engine.text)
    shorter = f"{first}+  " if more_than_it else engine.text  # "0.15.3+": that one or a later one
    full, short = (*bare, engine), (*bare, Span(shorter, "dim"))
    lines = (
        (*full, Span(_extent(every, [*extent, *outdated]), "dim")),
        (*full, Span(_extent(every, [*extent[:1], *outdated]), "dim")),
        (*full, Span(_extent(every, outdated), "dim")),
        (*full, Span(_extent(quick, outdated), "dim")),
        *(
            (*short, Span(_extent(checked, outdated), "dim"))
            for checked in (every, quick, quick[:5])
            if outdated and not said
        ),
        *(
            (*bare, Span(_extent(checked, outdated), "dim"))
            for checked in (every, quick, quick[:5], "")  # without it, fewer findings look like a repair
        ),
        *((*bare, Span("(changed)", "dim")) for _ in outdated),
    )
    shortest = lines[-1][1:]
    room = max(1, width - _cells(shortest) - 2)
    least = (Span(f"{clip(database, min(NAME, room))}  "), *shortest)
    return next((line for line in lines if _cells(line) <= width), least)


def _extent(quick: str, more: Sequence[str]) -> str:
    return "  ".join(filter(None, (quick, f"({', '.join(more)})" if more else "")))


def _cells(line: Iterable[Span]) -> int:
    return sum(cell_width(safe_line(span.text)) for span in line)


def _entries(found: Sequence[Filled | Sized], outlook: Outlook, width: int) -> Line:
    held = found[: max(1, width // ENTRY)]
    return tuple(span for one in held for span in _entry(one, outlook, width // len(held)))


def _entry(one: Filled | Sized, outlook: Outlook, room: int) -> list[Span]:
    """A conversation's number, as much of its name as has room, a bar and what is said of it."""
    style: StyleName = "d1"
    if isinstance(one, Sized):
        share = one.bytes / max(outlook.total_bytes, 1)
        said = f"{size_text(one.bytes)} {share:.0%} of texts"
    else:
        share, said = one.share, f"stored {share_text(one.share)} of {tokens_text(one.budget)}"
        style = "error" if one.nearness >= 1 else "warn" if one.nearness > 0.9 else "ok"
    cells = BAR if room > 2 * ENTRY else BAR // 2
    left = min(room - len(str(one.conversation_id)) - cells - len(said) - 5, LONGEST)
    name = clip(safe_line(one.name), left) if left > 3 else ""
    padded = name + " " * (max(left, 0) - cell_width(name))
    return [
        Span(f"{one.conversation_id} ", "key"),
        Span(f"{padded} " if name else ""),
        Span(bar_text(share, cells), style),
        Span(f" {said}  "),
    ]


def _changed(found: Sequence[Changed], several: bool, width: int) -> Line:
    """The newest operation and how many more, or one of them."""
    if not found:
        return ()
    one, more = found[0], len(found) - 1
    when = Span(f"{one.when}  ", "dim")
    undone = () if one.holds else (Span(" (undone)", "dim"),)
    others = (Span(f"  and {more} before", "dim"),) if several and more else ()
    title = clip(safe_line(one.title), max(1, width - _cells((when, *undone, *others))))
    return (when, Span(title), *undone, *others)


def _clipped(line: Line, width: int) -> Iterable[Span]:
    """As much of a line as has room."""
    for span in line:
        text = clip(safe_line(span.text), width)
        width -= cell_width(text)
        if text:
            yield Span(text, span.style)
        if width <= 0:
            return


# -- the title bar ---------------------------------------------------------------------------------------
# What it says about the file: whether it is followed, when it changed last, its size.

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
