"""The context of a conversation: what the model sees, in order, and how much of the budget it takes."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, tzinfo
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from lcm_core.base.errors import UsageError
from lcm_core.base.files import FileNotWrittenError, write_private
from lcm_core.base.records import Conversation, ConversationId, ItemId, SummaryId
from lcm_core.base.text import counted, parse_budget, step
from lcm_core.base.times import format_zoned
from lcm_core.base.values import replace
from lcm_core.engine.sent import ItemOutcome, Ledger, MessageKey, ledger_of, markdown, request_text
from lcm_core.operations.past_point import parse_point
from lcm_core.store.context_view import (
    TAIL,
    ContextView,
    Distance,
    Group,
    RowKey,
    distance_of,
    stands_for_item,
)
from lcm_core.store.opening import database_files
from textual import on
from textual.app import ComposeResult
from textual.worker import Worker

from lcm_tui.kit import commands, places
from lcm_tui.kit.bars import Heading
from lcm_tui.kit.commands import Key
from lcm_tui.kit.dialogs import WholeScreen
from lcm_tui.kit.drawn import Lines
from lcm_tui.kit.lines import LineView
from lcm_tui.kit.listing import Finder, Marks
from lcm_tui.kit.panes import LOW, Aside
from lcm_tui.kit.pick import Pick
from lcm_tui.kit.places import Side
from lcm_tui.kit.spans import Document, Layout, Line, text_of
from lcm_tui.screens import actions, exporting, picks
from lcm_tui.screens.context_items import ACCOUNT, ItemList, SentList
from lcm_tui.screens.frame import CommandScreen
from lcm_tui.screens.picks import NO_PROMPT, NOW, OPENED
from lcm_tui.screens.reading import RELOAD_SECONDS, DataScreen, Series, rest_after
from lcm_tui.tables.blocks import budget_problem
from lcm_tui.tables.context import columns, fate_at
from lcm_tui.tables.items import SHOWN, between_document, cut, item_document, load_item
from lcm_tui.tables.messages import below_home
from lcm_tui.tables.sent import (
    FRESH_TAIL,
    SUMMARIES,
    ContextHead,
    head_lines,
    sent_columns,
    under_budget,
)

if TYPE_CHECKING:
    from lcm_core.engine.assembly import AssemblySettings
    from lcm_core.operations.assembly import AssemblyBasis


# -- the assembly ----------------------------------------------------------------------------------------
# Made behind the list: again when the file changes, or what decides it.

#: The list comes first: so long after it the assembly begins.
OPENING_SECONDS: Final = 0.05
#: Where no item looks otherwise, a text behind one may still be another: it is looked for so much later.
LATER_SECONDS: Final = 3.0


class Assembly:
    """What the model gets of a conversation under a budget, by a prompt, with the hard limit.

    What the operator sets here is a what-if of this screen: no other screen goes by it.
    """

    def __init__(
        self,
        screen: CommandScreen,
        conversation: Conversation,
        made: Callable[[Ledger], None],
        changed: Callable[[], None],
    ) -> None:
        """*made* gets each assembly; *changed* is called when something else is to be said of it."""
        self.what_if: int | None = (
            None  #: the budget that the operator asks about, in tokens; None: as configured
        )
        self.prompt = ""  #: what the user asks, as the operator typed it; empty: nothing
        self.clamps = True  #: with the engine's hard limit
        self.problem: str | None = None  #: why nothing could be assembled
        self.ledger: Ledger | None = None
        self.first: Ledger | None = None  #: as it was when the screen was opened
        self.changes = 0  #: how often the file may have changed
        self.read_at = -1  #: the value of `changes` before the basis was read
        self._desk = screen
        self._conversation_id = conversation.conversation_id
        self._session_key = conversation.session_key
        self._made = made
        self._changed = changed
        self._basis: AssemblyBasis | None = None
        self._made_for: AssemblySettings | None = None  #: what `ledger` was assembled for
        self._assembler: Worker[None] | None = None
        self.rests_until = 0.0  #: monotonic
        self._pause = RELOAD_SECONDS
        self._waits = False  #: for a while, as no item looks otherwise
        self._tried = asyncio.Event()  #: it was assembled once, or could not be

    async def ready(self) -> Ledger | None:
        """It as it was when the screen was opened, as soon as it is made; None: it cannot be made."""
        await self._tried.wait()
        return self.first

    @property
    def working(self) -> bool:
        """Whether what is shown is about to be replaced."""
        return self._assembler is not None and not self._assembler.is_finished

    @property
    def outdated(self) -> bool:
        """Whether what is shown is of other settings than those that are asked for."""
        return self.working and not self._is_current()

    @property
    def asked(self) -> int:
        """The budget that is asked for, in tokens."""
        return self._desk.session.budget if self.what_if is None else self.what_if

    @property
    def budget(self) -> int:
        """The tokens that the engine would take: what is asked for, under the cap that is configured."""
        cap = self._desk.session.settings.engine.max_assembly_token_budget.value
        return self.asked if cap is None else min(self.asked, cap)

    @property
    def what_if_text(self) -> str:
        """What is otherwise than configured; empty: nothing is."""
        otherwise = [] if self.asked == self._desk.session.budget else [f"budget {self.asked:,}"]
        otherwise += ["a prompt"] if self.prompt else []
        otherwise += [] if self.clamps else ["no hard limit"]
        return f"what if: {', '.join(otherwise)}" if otherwise else ""

    def why_none(self) -> str | None:
        """Why nothing can be done with it; what is still being assembled is waited for."""
        return self.problem if self.ledger is None else None

    def file_changed(self, *, items: bool) -> None:
        """The file was read: assemble it, unless that is under way; *items*: one looks otherwise."""
        self.changes += 1
        self._pause = RELOAD_SECONDS if items else LATER_SECONDS
        if not self.working or (items and self._waits):
            self._assembler = self._desk.work_on(
                "assembly", self._assemble, OPENING_SECONDS if items else LATER_SECONDS
            )

    def settings_changed(self) -> None:
        """The budget, the prompt or the clamp has changed: assemble at once; what runs is for another one."""
        self._assembler = self._desk.work_on("assembly", self._assemble, 0.0)
        self._changed()

    def _settings(self) -> AssemblySettings:
        from lcm_core.engine.sessions import settings_for_session
        from lcm_core.operations.assembly import settings_for

        session = self._desk.session
        engine = settings_for_session(session.settings.engine, self._session_key)
        return settings_for(engine, self.asked, self.prompt or None, clamp=self.clamps)

    async def _assemble(self, pause: float) -> None:
        """Assemble until what is shown is of this budget and of the file as it is."""
        try:
            await self._sleep(pause)
            while True:
                if self._is_current():  # only the file has changed: keys come first
                    await self._desk.calm()
                began, again = time.process_time(), self.ledger is not None
                await self._assemble_once()
                rest = rest_after(time.process_time() - began) if again else 0.0
                self.rests_until = time.monotonic() + rest
                if self.read_at == self.changes and self._is_current():
                    break
                await self._sleep(max(self._pause, rest))
        except Exception as error:
            self.problem = str(error)
            self._tried.set()
            self._changed()
            raise
        finally:
            self._desk.call_later(self._changed)

    async def _sleep(self, seconds: float) -> None:
        self._waits = seconds >= LATER_SECONDS
        await asyncio.sleep(seconds)
        self._waits = False

    def _is_current(self) -> bool:
        return self.ledger is not None and self._made_for == self._settings()

    async def _assemble_once(self) -> None:
        from lcm_core.operations.assembly import assembly_basis

        settings, basis = self._settings(), self._basis
        if (
            basis is None
            or not basis.serves(settings)
            or (self.read_at != self.changes and self._is_current())
        ):
            changes, session = self.changes, self._desk.session
            read = await session.read(
                assembly_basis, self._conversation_id, settings, zone=session.engine_zone, known=basis
            )
            self._basis, self.read_at = read, changes
            if read == basis and settings == self._made_for and self.problem is None:
                return  # what was written is of another conversation
            basis = read
        assembled = await asyncio.to_thread(basis.assembled, settings)
        if settings.prompt is not None:
            from lcm_recall.cue import with_cue

            now = datetime.now(UTC)
            assembled = await self._desk.session.read(
                with_cue, self._conversation_id, assembled, settings.prompt, basis.rules, now
            )
        ledger = await asyncio.to_thread(ledger_of, assembled)
        if self._desk.is_attached:
            self.ledger, self.problem, self._made_for = ledger, None, settings
            self.first = self.first or ledger
            self._tried.set()
            self._made(ledger)


# -- export and compare ----------------------------------------------------------------------------------
# A context written to a file, compared with another one or an earlier one.

_OTHER: Final = re.compile(r"#([0-9]{1,15})")
#: How the id of a snapshot begins.
SNAPSHOT: Final = "asm_"


async def export(screen: CommandScreen, conversation_id: ConversationId, assembly: Assembly) -> None:
    """Write what is sent to a file."""
    database = screen.session.database.path

    async def write(name: str, replace: bool) -> str:
        await assembly.ready()
        if assembly.ledger is None:
            raise FileNotWrittenError("The context cannot be assembled: nothing was written.")
        return await asyncio.to_thread(
            _export, name, assembly.ledger, conversation_id, database, replace=replace
        )

    offered = f"context-{conversation_id}-{assembly.budget}.json"
    label = f"to a file; enter: {exporting.in_this_folder(offered)} (for an API call); or .md"
    await exporting.export(screen, label, offered, write)


async def compare(screen: CommandScreen, conversation: Conversation, assembly: Assembly) -> None:
    """Compare what is sent with something else."""
    then, zone, number = screen.then, screen.session.zone, conversation.conversation_id
    at = "" if then is None else then.past.point.text
    found = None if then is None else then.past.found
    when = at or NOW
    if found is not None:
        from lcm_tui.tables.past import moment_text

        when = moment_text(found, zone).removeprefix("as it was ")
    here = Side(number, assembly.asked, when, prompt=assembly.prompt, clamps=assembly.clamps, at=at)
    called: dict[str, str] = {}  # the moments, in words

    async def known() -> Sequence[Pick]:
        found = await picks.comparisons(screen.session, conversation, here)
        called.update({one.text: one.title for one in found})
        return found

    def check(text: str) -> None:
        if text.strip().casefold() not in ("", OPENED):  # which is known when the context is assembled
            comparison(text.strip(), here, None, zone)

    wanted = await screen.ask("compare with: 64k, #3, asm_…, op_…, a time", check=check, picks=known)
    if wanted and wanted.strip() and (first := await assembly.ready()) is not None:
        screen.open(comparison(wanted.strip(), here, first, zone, called.get(wanted.strip(), "")))


def comparison(
    wanted: str, here: Side, first: Ledger | None, zone: tzinfo | None, called: str = ""
) -> places.Comparison:
    """What is compared with what when *wanted* is typed on a context.

    *first*: its assembly as it was when the screen was opened; None: nobody asks for that. *called*: a moment
    in words.

    Raises:
        UsageError: nothing can be compared with that.
    """
    number, budget = here.conversation_id, here.budget
    if wanted.casefold() == OPENED and first is not None:
        from lcm_core.engine.sent import sent_now

        opened = sent_now(first.assembled)
        return places.Comparison(Side(number, first.assembled.budget, OPENED, opened), here)
    if wanted.casefold() == NOW and here.at:
        return places.Comparison(here, here._replace(when=NOW, at=""))
    if (point := parse_point(wanted, zone)) is not None and point.text != here.at:
        time = f"at {format_zoned(point.when, zone)}" if point.when is not None else point.text
        return places.Comparison(here._replace(when=called or time, at=point.text), here)
    if wanted.casefold() == NO_PROMPT and here.prompt:
        return places.Comparison(here._replace(when="", prompt=""), here)
    if wanted.startswith(SNAPSHOT):
        return places.Comparison(Side(number, budget, snapshot_id=wanted), here)
    other = number
    for word in wanted.split():
        match, parsed = _OTHER.fullmatch(word), parse_budget(word)
        if match is not None:
            other = ConversationId(int(match[1]))
        elif parsed is not None:
            budget = parsed
        else:
            raise UsageError(
                f"“{word}” was not understood. Use a budget (64k), a conversation (#3), a snapshot "
                f"(asm_…), a point of the past (op_… or a time), “{NOW}” or “{OPENED}”."
            )
    if (other, budget) == (number, here.budget):
        raise UsageError("That is this context itself: choose another budget or conversation.")
    return places.Comparison(here, here._replace(conversation_id=other, budget=budget, when=""))


def _export(
    name: str, ledger: Ledger, conversation_id: ConversationId, database: Path, *, replace: bool
) -> str:
    """Write the file; the sentence that says what was written where."""
    to_read = Path(name).suffix.lower() in exporting.MARKDOWN
    title = f"Conversation {conversation_id}, as the model sees it"
    text = markdown(ledger.assembled, title) if to_read else request_text(ledger.assembled)
    written = write_private(Path(name).expanduser(), text, replace=replace, never=database_files(database))
    form = "Markdown" if to_read else "JSON for an API call"
    count = counted(len(ledger.assembled.messages), "message")
    return f"{count} as {form}, readable only by you: {below_home(written)}"


# -- the screen ------------------------------------------------------------------------------------------

#: While keys come faster, the text of a row waits until the cursor rests so long.
DEBOUNCE_SECONDS: Final = 0.1


class ContextScreen(DataScreen[ContextView]):
    """What the model sees of one conversation."""

    HELP = """
What the model sees of this conversation, in order: summaries (L made from messages, D1 D2 D3 condensed), then
raw messages.

The head says what the model is sent, with its share of the budget; below that what the engine stores.

How far the next compaction is goes by stored tokens. A click on a part leads to its first item. Below the
head is what is wrong, left out or adjusted.

"ordinal" is the engine's number of the item, from 0 on; the title counts from 1. "stored" are the engine's
counts, "sent" is what the item costs as sent under the budget. Items the model does not receive are dimmed,
marked -, and "sent" names why: missing (the database lacks it), in brief (a focus brief replaces it), cut:
budget, cut: prompt, cut: limit (the engine's hard limit), empty (no text is left to send), unpaired (a tool
call or its result without the other). The line above the list says why the selected item is dropped; its text
and its own screen say so too. ~ marks a message adjusted for the provider, * one kept for the prompt. "total"
is the running total of stored tokens. 202 ≠ ~187 in "stored": the stored count matches neither of the
engine's two counting rules.

The budget never drops the fresh tail. With a token limit other items may be "always sent". "in no summary"
counts messages that are left out and that no summary which is sent covers: the model sees them in no form.
"pastes as a note" are users' messages of which a file holds what was pasted, and only a note of it is sent. +
and - change the budget, B sets it, and everything is recalculated: a what-if of this screen, named in its
title; other screens go by the configured budget.

Q sets a user message to test eviction with: an engine with prompt-aware eviction keeps the items that match
it best instead of the newest. % turns the hard limit off: whole messages as JSON are larger than the
assembler counts, and when they exceed the budget (90 % of it by the rules of 1.0 and later) the engine drops
messages before the host gets them: the oldest, down to 90 % of the budget; then tool results that come first,
and answers that come last. By the rules of 1.1 a tool call and its results stay or go together. So the newest
message may be dropped too. The hard limit is on, as in the engine, until you turn it off.

m shows the messages as the model receives them: roles, XML, blocks; + marks a synthetic message. The first
line is the whole request: metadata, steps, adjustments, the system prompt's addition. o writes the request to
a file: JSON for an API call, or Markdown. D compares this context with another budget, another conversation,
itself without the prompt or as it was when opened, or a snapshot; @ lists the snapshots that an engine saved.

Lines between items mark missing ordinals (a host may prune on purpose), the start of the fresh tail (the
newest messages, which compaction does not touch), and where the engine sends a focus brief instead of the
summaries marked ┆. ✗ marks a broken summary ("fallback" and the like: R repairs it), or a damaged item: its
row is missing (the engine skips it), it appears twice, it belongs to another conversation, or its ordinal or
type is invalid. "stale": one of its sources was rewritten since.

d previews dissolving a condensed summary: its sources take its place. space marks summaries (●), and d then
dissolves all of them. u previews undoing the newest change, U lists all.

[ and ] step through the changes of this conversation and the engine's compactions: the context as it was
before each, and at last as it is now. J lists these moments, and takes a time. The lines under the title name
the moment, and what is not known of it. The past is read-only; D compares it with now.

enter opens an item or a message, and explains a line between items; L, and enter in a text, list the messages
that each line of a summary comes from, or the summaries that tell of a message. / finds ids, kinds and
previews; in the messages as sent it finds text.
"""

    def __init__(self, conversation: Conversation, *, select: tuple[str, ...] | None = None) -> None:
        """The context of *conversation*, standing on ``("summary", id)`` or ``("message", id)``."""
        super().__init__()
        self.conversation = conversation
        self.marks = Marks[SummaryId](self._marked)
        self.steps = actions.Steps(self, conversation)
        self.assembly = Assembly(self, conversation, self._show_assembly, lambda: self.head.again())
        self.items = ItemList(self, conversation, self.marks, lambda: self.assembly.asked)
        self.items.stand_on(select)
        self.head = Lines(self._head_lines, id="head", height=2, clicked=self._clicked_head)
        self._counted = ContextHead(0)  #: what the head says without an assembly
        self.sent = SentList(self.marks)
        self.sent.display = False
        self._heading = Heading(self._columns, id="heading")
        self._aside = Aside(self._heading, self.items, self.sent, show_text=self._show_text)
        self.text = self._aside.text  #: what is selected; not shown on a narrow screen
        self._as_sent = False  #: the messages stand in place of the items
        self._shown: tuple[object, bool] | None = None
        self._moved_at = 0.0  #: when the cursor moved last, monotonic
        self._hurries = False  #: it moves from row to row

    # -- layout ------------------------------------------------------------------------------------------

    def compose_body(self) -> ComposeResult:
        """The head, the items or the messages, and the text of what is selected."""
        yield self.head
        yield self._aside

    def where(self) -> str:
        """Whose context."""
        return f"Context {self.session.called(self.conversation)}"

    def _is_leaf(self, summary_id: SummaryId) -> bool | None:
        entry = self.items.entries.get(summary_id)
        return None if entry is None else entry.kind == "leaf"

    def main_widget(self) -> LineView[RowKey]:
        """The list of items, or of messages: their keys look alike."""
        return self._list

    def _clicked_head(self, line: Line, cell: int) -> None:
        """Stand on the first item of the part whose name was clicked, or the figure behind it."""
        totals = self._counted.totals
        if self._as_sent or totals is None or not totals.groups or line is not self.head.lines[1]:
            return
        parts: list[tuple[str, Group | None]]
        parts = [(f"{group.name} ", group) for group in reversed(totals.groups)]  # the first of a name counts
        parts += [(SUMMARIES, totals.groups[0]), (FRESH_TAIL, None)]
        said = text_of(line)
        starts = {said.find(name): group for name, group in parts}
        at = max((start for start in starts if 0 <= start <= cell), default=None)
        if at is None:
            return
        self.items.focus()
        if (group := starts[at]) is None:
            self.items.select_ordinal(self.items.view.tail.first_ordinal)
        else:
            self.items.select_group(group)

    def finder(self) -> Finder:
        """The search in the list that is shown."""
        return self._list.finder

    @property
    def _list(self) -> ItemList | SentList:
        return self.sent if self._as_sent else self.items

    def _columns(self, width: int) -> Layout:
        return sent_columns(width) if self._as_sent else columns(width, self.items.id_cells)

    # -- data --------------------------------------------------------------------------------------------

    async def fetch(self) -> ContextView:
        """The whole context; under a host that writes without a pause, a part of the time."""
        await asyncio.sleep(self.assembly.rests_until - time.monotonic())
        return await self.items.fetch()

    def show(self, data: ContextView) -> None:
        """Show the items, then assemble them."""
        changed = self.items.show(data, arrived=not self.moving)
        self._show_counted()
        self.assembly.file_changed(items=changed)

    def stand_on(self, ref: str | int) -> None:
        """Stand on a summary or a message once it has been read."""
        self.items.stand_on(("summary", ref) if isinstance(ref, str) else ("message", str(ref)))
        self.load()

    @on(LineView.Scrolled, "#list")
    def _scrolled(self) -> None:
        self.items.check_counts()

    def _show_counted(self) -> None:
        """The budget or the items are others: how far the next compaction is follows from them."""
        self._show_text()
        self._counted = self.items.head()
        self.head.again()

    def _show_assembly(self, ledger: Ledger) -> None:
        """Show an assembly in place of the one before."""
        self.head.again()
        self.items.show_fates(ledger)
        self.sent.show_sent(ledger)
        self._show_text()
        self.refresh_bars()

    def step_back(self) -> bool:
        """Out of a text or a filter, the past, the messages as sent, another budget; then off the screen."""
        if super().step_back() or self.steps.back():
            return True
        if self._as_sent:
            self._turn_as_sent()
        elif self.assembly.what_if is not None:
            self._set_budget(None)
        else:
            return False
        return True

    def back_title(self) -> str:
        """What `esc` does if it does not leave the screen; empty: its usual name."""
        if self.steps.leads_back:
            return "Present"
        first = self.items.has_focus and not self._as_sent and not self.finder().needle
        return "As configured" if first and self.assembly.what_if is not None else ""

    def _set_budget(self, budget: int | None) -> None:
        self.assembly.what_if = budget
        self._settings_changed()

    async def _ask_budget(self) -> None:
        label = "What if the budget were, in tokens, e.g. 64k"
        known = partial(picks.budgets, self.session, self.conversation, asked=self.assembly.asked)
        text = await self.ask(label, check=budget_problem, picks=known)
        if text is not None:
            self._set_budget(parse_budget(text) if text.strip() else None)

    async def _ask_prompt(self) -> None:
        label = "User message to test eviction with (empty: none)"
        text = await self.ask(label, self.assembly.prompt)
        if text is not None and text.strip() != self.assembly.prompt:
            self.assembly.prompt = text.strip()
            self._settings_changed()

    def _turn_clamp(self) -> None:
        self.assembly.clamps = not self.assembly.clamps
        self._settings_changed()

    def _why_no_clamp(self) -> str | None:
        rules = self.session.rules
        cuts = rules.assembly.clamp is not None
        return None if cuts else f"an engine with these rules ({rules.name}) has no hard limit"

    def _settings_changed(self) -> None:
        """The budget, the prompt or the hard limit is another one."""
        self._say_note()
        self._show_counted()
        if self.items.was_read:
            self.assembly.settings_changed()

    def on_resize(self) -> None:
        """A low terminal has a shorter head."""
        self.head.again()

    def _head_lines(self, width: int) -> Sequence[Line]:
        one, (ordinal, fate) = self.assembly, self._fate()
        head = replace(
            self._counted,
            ledger=one.ledger,
            distance=self.distance,
            prompt=one.prompt,
            clamps=one.clamps,
            problem=one.problem,
            working=one.outdated,
            ordinal=ordinal,
            fate=fate,
        )
        return list(head_lines(head, width, plain=self.app.no_color, low=self.app.size.height < LOW))

    def _fate(self) -> tuple[int | None, ItemOutcome | None]:
        """The ordinal of the selected item and what becomes of it; None: no item is selected."""
        view, place = self.items.view, None if self._as_sent else self.items.place
        if place is None:
            return None, None
        return view.items.ordinals[place], fate_at(view, place, self.assembly.ledger)

    @property
    def distance(self) -> Distance | None:
        """How far the next compaction is; None while the context is being read."""
        totals = self.items.totals
        if totals is None:
            return None
        return distance_of(
            totals, self.session.rules_for(self.conversation.session_key).compaction, self.assembly.budget
        )

    # -- the text ----------------------------------------------------------------------------------------

    @on(LineView.Highlighted, "#list")
    @on(LineView.Highlighted, "#sent")
    def _highlighted(self) -> None:
        now = time.monotonic()
        self._hurries, self._moved_at = now - self._moved_at < DEBOUNCE_SECONDS, now
        self._show_text()
        self.head.again()

    def _show_text(self) -> None:
        """Show what is selected beside the list, where it has room; what stands there stays until then."""
        if not self.text.display:
            return
        if self._as_sent:
            if (document := self.sent.document(self.distance)) is not None:
                self._show_document(self.sent.selected, cut(document, SHOWN))
            return
        key = self.items.selected
        if key is not None and stands_for_item(key):
            self.work_on("text", self._load_text, key)
        elif key is not None:
            self._show_document(key, between_document(self.items.view, key))

    async def _load_text(self, key: RowKey) -> None:
        items = self.items
        if self._shown != (key, False) and self._hurries:
            await asyncio.sleep(DEBOUNCE_SECONDS)
        place = items.place_of(key)
        if place is None:
            return
        data = await self.session.read(load_item, items.view.items.refs[place])
        place = items.place_of(key)
        if place is not None and items.selected == key and not self._as_sent:
            document = item_document(items.view, place, data, self.session, self.assembly.ledger)
            await self.text.load(document, keep_place=(key, False) == self._shown)
            self._shown = (key, False)

    def _show_document(self, key: object, document: Document) -> None:
        self.workers.cancel_group(self, "text")  # what is being read is of another row
        shown = (key, self._as_sent)
        self.text.show(document, keep_place=shown == self._shown)
        self._shown = shown

    # -- what is selected --------------------------------------------------------------------------------

    def item(self) -> ItemId:
        """The item under the cursor; None on a line between items, and on what was made up."""
        return self._list.item

    def seq(self) -> int | None:
        """The seq of the message under the cursor; on the border of the fresh tail, of the first in it."""
        entry, view = self.items.entries.get(self.item()), self.items.view
        if self._list.selected == TAIL:
            entry = view.entries[view.places[self.items.cursor]]
        return None if entry is None else entry.seq

    def summary_id(self) -> SummaryId | None:
        """The summary under the cursor."""
        item = self.item()
        return SummaryId(item) if isinstance(item, str) else None

    def selected_id(self) -> str | None:
        """The summary's or message's id, or the brief's."""
        key = self._list.selected
        if key is not None and key[0] in ("brief", "focus brief"):
            return str(key[1])
        item = self.item()
        return None if item is None else str(item)

    # -- commands ----------------------------------------------------------------------------------------

    def _turn_as_sent(self) -> None:
        """Switch between the items and the messages as they are sent, staying at the same place."""
        before = self._list
        ordinal = before.ordinal
        self._as_sent = not self._as_sent
        self.items.display, self.sent.display = not self._as_sent, self._as_sent
        self._list.finder.needle = before.finder.needle
        self._list.select_ordinal(ordinal)
        self._list.redraw()
        self._list.focus()
        self.call_after_refresh(self._begin_at_top)
        self._heading.refresh()
        self._show_text()
        self.refresh_bars()

    def _begin_at_top(self) -> None:
        """Show the lines above the first ones too, where the selected one stays in sight."""
        if self._list.cursor < self._list.size.height:
            self._list.scroll_home(animate=False, immediate=True, force=True)

    def _go_to_wrong(self) -> None:
        self.work_on("search", self.items.select_wrong, exclusive=False)

    def _why_none_wrong(self) -> str | None:
        where = f"the stored items have it: {self.key_of('other-view')}"
        return where if self._as_sent else self.items.why_none_wrong()

    def _why_unread(self) -> str | None:
        return None if self.items.was_read else "still loading: try again in a moment"

    def _why_not_open(self) -> str | None:
        selected = self._as_sent or self.items.selected is not None
        return None if selected else self._why_unread() or "no item is selected"

    def _open_selected(self) -> None:
        """Show the item or message whole; of a brief, all briefs; what another line between items means."""
        sent, key = self.sent.selected, self.items.selected
        if self.text.has_focus and self.item() is not None:
            actions.open_trace(self, self.item(), self.text.line)
        elif self._as_sent:
            if sent is not None and (place := self._sent_place(sent)) is not None:
                self.open(place, Series("message", lambda: self.sent, self._sent_place))
        elif key is not None and (place := self._item_place(key)) is not None:
            self.open(place, Series("item", lambda: self.items, self._item_place))
        elif key is not None and self.selected_id() is not None:
            self.open(places.Briefs(self.conversation))
        elif key is not None:
            self.app.push_screen(WholeScreen(between_document(self.items.view, key)))

    def _sent_place(self, key: MessageKey) -> places.Place | None:
        """A message as it is sent, or the account of all."""
        document = self.sent.document(self.distance, key)
        if document is None:
            return None
        item = self.sent.item_of(key)
        entry = self.items.entries.get(item)
        name = "whole request" if key == ACCOUNT else "synthetic message"
        note = f"as sent under {self.assembly.asked:,} tokens"
        seq = None if entry is None else entry.seq
        return places.Sent(self.conversation, name, document, item, seq, note)

    def _item_place(self, key: RowKey) -> places.Place | None:
        """An item, and what becomes of it; not a line between items."""
        place = self.items.place_of(key) if stands_for_item(key) else None
        if place is None:
            return None
        view, ledger = self.items.view, self.assembly.ledger
        fate = under_budget(fate_at(view, place, ledger), ledger)
        return places.Item(self.conversation, view.items.refs[place], fate=fate)

    def why_not_dissolved(self, summary_id: SummaryId, *, below: bool) -> str | None:
        """What has been read of it: a leaf, or standing twice."""
        entry = self.items.entries.get(summary_id)
        standing = self.items.view.items.repeated.get(summary_id, (0,))
        return actions.why_not_dissolved(entry.kind == "leaf" if entry else None, len(standing), below)

    def _marked(self, summary_ids: Sequence[SummaryId]) -> None:
        """Draw their rows again."""
        del summary_ids
        self._list.redraw()
        self._say_note()

    def _say_note(self) -> None:
        """How many are marked, and what is asked here that is not configured."""
        said = filter(None, (self.marks.text, self.assembly.what_if_text))
        self.title_bar.note = "  ".join(said)

    KEYS: ClassVar[Sequence[Key[ContextScreen]]] = (
        commands.OPEN.does(_open_selected, _why_not_open, help="Open the item, or the message as sent."),
        commands.OTHER_VIEW.does(
            _turn_as_sent,
            title="As sent",
            help="Switch between stored items and the messages as sent.",
            title_now=lambda s: "Stored items" if s._as_sent else "",
        ),
        *actions.edit_keys(summary_id, hidden=False),
        commands.COMPARE.does(
            lambda s: compare(s, s.conversation, s.assembly), lambda s: s.assembly.why_none()
        ),
        actions.dissolve_key(summary_id, _why_unread),
        *actions.STEPS,
        picks.AS_IT_WAS,
        actions.trace_key(item, hidden=False),
        commands.BUDGET.does(_ask_budget),
        actions.ITS_COMPACT,
        Key(
            "prompt",
            "Q",
            "Test prompt",
            "Enter a user message to see what prompt-aware eviction would keep.",
            _ask_prompt,
            words="what if; simulate; test message",
            where="the context",
        ),
        actions.ITS_SNAPSHOTS,
        commands.NEXT_BROKEN.does(_go_to_wrong, _why_none_wrong, hidden=True),
        actions.rewrite_key(summary_id),
        commands.EXPORT.does(
            lambda s: export(s, s.conversation.conversation_id, s.assembly),
            lambda s: s.assembly.why_none(),
            help="Write the context as sent to a file: JSON for an API call, or Markdown.",
            hidden=False,
        ),
        actions.summaries_key(item),
        actions.previous_key(item, lambda s, summary_id: s._is_leaf(summary_id)),
        actions.messages_key(seq),
        actions.repair_key(lambda s: s.conversation, only=True),
        actions.rewrite_subtree_key(summary_id),
        actions.mark_key(
            summary_id, _why_unread, help="Mark or unmark a summary; dissolving applies to the marked ones."
        ),
        actions.ITS_HEALTH,
        actions.UNDO_NEWEST,
        actions.ITS_HISTORY,
        actions.ITS_FILES,
        actions.ITS_BRIEFS,
        commands.BUDGET_MORE.does(lambda s: s._set_budget(step(s.assembly.asked, 1))),
        commands.BUDGET_LESS.does(lambda s: s._set_budget(step(s.assembly.asked, -1))),
        Key(
            "clamp",
            "percent_sign",
            "Hard limit",
            "Include or ignore the engine's final trim to 90 % of the budget.",
            _turn_clamp,
            _why_no_clamp,
            words="ninety percent; 90 percent; final trim",
            hidden=True,
        ),
    )
    COMMON: ClassVar[Sequence[Key[ContextScreen]]] = (
        commands.SEARCH.does(
            lambda s: s.search.begin(),
            lambda s: s.search.why_not(),
            help="Find ids, kinds and previews of items, or text in the messages as sent.",
        ),
        actions.ITS_ENGINE,
        commands.BACK.does(title_now=lambda s: s.back_title(), help=actions.BACK_FROM_PAST.help),
    )
