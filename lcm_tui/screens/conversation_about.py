"""Beside the first list, where it is wide: how the selected conversation ended, and what is wrong with it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from lcm_core.base.errors import LcmError
from lcm_core.base.text import counted, preview
from lcm_core.base.times import format_local, parse_utc
from lcm_core.base.values import Record
from lcm_core.engine.content import PartKind
from lcm_core.engine.markers import BadKind
from lcm_core.store.conversations import ConversationEntry
from lcm_core.store.database import Reader
from lcm_core.store.messages import MessageEntry, newest_page
from lcm_core.store.remembered import Verdict
from lcm_core.store.summaries import broken_in
from lcm_host.checks import CHECKS

from lcm_tui.kit.spans import Block, Document, Span, StyleName, heading, role_style
from lcm_tui.kit.text import TextView
from lcm_tui.screens.conversation_list import ConversationList
from lcm_tui.screens.frame import CommandScreen
from lcm_tui.tables.conversation_rows import Row, troubles, words_of
from lcm_tui.tables.messages import parts_of

# -- what is read ----------------------------------------------------------------------------------------

#: A cursor that runs on reads nothing.
DETAIL_SECONDS: Final = 0.15
#: The newest messages among which the last exchange is looked for: mostly a few have it.
LOOKED_THROUGH: Final = (8, 60)
#: Characters of each message that are shown.
SHOWN: Final = 240


class About(Record, frozen=True):
    """What is read of a conversation, as it was when it was listed so."""

    entry: ConversationEntry
    exchange: tuple[MessageEntry, ...]  #: the last message of the user and that of the assistant, in order
    broken: int  #: how many of its summaries are, as the list counts them
    kinds: Sequence[tuple[BadKind, int]]  #: of these, the most frequent first


async def load_about(reader: Reader, entry: ConversationEntry, broken: int, known: About | None) -> About:
    """The last exchange; and why summaries are *broken*, for which all are read, unless it is *known*."""
    owner = entry.conversation.conversation_id
    exchange: list[MessageEntry] = []
    for limit in LOOKED_THROUGH:
        page = await newest_page(reader, owner, limit)
        last = {one.message.role: one for one in page.entries if text_of_message(one)}
        said = (last[role] for role in ("user", "assistant") if role in last)
        exchange = sorted(said, key=lambda one: one.message.seq)
        if len(exchange) == 2 or len(page.entries) < limit:
            break
    kinds: Sequence[tuple[BadKind, int]] = ()
    if known is not None and (known.entry.conversation.conversation_id, known.broken) == (owner, broken):
        kinds = known.kinds
    elif broken:
        kinds = Counter((await broken_in(reader, owner)).values()).most_common()
    return About(entry, tuple(exchange), broken, kinds)


def text_of_message(entry: MessageEntry) -> str:
    """How the text of a message begins, without tools and reasoning, in one line."""
    texts = (part.text for part in parts_of(entry) if part.kind is PartKind.TEXT)
    return preview(" ".join(texts)[: 4 * SHOWN])[:SHOWN]


# -- what is said ----------------------------------------------------------------------------------------


def about_document(
    row: Row, name: str, about: About | None, verdict: Verdict | None, screen: CommandScreen
) -> Document:
    """Everything about the selected row; *about* is None while it is being read."""
    if row.conversation is None:
        said = f"{screen.key_of('open')} shows its transcript, {screen.key_of('backfill')} imports it."
        return (Block(name, "title"), Block("This session is not in the database.", "warn"), Block(said))
    return (
        Block(name, "title"),
        Block(),
        *_exchange(about, screen),
        Block(),
        *_wrong(row, about, verdict),
        Block(),
        *_presses(row, screen),
    )


def _exchange(about: About | None, screen: CommandScreen) -> Iterator[Block]:
    yield heading("Last exchange")
    if about is None:
        yield Block("reading …", "dim")
    elif not about.exchange:
        yield Block("nothing that a user or the assistant wrote lately", "dim")
    for entry in () if about is None else about.exchange:
        message, moment = entry.message, parse_utc(entry.message.created_at)
        said_at = message.created_at if moment is None else format_local(moment, screen.session.zone)[:16]
        yield Block(spans=(Span(message.role, role_style(message.role)), Span(f"  {said_at}", "dim")))
        text = text_of_message(entry)
        yield Block(f"{text} …" if len(text) == SHOWN else text, indent=2)


def _wrong(row: Row, about: About | None, verdict: Verdict | None) -> Iterator[Block]:
    """The troubles, those with more to say of them in a line each."""
    yield heading("What is wrong")
    found = list(_findings(row, verdict))
    broken = 0 if row.sums is None else row.sums.broken
    if broken:
        kinds = "" if about is None else ", ".join(f"{count:,} {kind}" for kind, count in about.kinds)
        yield _named("✗", "error", counted(broken, "broken summary") + (f": {kinds}" if kinds else ""))
    yield from found
    for words in words_of(troubles(row)):
        if not words.endswith((" broken", " finding", " findings", " suspicious")):
            yield _named("!", "warn", words)
    if verdict is None or (row.sums is None and not row.unreadable):
        yield Block("checking …", "dim")
    elif not words_of(troubles(row)):
        yield Block("nothing that the quick check or the counts show", "ok")


#: Of a finding that is suspicious, and of what is broken.
SIGNS_OF: Final[tuple[tuple[str, StyleName], ...]] = (("?", "warn"), ("✗", "error"))


def _findings(row: Row, verdict: Verdict | None) -> Iterator[Block]:
    assert row.conversation is not None
    for owner, check, broken, suspicious in () if verdict is None else verdict.named:
        if owner == row.conversation.conversation_id:
            title = CHECKS[check].title if check in CHECKS else ""
            times = f" ×{broken + suspicious:,}" if broken + suspicious > 1 else ""
            sign, style = SIGNS_OF[broken > 0]
            yield _named(sign, style, f"{check} {title}{times}")


def _named(sign: str, style: StyleName, words: str) -> Block:
    return Block(spans=(Span(f"{sign} ", style), Span(words)), indent=2)


def _presses(row: Row, screen: CommandScreen) -> Iterator[Block]:
    """The keys that do something about it, then those that show it."""
    broken = row.sums is not None and row.sums.broken
    crowded = any(words.startswith("context ") for words in words_of(troubles(row)))
    yield heading("What to press")
    for said, command, words in (
        (broken or row.stale, "repair", f"rewrites the {'broken' if broken else 'stale'} summaries"),
        (row.findings or row.suspicious, "health", "shows the findings and fixes them"),
        (row.newer, "backfill", "imports what the host has newer"),
        (row.stuck, "engine", "shows the work of the engine that waits"),
        (crowded, "compact", "compacts the context"),
        (True, "open", "reads the conversation"),
        (True, "context", "shows what the model sees"),
        (True, "summaries", "shows its summaries"),
    ):
        if said:
            yield Block(spans=(Span(f"{screen.key_of(command):<6}", "key"), Span(words)), indent=6)


# -- the pane --------------------------------------------------------------------------------------------


class AboutPane:
    """Keeps a text about what is selected in the list."""

    def __init__(self, screen: CommandScreen, listed: ConversationList, text: TextView) -> None:
        self._screen = screen
        self._list = listed
        self._text = text
        self._about: About | None = None
        self._verdict: Verdict | None = None
        self._asked: tuple[ConversationEntry, int] | None = None  #: what was read last, or is being read
        self._asked_at = 0.0  #: monotonic

    def follow(self, verdict: Verdict | None) -> None:
        """Say what is known of the selected row, once that is read; what takes long is read behind it."""
        self._verdict = verdict
        row = self._list.selected
        if row is None or not self._text.display:
            return
        broken = 0 if row.sums is None else row.sums.broken
        if row.entry is not None and (row.entry, broken) != self._asked:
            now = time.monotonic()
            runs_on = now - self._asked_at < DETAIL_SECONDS
            self._asked, self._asked_at = (row.entry, broken), now
            self._screen.work_on("about", self._read, row.entry, broken, DETAIL_SECONDS if runs_on else 0.0)
            if not broken:
                return
        self._show(row)

    def _show(self, row: Row) -> None:
        key, about = self._list.table.selected, self._about
        known = about if about is not None and about.entry == row.entry else None
        name = "" if key is None else self._list.names.get(key, "")
        self._text.show(about_document(row, name, known, self._verdict, self._screen), keep_place=True)

    async def _read(self, entry: ConversationEntry, broken: int, rest: float) -> None:
        await asyncio.sleep(rest)
        try:
            self._about = await self._screen.session.read(load_about, entry, broken, self._about)
        except LcmError:
            self._show_if_selected(entry)
            raise
        self._show_if_selected(entry)

    def _show_if_selected(self, entry: ConversationEntry) -> None:
        if (row := self._list.selected) is not None and row.entry == entry:
            self._show(row)
