"""Two texts compared, line by line: contexts, or a conversation and its Codex session."""

from __future__ import annotations

import asyncio
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

from lcm_core.base.diff import Diff, compare_lines
from lcm_core.base.records import Conversation, ConversationId, SummaryId, SummaryText
from lcm_core.base.text import clip, counted, depth_name, safe_line
from lcm_core.base.times import format_local, parse_utc
from lcm_core.base.values import Record, replace
from lcm_core.engine.previous import PreviousChoice
from lcm_core.engine.sent import ContextDiff, SentContext, SnapshotOrigin
from lcm_core.store.database import Reader
from lcm_core.store.summaries import texts_of
from lcm_core.writers.source import previous_of
from lcm_host.codex import CodexDiff, compare_with_codex, read_held
from textual import on
from textual.app import ComposeResult

from lcm_tui.kit import commands
from lcm_tui.kit.commands import Key
from lcm_tui.kit.diff import (
    DiffFinder,
    DiffView,
    Naming,
    layout_key,
)
from lcm_tui.kit.drawn import Lines
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.listing import Finder
from lcm_tui.kit.places import Side
from lcm_tui.kit.session import PastSession, Session
from lcm_tui.kit.spans import Line, Span
from lcm_tui.screens.reading import DataScreen
from lcm_tui.tables.comparison import codex_rows, remarks
from lcm_tui.tables.past import SHORT
from lcm_tui.tables.sent import fitted

if TYPE_CHECKING:
    from lcm_core.operations.past import Statement
    from lcm_core.operations.snapshots import ComparedContext


# -- the head --------------------------------------------------------------------------------------------

#: A conversation and a point of its past.
Moment: TypeAlias = tuple[ConversationId, str]
#: What is not known of moments.
Unsure: TypeAlias = "dict[Moment, list[Statement]]"
#: The lines of a head, each in parts of which the first are the most telling.
HeadLines: TypeAlias = Sequence[Sequence[Line]]


def context_lines(
    left: Side, right: Side, diff: ContextDiff | None, zone: tzinfo | None, unsure: Unsure
) -> HeadLines:
    """Two contexts, and once they are compared how they differ, with times in a *zone*.

    *unsure*: what is not known of the moments of which not all is; the help says it whole.
    """
    lines = []
    for sign, side, other, one in (
        (Span("- ", "warn"), left, right, None if diff is None else diff.old),
        (Span("+ ", "ok"), right, left, None if diff is None else diff.new),
    ):
        first, *rest = _side(side, other, one, zone)
        lines.append([(sign, *first), *rest])
        if doubts := unsure.get((side.conversation_id, side.at)):
            said = [f"! {SHORT.get(doubts[0].doubt, doubts[0].text)}", f"{len(doubts) - 1:,} more"]
            lines.append([(Span(text, "warn"),) for text in said[: len(doubts)]])
    return lines if diff is None else [*lines, _difference(diff)]


def _side(side: Side, other: Side, one: SentContext | None, zone: tzinfo | None) -> list[Line]:
    """A side in parts, the most telling first: in what it differs from the *other* one, then its figures."""
    parts: list[Line] = []
    if side.conversation_id != other.conversation_id:
        parts.append((Span(f"conversation {side.conversation_id}"),))
    taken = None if one is None else one.taken
    if side.snapshot_id is not None:
        parts.append((Span(safe_line(side.snapshot_id if taken is None else taken.snapshot_id), "key"),))
    if side.when:
        parts.append((Span(side.when),))
    if side.prompt != other.prompt:
        said = f"“{clip(safe_line(side.prompt), 24)}”" if side.prompt else "no prompt"
        parts.append((Span(said, "match" if side.prompt else "text"),))
    if one is None:
        return [*parts, (Span(f"under {side.budget:,}"),)]
    of = f" of {one.budget:,}" if side.budget == other.budget else ""
    parts += [] if of else [(Span(f"under {one.budget:,}"),)]
    parts.append((Span(f"{counted(len(one.messages), 'message')}, {one.sent_tokens:,}{of} tokens"),))
    if taken is not None and (doubt := doubt_of(taken)):
        parts.append((Span(doubt, "warn"),))
    if not side.clamps:
        parts.append((Span("no hard limit", "warn"),))
    if one.evicted_items:
        parts.append((Span(f"{one.evicted_items:,} not sent", "dim"),))
    if taken is not None:
        time = format_local(parse_utc(taken.created_at), zone) or taken.created_at
        parts.append((Span(time[:16], "dim"),))
    return parts


def _difference(diff: ContextDiff) -> Sequence[Line]:
    return [
        (Span(f"messages: {len(diff.only_old):,} only in the first", "warn"),),
        (Span(f"{len(diff.only_new):,} only in the second", "ok"),),
        (Span(f"{len(diff.changed):,} changed"),),
        (Span(f"{diff.same:,} unchanged"),),
        (Span(f"lines -{diff.diff.removed:,} +{diff.diff.added:,}", "dim"),),
    ]


def doubt_of(taken: SnapshotOrigin) -> str:
    """Why what is shown of a snapshot is not quite what was sent; empty when it is."""
    lost = [
        f"{taken.gone:,} missing" if taken.gone else "",
        f"{taken.not_kept:,} not stored" if taken.not_kept else "",
    ]
    return ", ".join(filter(None, lost)) or ("" if taken.exact else "rows changed")


# -- what it reads ---------------------------------------------------------------------------------------


async def load_comparison(session: Session, left: Side, right: Side, unsure: Unsure) -> ContextDiff:
    """Assemble what is not assembled yet, and compare; *unsure* gets what is not known of a moment.

    Raises:
        NotFoundError: a conversation, a snapshot or an operation is gone.
        UsageError: what is compared cannot be compared.
    """
    from lcm_core.operations import snapshots
    from lcm_core.operations.assembly import settings_for

    engine = session.settings.engine
    one, other = [
        snapshots.ComparedContext(
            side.conversation_id,
            settings_for(engine, side.budget, side.prompt or None, clamp=side.clamps),
            assembled=side.assembled,
            snapshot_id=side.snapshot_id,
            budget_of_snapshot=side.budget_of_snapshot,
            engine=engine,
        )
        for side in (left, right)
    ]
    one, other = await _as_then(session, left, one, unsure), await _as_then(session, right, other, unsure)
    return await session.read(snapshots.read_comparison, one, other, session.engine_zone)


async def _as_then(session: Session, side: Side, wanted: ComparedContext, unsure: Unsure) -> ComparedContext:
    """A side at a point of the past, assembled; any other is left to be read."""
    if not side.at:
        return wanted
    from lcm_core.operations.past_point import parse_point
    from lcm_core.operations.snapshots import read_sides

    point = parse_point(side.at, UTC)
    assert point is not None
    then = PastSession(session, side.conversation_id, point)
    try:
        [assembled] = await then.read(read_sides, [wanted], session.engine_zone)
        found = then.past.found
        if found is not None and (doubts := [one for one in found.statements if not one.certain]):
            unsure[side.conversation_id, side.at] = doubts
    finally:
        await then.close()
    return replace(wanted, assembled=assembled)


# -- what is compared ------------------------------------------------------------------------------------
# Where both sides come from, and what the head says.


class Named(Protocol):
    """Lines of which each belongs to something that has a name."""

    def heading_at(self, line: int) -> str:
        """The name, as a heading."""


class Compared(Protocol):
    """Two texts and their difference."""

    @property
    def diff(self) -> Diff:
        """Of the lines."""

    @property
    def old_text(self) -> Named:
        """The first."""

    @property
    def new_text(self) -> Named:
        """The second."""


C = TypeVar("C", bound=Compared)


class Comparing(ABC, Generic[C]):
    """What is compared."""

    title: str
    waiting: str  #: what is said before the lines are there
    head_height: int = 3  #: lines

    @abstractmethod
    async def load(self, session: Session) -> C:
        """Read both sides as they are now, and compare them. Raises LcmError."""

    @abstractmethod
    def head_lines(self, data: C | None, zone: tzinfo | None) -> HeadLines:
        """Both sides, and once they are compared how they differ."""

    def unknown(self) -> Iterable[str]:
        """Sentences about what is not known of either side."""
        return ()

    @abstractmethod
    def id_of(self, heading: str) -> str | None:
        """The id of what a heading names."""


class Contexts(Comparing[ContextDiff]):
    """What two contexts send."""

    waiting = "Assembling …"

    def __init__(self, left: Side, right: Side) -> None:
        self.left, self.right = left, right
        self._unsure: Unsure = {}
        same = left.conversation_id == right.conversation_id
        which = f"conversation {left.conversation_id}"
        self.title = which if same else f"{left.conversation_id} with {right.conversation_id}"

    async def load(self, session: Session) -> ContextDiff:
        """Assemble what is not assembled yet, and compare."""
        return await load_comparison(session, self.left, self.right, self._unsure)

    def head_lines(self, data: ContextDiff | None, zone: tzinfo | None) -> HeadLines:
        """Both contexts, and the messages in which they differ."""
        return context_lines(self.left, self.right, data, zone, self._unsure)

    def unknown(self) -> Iterable[str]:
        """What is not known of the moments."""
        return (one.text for doubts in self._unsure.values() for one in doubts)

    def id_of(self, heading: str) -> str | None:
        """The message's."""
        return heading.partition(" · ")[2].partition(" ")[0] or None


# -- the screen ------------------------------------------------------------------------------------------

#: What a line that names a message begins with.
HEADING = "== "


def is_heading(text: str) -> bool:
    """Whether a line names a message."""
    return text.startswith(HEADING)


class CompareScreen(DataScreen[C]):
    """Two texts and their difference."""

    HELP = """
Two contexts as the model receives them, compared message by message and line by line: the first (-) against
the second (+).

Unchanged lines are folded; enter unfolds them. ▌ marks the lines of the change that the title counts.

A line that begins with == names a message; its text follows, blocks as JSON.

v or m shows both side by side; ~ marks changed lines, and the changed words are highlighted. [ and ] go to
the previous and the next change. / finds text.

A side is a context as it is now under a budget, reloaded when the database changes; or a snapshot that an
engine saved when it sent the context (asm_…). A snapshot stores numbers and references; its texts are read
from the database as it is now. "rows changed" and "missing" mean that what was sent differs from what is
shown. A line that begins with ! says what is not known of a moment of the past; all of it stands below.

From the messages of a conversation D compares it with the Codex session that it was held in: what was said,
called and returned, in the order of each. "elsewhere" counts rows that both have at different places. Lines
of Codex that hold nothing of the kind are counted by their type, and so are events that repeat a message.
"""

    def __init__(self, comparing: Comparing[C]) -> None:
        super().__init__()
        self.comparing = comparing
        self.head = Lines(self._head_lines, id="head", height=comparing.head_height)
        self.table = DiffView(empty=comparing.waiting, id="list", changes=False)
        self._finder = DiffFinder(self.table, as_typed=False)
        self._data: C | None = None

    def compose_body(self) -> ComposeResult:
        """The head and the lines."""
        yield self.head
        yield self.table

    def where(self) -> str:
        """What is compared."""
        return f"Compare  {self.comparing.title}"

    def explained(self) -> str:
        """What the help says above the keys, with what is not known of a side."""
        return "\n\n".join([super().explained(), *dict.fromkeys(self.comparing.unknown())])

    def main_widget(self) -> DiffView:
        """The lines."""
        return self.table

    def finder(self) -> Finder:
        """The search in the lines."""
        return self._finder

    def selected_id(self) -> str | None:
        """What is at the cursor, as its line names it."""
        held, data = self.table.line_held(), self._data
        if held is None or data is None:
            return None
        is_old, line = held
        return self.comparing.id_of((data.old_text if is_old else data.new_text).heading_at(line))

    # -- data ------------------------------------------------------------------------------------------------

    async def fetch(self) -> C:
        """Compare them as they are now."""
        return await self.comparing.load(self.session)

    def show(self, data: C) -> None:
        """Show it; lines that are as they were stay where they are."""
        before, self._data = self._data, data
        if before is None or (before.diff.old, before.diff.new) != (data.diff.old, data.diff.new):
            written = data.new_text
            self.table.show_diff(
                data.diff,
                Naming(lambda line: written.heading_at(line).removeprefix(HEADING), is_heading),
            )
        self.head.again()

    def _head_lines(self, width: int) -> Sequence[Line]:
        """As many parts of each line as have room; as many lines as there will be."""
        lines = [fitted(parts, width) for parts in self.comparing.head_lines(self._data, self.session.zone)]
        return [*lines, *[()] * (self.comparing.head_height - len(lines))]

    # -- changes ---------------------------------------------------------------------------------------------

    @on(LineView.Highlighted, "#list")
    @on(DiffView.Laid)
    def _say_which_change(self) -> None:
        self.table.line_held()
        at, laid = self.table.hunk, self.table.laid
        count = len(laid.hunks) if laid is not None else 0
        note = "" if laid is None else "no difference" if not count else counted(count, "change")
        self.title_bar.note = note if at is None or not count else f"change {at + 1:,} of {count:,}"
        self.refresh_bars()

    def _why_not_unfold(self) -> str | None:
        key = self.table.selected
        return "only folded lines can be opened" if key is None or not key.hidden else None

    def _why_no_change(self) -> str | None:
        if self.table.laid is None:
            return "nothing has been compared yet"
        return None if self.table.laid.hunks else "there are no differences"

    def _go(self, direction: int) -> None:
        if not self.table.go(direction):
            end = "last" if direction > 0 else "first"
            self.app.notify(f"That was the {end} change.", timeout=3)

    KEYS: ClassVar[Sequence[Key[CompareScreen[Any]]]] = (
        commands.OPEN.does(
            lambda s: s.table.unfold(), _why_not_unfold, title="Unfold", help="Unfold unchanged lines."
        ),
        commands.HUNK_PREVIOUS.does(lambda s: s._go(-1), _why_no_change),
        commands.HUNK_NEXT.does(lambda s: s._go(1), _why_no_change),
        layout_key(lambda s: s.table),
    )


# -- a Codex session -------------------------------------------------------------------------------------
# The conversation beside the Codex session that it was held in.


def _codex_difference(found: CodexDiff) -> Sequence[Line]:
    return [
        (Span(f"rows: {len(found.only_codex):,} only in Codex", "warn"),),
        (Span(f"{len(found.only_conversation):,} only in the conversation", "ok"),),
        (Span(f"{found.same:,} alike"),),
        (Span(f"{found.elsewhere:,} elsewhere"),),
        (Span(f"lines -{found.diff.removed:,} +{found.diff.added:,}", "dim"),),
    ]


class CodexSession(Comparing[CodexDiff]):
    """A Codex session and its conversation."""

    waiting = "Reading the Codex session …"
    head_height = 4  # what was left out, too

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self.title = f"Codex with conversation {conversation.conversation_id}"

    async def load(self, session: Session) -> CodexDiff:
        """Read the conversation, then, beside it, the file of Codex."""
        held = await session.read(read_held, self.conversation, session.settings)
        left = threading.Event()
        try:
            return await asyncio.to_thread(
                compare_with_codex, held, session.settings, os.environ, cancelled=left.is_set
            )
        finally:
            left.set()

    def head_lines(self, data: CodexDiff | None, zone: tzinfo | None) -> HeadLines:
        """Both sides, in how many rows they differ, and what was left out."""
        del zone
        first: list[Line] = [(Span("- ", "warn"), Span("Codex session"))]
        second: list[Line] = [(Span("+ ", "ok"), Span(f"conversation {self.conversation.conversation_id}"))]
        if data is None:
            return [first, second]
        first += [(Span(codex_rows(data)),), (Span(safe_line(data.rollout.path.name), "dim"),)]
        second.append((Span(counted(len(data.new_text.rows), "row")),))
        return [first, second, _codex_difference(data), [(Span(line, "dim"),) for line in remarks(data)]]

    def id_of(self, heading: str) -> str | None:
        """The line of the file, or the seq of the message."""
        return heading.partition(" · ")[2] or None


# -- previous contexts -----------------------------------------------------------------------------------
# The previous context of a summary as it was given, beside what a rewrite would be given now.


class GivenText(Record, frozen=True):
    """The summaries that are given, as lines under headings."""

    lines: tuple[str, ...]
    summaries: int
    tokens: int

    def heading_at(self, line: int) -> str:
        """The summary that a line belongs to."""
        above = (one for one in reversed(self.lines[: line + 1]) if one.startswith("== "))
        return next(above, "")


class GivenDiff(Record, frozen=True):
    """What was given, what a rewrite would be given, and their difference."""

    old_text: GivenText
    new_text: GivenText
    diff: Diff


class PreviousTexts(Comparing[GivenDiff]):
    """The two previous contexts of a summary."""

    waiting = "Reading the summaries …"

    def __init__(self, summary_id: SummaryId) -> None:
        self._summary_id = summary_id
        self.title = f"previous context of {safe_line(summary_id)}"

    async def load(self, session: Session) -> GivenDiff:
        """Read both as they are now."""
        old, new = await session.read(_read, self._summary_id)
        return GivenDiff(old, new, await asyncio.to_thread(compare_lines, old.lines, new.lines))

    def head_lines(self, data: GivenDiff | None, zone: tzinfo | None) -> HeadLines:
        """Both sides, and in how many lines they differ."""
        del zone
        first: list[Line] = [(Span("- ", "warn"), Span("as given (reconstructed)"))]
        second: list[Line] = [(Span("+ ", "ok"), Span("for a rewrite, now"))]
        if data is None:
            return [first, second]
        for line, text in ((first, data.old_text), (second, data.new_text)):
            said = f"{counted(text.summaries, 'summary')}, {text.tokens:,} tokens"
            line.append((Span(said if text.summaries else "nothing"),))
        said = f"lines -{data.diff.removed:,} +{data.diff.added:,}"
        return [first, second, [(Span(said if data.diff.hunks else "both are the same", "dim"),)]]

    def id_of(self, heading: str) -> str | None:
        """The summary's."""
        return heading.removeprefix("== ").partition(" ")[0] or None


async def _read(reader: Reader, summary_id: SummaryId) -> tuple[GivenText, GivenText]:
    """Both texts, with the summaries in them.

    Raises:
        NotFoundError: the summary is gone.
    """
    found = await previous_of(reader, summary_id)
    texts = {text.summary.summary_id: text for text in await texts_of(reader, found.summary_ids)}
    return _given(found.as_given, texts), _given(found.for_rewrite, texts)


def _given(choice: PreviousChoice, texts: dict[SummaryId, SummaryText]) -> GivenText:
    def lines() -> Iterator[str]:
        for node in choice.nodes:
            one = node.summary
            kind = depth_name(one.depth)
            yield f"== {one.summary_id} · {kind}, {one.tokens:,} tokens"
            text = texts.get(one.summary_id)
            yield from ("(no longer in the database)" if text is None else text.content).split("\n")

    return GivenText(tuple(lines()), len(choice.nodes), sum(node.summary.tokens for node in choice.nodes))
