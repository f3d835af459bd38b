"""What is sent to the model, for people: the head of an assembly, its messages, and what is left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from lcm_core.base.javascript import stringify
from lcm_core.base.records import Conversation, LargeFile
from lcm_core.base.text import cell_width, clip, counted, preview, safe_line
from lcm_core.base.values import Record
from lcm_core.engine.assembly import Assembled, AssemblyStep, Evicted, SentSource
from lcm_core.engine.assembly import Assembled as Assembly
from lcm_core.engine.messages import BlockKind, Origin, OriginKind, Role, SentMessage
from lcm_core.engine.pairing import Repair
from lcm_core.engine.rules import FreshTail
from lcm_core.engine.sent import ItemOutcome, Ledger, beginning, spoken
from lcm_core.store.context_view import Distance, Totals

from lcm_tui.kit.spans import (
    Block,
    Document,
    Layout,
    Line,
    Span,
    StyleName,
    WrappedBlock,
    depth_style,
    heading,
    lay_out,
    row_of,
    share_text,
    text_field,
    text_of,
)
from lcm_tui.tables.blocks import (
    Cell,
    Facts,
    ListColumn,
    Note,
    OutputBlock,
    When,
    cells_of,
    json_of,
    list_table,
)
from lcm_tui.tables.composition import bar_line, cells_taken, legend_line
from lcm_tui.tables.context import NO_VALUE, PENDING, number
from lcm_tui.tables.messages import laid_out
from lcm_tui.tables.summaries import ID_CELLS

# -- the whole of it -------------------------------------------------------------------------------------
# The messages that are sent, what is not sent and in which step it was left out.


def assembled_blocks(
    when: When, owner: Conversation, one: Assembly, asked: int, prompt: str | None
) -> Iterator[OutputBlock]:
    """What is sent, what is not and why; *asked* is the budget before any cap."""
    meta, debt = one.metadata, one.metadata.raw_history_debt_tokens or 0
    facts: list[tuple[str, Cell]] = [
        ("Conversation", owner.called),
        ("Source", _source(one)),
        ("Rules", one.rules),
        ("Tokens", f"{one.sent_tokens:,} of {one.budget:,} as sent ({one.sent_tokens / one.budget:.1%})"),
        (
            "Estimate",
            f"{one.estimated_tokens:,} before adjustments, as reported; {one.stored_tokens:,} stored",
        ),
        ("Sent", f"{counted(len(one.messages), 'message')} of {_context(one)}, {one.selection.words}"),
        ("Always sent", f"{tail_words(one)}; {one.remaining:,} left for the rest"),
        ("Shares", _shares(one)),
        ("History", f"{meta.raw_history_tokens or 0:,} tokens, {debt:,} of them raw before the tail"),
        ("Cache", f"{meta.cache.state}: {meta.cache.reason}"),
        ("System prompt", f"addition: {one.system.kind}"),
    ]
    if one.unseen.messages:
        facts.insert(6, ("In no summary", _unseen(one)))
    yield Facts(facts)
    yield list_table(SENT_COLUMNS, sent_rows(one), when, title="Sent", empty="Nothing is sent.")
    if one.evicted:
        rows = [EvictedRow(one, each) for each in one.evicted]
        yield list_table(EVICTED_COLUMNS, rows, when, title="Not sent")
    if one.pasted:
        title = "Pasted by a user; a note is sent in its place"
        yield list_table(PASTED_COLUMNS, pasted_rows(one), when, title=title)
    if one.repairs:
        yield list_table(REPAIR_COLUMNS, one.repairs, when, title="Adjusted for the provider")
    if one.unread is not None:
        unread = one.unread
        yield Note(
            f"{counted(unread.items, 'older item')} (ordinals {unread.first_ordinal} to "
            f"{unread.last_ordinal}) cannot fit and were not read."
        )
    if one.budget < asked:
        yield Note(f"maxAssemblyTokenBudget caps the budget at {one.budget:,}.")
    if one.last_cut.messages and not one.last_cut.applied:
        yield Note(_last_cut(one))
    if one.prompt_scores:
        named = sum(share > 0 for share in one.prompt_scores.values())
        yield Note(
            f"The prompt ranked {counted(len(one.prompt_scores), 'item')} before the tail; "
            f"{named:,} contain a word of it."
        )
    elif prompt and not one.has_cue:
        yield Note(f"The prompt has no effect: {one.prompt_idle}.")
    if one.has_cue:
        yield Note("The first message is the recall cue: it quotes history about identifiers in the prompt.")
    if one.tail.tokens > one.budget:
        cut = one.last_cut.applied and one.last_cut.messages
        then = "the hard limit shortens it" if cut else "it is sent in full anyway"
        yield Note(f"What is always sent alone exceeds the budget; {then}.")


def _last_cut(one: Assembly) -> str:
    """What the hard limit would drop."""
    gone, left = counted(one.last_cut.messages, "message"), f"{one.last_cut.tokens:,} tokens remain"
    before = f"before the host receives them, the engine drops {gone} (hard limit)"
    if sum(one.weights) <= one.last_cut.limit:
        return f"A tool exchange comes before the first user's message: {before}; {left}."
    return (
        f"Whole messages as JSON exceed {one.last_cut.limit:,} tokens: {before}: the oldest, and what may "
        f"not come first or last; {left}."
    )


def _source(one: Assembly) -> str:
    meta = one.metadata
    trust = "authoritative" if meta.prompt_authoritative else "not authoritative"
    reason = f": {meta.fallback_reason}" if meta.fallback_reason else ""
    return f"{meta.source}{reason}, {trust} as the prompt size"


def _context(one: Assembly) -> str:
    meta = one.metadata
    summaries = counted(meta.summaries, "summary")
    return f"{meta.context_items:,} items ({summaries}, {counted(meta.raw_messages, 'message')})"


def _unseen(one: Assembly) -> str:
    """What the model sees in no form."""
    tokens = f"{sum(one.unseen.tokens.values()):,} tokens"
    older = f" and {one.unseen.unread:,} older, not read" if one.unseen.unread else ""
    read = f"{counted(len(one.unseen.tokens), 'message')} left out ({tokens}){older}"
    return f"{read}: neither sent nor in a summary that is sent"


def tail_words(one: Assembly) -> str:
    """What is always sent, and how much of it the hard limit drops all the same."""
    tail = one.tail
    if tail.first_ordinal is None:
        return "nothing is protected"
    said = (
        f"from ordinal {tail.first_ordinal}: {counted(tail.items, 'item')}, {tail.tokens:,} estimated tokens"
    )
    clamped = (each.ordinal >= tail.first_ordinal for each in one.evicted if each.step is AssemblyStep.CLAMP)
    dropped = sum(clamped)
    return f"{said}, {dropped:,} of them dropped by the hard limit" if dropped else said


def _shares(one: Assembly) -> str:
    """How the tokens that are sent are spread."""
    total, shares = sum(one.weights) or 1, one.shares
    named = (
        ("always sent", shares.tail),
        ("recent", shares.recent),
        ("older", shares.older),
        ("root", shares.root),
    )
    return ", ".join(f"{name} {tokens:,} ({tokens / total:.0%})" for name, tokens in named)


def prompt_score(one: Assembly, ordinal: int | None) -> float | None:
    """The share of an item's words that the prompt names; None where no prompt chose it."""
    share = None if ordinal is None else one.prompt_scores.get(ordinal)
    return None if share is None else round(share, 4)


# -- an assembly on the screen ---------------------------------------------------------------------------
# The head of a context, its messages as a list, and one message to read.

#: A gauge shorter than this says nothing.
LEAST_GAUGE: Final = 8
#: Parts of the head that lead to the items that they count.
SUMMARIES: Final = "summaries"
FRESH_TAIL: Final = "fresh tail"
#: Fields of a document about a message.
FIELD: Final = 9
#: Reasons that the account names of each step.
NAMED_REASONS: Final = 5
#: Repairs that the account names one by one.
NAMED_REPAIRS: Final = 200

# -- the head --------------------------------------------------------------------------------------------


def fitted(parts: Sequence[Line], width: int, between: str = " · ") -> Line:
    """As many of some parts as have room beside each other, the first ones first."""
    spans: list[Span] = [Span(" ")]
    left = width - 1
    for part in parts:
        needed = cell_width(text_of(part)) + (cell_width(between) if len(spans) > 1 else 0)
        if needed > left:
            continue
        if len(spans) > 1:
            spans.append(Span(between, "dim"))
        spans += part
        left -= needed
    return tuple(spans)


def flowed(parts: Sequence[Line], width: int, between: str = " · ") -> Iterator[Line]:
    """All of some parts, on as many lines as they need; what is too long for a line is wrapped."""
    while parts:
        taken = 1
        while taken < len(parts) and _fit(parts[: taken + 1], width, between):
            taken += 1
        if _fit(parts[:taken], width, between):
            yield fitted(parts[:taken], width, between)
        else:
            wrapped = WrappedBlock(Block(spans=parts[0], indent=1), max(width, 1))
            yield from (wrapped.line(at) for at in range(len(wrapped)))
        parts = parts[taken:]


def _fit(parts: Sequence[Line], width: int, between: str = " · ") -> bool:
    return fitted(parts, width, between) == fitted(parts, 1_000, between)


class ContextHead(Record, frozen=True, eq=False):
    """What the head of a context says; totals and tail are None until they have been read."""

    budget: int  #: tokens
    totals: Totals | None = None
    tail: FreshTail | None = None
    findings: Line = ()  #: what is wrong with the context, in short
    ledger: Ledger | None = None  #: None: nothing was assembled yet
    distance: Distance | None = None  #: how far the next compaction is; None: not known yet
    prompt: str = ""  #: what the user asks
    clamps: bool = True  #: with the engine's hard limit
    problem: str | None = None  #: why nothing could be assembled
    working: bool = False  #: it is of other settings than those that are asked for
    ordinal: int | None = None  #: of the selected item
    fate: ItemOutcome | None = None  #: what becomes of the selected item


def head_lines(head: ContextHead, width: int, *, plain: bool, low: bool) -> Iterator[Line]:
    """What is sent of the budget; what is stored, and when compaction comes.

    Below, where there is such a thing: what else is asked for than the engine would do by itself; what is
    wrong, left out or adjusted; why the selected item is not sent, or others are not. *low*: the last two in
    one line.
    """
    yield budget_line(head, width, plain=plain)
    yield made_of_line(head, width, plain=plain)
    if head.prompt or not head.clamps:
        yield asked_line(head.ledger, head.prompt, clamps=head.clamps, width=width)
    warnings = list(_warnings(head, width))
    one = None if head.ledger is None else head.ledger.assembled
    if head.ledger is None or one is None or not (one.evicted_items or one.over_budget):
        yield from warnings[: 1 if low else None]
    elif low:
        left_out = head.fate is not None and head.fate.step is not None
        yield why_line(head.ledger, head.ordinal, head.fate, width) if left_out else warnings[0]
    else:
        yield from (*warnings, why_line(head.ledger, head.ordinal, head.fate, width))


def budget_line(head: ContextHead, width: int, *, plain: bool) -> Line:
    """The tokens that are sent, their share of the budget, and a gauge in the colours of the stored parts."""
    totals = head.totals
    if totals is None:
        return ()  # the list says that it is being read, or why it cannot be
    one = None if head.ledger is None else head.ledger.assembled
    budget = head.budget if one is None else one.budget
    share = 0.0 if one is None else one.sent_tokens / budget
    sent = ("?" if head.problem else PENDING) if one is None else f"{one.sent_tokens:,}"
    spans: Line = (Span(f" sent {sent} of {budget:,} tokens"),)
    if one is not None:
        spans = (*spans, Span(" = "), Span(share_text(share), "error" if share > 1 else "text"))
    if one is not None and head.tail is not None and one.tail.first_ordinal != head.tail.first_ordinal:
        spans = (*spans, Span(f" · always sent {one.shares.tail:,}"))
    room = width - cell_width(text_of(spans)) - 4
    if room < LEAST_GAUGE:
        return spans
    used = cells_taken(share, room)
    filled = bar_line(totals.groups, used, plain=plain)
    return (*spans, Span(" ▕"), *filled, Span("░" * (room - used), "dim"), Span("▏"))


def made_of_line(head: ContextHead, width: int, *, plain: bool) -> Line:
    """The stored tokens, those of summaries and of the fresh tail, and how far the next compaction is.

    Where it has room, each depth and role in its colour.
    """
    totals, tail = head.totals, head.tail
    if totals is None or tail is None:
        return ()
    one = None if head.ledger is None else head.ledger.assembled
    summaries = sum(group.tokens for group in totals.groups if group.depth is not None)
    legend = legend_line(totals.groups, tail, plain=plain)
    stored = Span(f"stored {totals.tokens:,}{': ' if legend else ''}")
    fresh: Line = (Span(FRESH_TAIL, "tail"), Span(f" {tail.tokens:,}"))
    parts: list[Line] = [(stored, Span(SUMMARIES, "d2"), Span(f" {summaries:,}")), fresh]
    begin = (stored, *((Span(text_of(legend[:1]).lstrip(), legend[0].style), *legend[1:]) if legend else ()))
    rest: list[Line] = [(Span("assembling …", "dim"),)] if head.working else []
    if one is not None:
        rest += [] if one.evicted_items else [(Span("nothing left out", "ok"),)]
        rest.append((Span(f"engine {one.rules}", "dim"),))
    long, short = distance_line(head.distance), distance_line(head.distance, short=True)
    for needed in ([begin, long], [*parts, long], [*parts, short]):
        if _fit(needed, width):
            return fitted([*needed, *rest], width)
    return fitted([(stored, *fresh), short], width)


def _warnings(head: ContextHead, width: int) -> Iterator[Line]:
    """What is wrong with the context or its assembly, what is not sent, and what is sent otherwise."""
    parts: list[Line] = [(Span(head.problem, "error"),)] if head.problem else []
    parts += [(span,) for span in head.findings]
    one = None if head.ledger is None else head.ledger.assembled
    if one is not None and one.metadata.source is not SentSource.ASSEMBLED:
        parts.append((Span(str(one.metadata.source), "warn"),))
    if head.totals is not None and head.totals.tokens > head.budget:
        parts.append((Span(f"stored: over budget by {head.totals.tokens - head.budget:,}", "error"),))
    if one is not None and one.over_budget:
        parts.append((Span("what is always sent alone exceeds the budget", "error"),))
    if head.ledger is not None and one is not None and one.evicted_items:
        parts.append(_left_out(head.ledger))
    if one is not None:
        parts += [(Span(text, "warn"),) for text in (unseen_text(one), pasted_text(one)) if text]
        adjusted = f"~ {counted(len(one.repairs), 'message')} adjusted"
        parts += [(Span(adjusted, "warn"),)] if one.repairs else []
    yield from flowed(parts, width)


def unseen_text(one: Assembled) -> str:
    """How many messages the model sees in no form; empty: none."""
    return f"{counted(one.unseen.messages, 'message')} in no summary" if one.unseen.messages else ""


def pasted_text(one: Assembled) -> str:
    """How many messages are sent with a note in place of what a user pasted; empty: none."""
    return f"{counted(len(one.pasted), 'paste')} as a note" if one.pasted else ""


def pasted_names(files: Sequence[LargeFile]) -> str:
    """What a user pasted, as the note in its place names it."""
    return ", ".join(
        f"{file.file_name or 'a text without a name'} ({_size(file)}, {file.file_id})" for file in files
    )


def _size(file: LargeFile) -> str:
    return "size not recorded" if file.byte_size is None else f"{file.byte_size:,} bytes"


def _left_out(ledger: Ledger) -> Line:
    """How many items are not sent, and in which steps they went."""
    steps = ", ".join(
        f"{step.words} {ledger.left_out[step]:,}" for step in AssemblyStep if ledger.left_out.get(step)
    )
    return Span(f"{ledger.assembled.evicted_items:,} not sent", "warn"), Span(f": {steps}", "dim")


def distance_line(distance: Distance | None, *, short: bool = False) -> Line:
    """How far the next compaction is."""
    if distance is None:
        return (Span(f"compaction {PENDING}", "dim"),)
    if distance.due:
        over = f"{distance.tokens:,} > {distance.threshold:,}"
        by_raw = distance.tokens <= distance.threshold
        why = f"{distance.raw:,} raw before the tail" if by_raw else over
        due = Span("compaction is due", "warn")
        return (due,) if short else (due, Span(f" ({why})", "dim"))
    left = Span(f"{distance.left:,} {'to' if short else 'tokens until'} compaction")
    by_raw = distance.left < distance.threshold - distance.tokens
    at = f"{distance.chunk:,} raw before the tail" if by_raw else f"{distance.threshold:,}"
    return (left,) if short else (left, Span(f" (at {at})", "dim"))


def asked_line(ledger: Ledger | None, prompt: str, *, clamps: bool, width: int) -> Line:
    """What is asked for that the engine would not do by itself: a prompt to choose by, no hard limit."""
    off: Line = () if clamps else (Span("without the hard limit", "warn"),)
    if not prompt:
        return fitted((off,), width)
    effect = f": {_effect(ledger)}"
    rest = cell_width(effect) + (cell_width(text_of(off)) + 3 if off else 0)
    said = clip(safe_line(prompt), max(width - 1 - rest - cell_width("prompt “”"), 12))
    parts: list[Line] = [(Span("prompt ", "heading"), Span(f"“{said}”", "match"), Span(effect))]
    return fitted([*parts, off] if off else parts, width)


def _effect(ledger: Ledger | None) -> str:
    """What the prompt did, in short."""
    if ledger is None:
        return PENDING
    one = ledger.assembled
    if one.prompt_idle is not None:
        return "adds the recall cue" if one.has_cue else f"no effect, {one.prompt_idle}"
    scored = {ordinal for ordinal, score in one.prompt_scores.items() if score > 0}
    kept = sum(fate.sent and ordinal in scored for ordinal, fate in ledger.fates.items())
    return f"kept {kept:,} for it (*), dropped {ledger.left_out.get(AssemblyStep.PROMPT, 0):,}"


def why_line(ledger: Ledger, ordinal: int | None, fate: ItemOutcome | None, width: int) -> Line:
    """Why an item is not sent; of one that is, why others are not, the most frequent reasons first."""
    if fate is not None and fate.step is not None:
        begin = "" if ordinal is None else f"ordinal {ordinal} · "
        unseen = "; no summary covers it" if fate.unseen else ""
        said = f"{begin}{why_text(fate.step, fate.why)}{unseen}"
        return (Span(f" {clip(said, width - 1)}", "warn"),)
    reasons, one = _reasons(ledger), ledger.assembled
    if not reasons:
        if not one.over_budget:
            return ()
        tail = f"always sent: {counted(one.tail.items, 'item')}, {one.tail.tokens:,} estimated tokens"
        said = f"{tail}; the engine sends all of it, also beyond a budget of {one.budget:,}"
        return (Span(f" {clip(said, width - 1)}", "warn"),)
    words = [why_text(step, why) for (step, why), _ in reasons.most_common()]
    first: Line = (Span(clip(words[0], width - 1), "warn"),)
    return fitted([first, *((Span(more, "warn"),) for more in words[1:])], width)


def why_text(step: AssemblyStep, why: str) -> str:
    """Why an item is not sent: the step that dropped it and its reason."""
    return f"{step.words}: {why}"


def _reasons(ledger: Ledger) -> Counter[tuple[AssemblyStep, str]]:
    """How many items are not sent for which reason."""
    return Counter((one.step, one.why) for one in ledger.assembled.evicted)


# -- in the list of items --------------------------------------------------------------------------------


def fate_fields(fate: ItemOutcome | None, ledger: Ledger | None) -> Iterator[Block]:
    """What becomes of an item, beside what is recorded of it."""
    if fate is None or ledger is None:
        yield text_field("sent", PENDING, "dim", width=FIELD)
        return
    if fate.number is not None:
        message = ledger.assembled.messages[fate.number - 1]
        as_answer = message.origin.kind is OriginKind.SUMMARY and message.role is Role.ASSISTANT
        whose = ", in the assistant's role: it covers tool calls of the current turn" if as_answer else ""
        yield text_field("sent", f"as message {fate.number:,}: {fate.tokens:,} tokens{whose}", width=FIELD)
    elif fate.step is not None:
        told = f"{fate.tokens:,} tokens"
        weighs = f", {told}" if fate.tokens and told not in fate.why else ""
        yield text_field("not sent", f"{why_text(fate.step, fate.why)}{weighs}", "warn", width=FIELD)
    if fate.unseen:
        yield text_field(
            "", "no summary that is sent covers it: the model sees it in no form", "warn", width=FIELD
        )
    if fate.pasted:
        words = f"only a note is sent, not what the user pasted: {pasted_names(fate.pasted)}"
        yield text_field("pasted", words, "warn", width=FIELD)
    if fate.score is not None:
        kept = "ranked above items that match less or are older"
        if not fate.sent:
            kept = "not kept" if fate.step is AssemblyStep.PROMPT else "kept, but dropped in a later step"
        yield text_field(
            "prompt", f"it names {fate.score:.1%} of the words of this item: {kept}", "new", width=FIELD
        )
    for repair in fate.repairs:
        call = f" ({repair.call_id})" if repair.call_id else ""
        yield text_field("repaired", f"{repair.what}{call}", "warn", width=FIELD)


def under_budget(fate: ItemOutcome | None, ledger: Ledger | None) -> Document:
    """What becomes of an item, for where nothing else says under which budget; empty: it is not known."""
    if fate is None or ledger is None:
        return ()
    budget = text_field(
        "budget", f"{ledger.assembled.budget:,} tokens, as assembled on opening this item", width=FIELD
    )
    return (*fate_fields(fate, ledger), budget)


# -- the messages as sent --------------------------------------------------------------------------------


class SentRow(Record, frozen=True):
    """A message that is sent."""

    one: Assembled
    at: int  #: its place among those that are sent
    begins_tail: bool = False  #: it is the first of those that are always sent

    @property
    def message(self) -> SentMessage:
        """The message as the model gets it."""
        return self.one.messages[self.at]

    @property
    def origin(self) -> Origin:
        """What it was made from."""
        return self.message.origin

    @property
    def prompt_score(self) -> float | None:
        """The share of its words that the prompt names."""
        return prompt_score(self.one, self.origin.ordinal)

    @property
    def notes(self) -> str:
        """Why it is sent, and what becomes of it afterwards."""
        notes = ["always sent from here"] if self.begins_tail else []
        if self.at in self.one.last_cut.cut and not self.one.last_cut.applied:
            notes.append("hard limit")
        if self.prompt_score is not None:
            notes.append(f"prompt {self.prompt_score:.1%}")
        return ", ".join(notes)


def sent_rows(one: Assembled) -> list[SentRow]:
    """The messages that are sent."""
    protected = (at for at, message in enumerate(one.messages) if in_tail(one, message.origin))
    first = next(protected, None)
    return [SentRow(one, at, at == first) for at in range(len(one.messages))]


class SentCells(Record, frozen=True):
    """What the cells of the app's list are drawn with."""

    ledger: Ledger
    mark: str  #: the operator's


def _is_made_up(origin: Origin) -> bool:
    return origin.kind in (OriginKind.SYNTHETIC, OriginKind.CUE)


def _sign(_: int, row: SentRow, drawing: SentCells) -> Span:
    if _is_made_up(row.origin):
        return Span("+", "warn")
    if drawing.ledger.repairs_of(row.message):
        return Span("~", "warn")
    return Span("│", "tail") if in_tail(row.one, row.origin) else Span("")


def _preview(said: str, row: SentRow, drawing: SentCells) -> Span:
    repairs = drawing.ledger.repairs_of(row.message)
    adjusted = " · ".join(dict.fromkeys(str(repair.what) for repair in repairs))
    return Span(f"{adjusted} · {said}", "warn") if adjusted else Span(said)


def ordinal_cell(ordinal: int | None) -> Span:
    """The place of an item in its context; of what was made up there is none."""
    return Span(NO_VALUE if ordinal is None else str(ordinal), "dim")


def _name(name: str, row: SentRow, drawing: SentCells) -> Span:
    shown = f"{stands_for(row.origin)} {drawing.mark}".rstrip()
    return Span(shown, "warn" if _is_made_up(row.origin) else "key")


class EvictedRow(Record, frozen=True):
    """An item that is not sent."""

    one: Assembled
    item: Evicted

    @property
    def name(self) -> str:
        """The item in words; nothing where its row is gone."""
        origin = self.item.origin
        if origin is None:
            return ""
        return origin.summary_id or (
            f"message {origin.message_id}" if origin.message_id else str(origin.kind)
        )

    @property
    def document(self) -> dict[str, Any]:
        """It for programs: of an item whose row is gone less is known."""
        columns = EVICTED_COLUMNS
        if self.item.origin is None:
            columns = tuple(column for column in columns if not str(column.value).startswith("item.origin"))
        return json_of(columns, self)


class PastedRow(Record, frozen=True):
    """What a user pasted into a message that is sent with a note instead."""

    ordinal: int
    file: LargeFile


def pasted_rows(one: Assembled) -> list[PastedRow]:
    """What users pasted, by ordinal."""
    return [PastedRow(ordinal, file) for ordinal, files in sorted(one.pasted.items()) for file in files]


def _of_origin(path: str) -> tuple[ListColumn[Any, Any], ...]:
    """What programs are told of the origin of a message, besides its ordinal."""
    names = {"messageId": "message_id", "summaryId": "summary_id", "briefId": "brief_id", "depth": "depth"}
    return tuple(ListColumn(field, json=name, value=f"{path}.{field}") for name, field in names.items())


# fmt: off
#: All that is said of a message that is sent, in order.
SENT_COLUMNS: Final[tuple[ListColumn[SentRow, SentCells], ...]] = (
    ListColumn("mark", "", 1, keep=99, value="at", cell=_sign),
    ListColumn("number", heading="#", right=True, value=lambda row: row.at + 1),
    ListColumn("item", "ordinal", 7, right=True, keep=98, value="origin.ordinal",
               cell=lambda value, _, __: ordinal_cell(value)),
    ListColumn("role", "role", 10, keep=97, heading="Role", json="role",
               value=lambda row: str(row.message.role), text=lambda role: Role(role).word,
               cell=lambda _, row, __: Span(row.message.role.word, role_as_sent(row.message))),
    ListColumn("kind", json="origin", value=lambda row: str(row.origin.kind)),
    ListColumn("from", "stands for", ID_CELLS, keep=90, heading="From", value="origin.name",
               cell=_name),
    ListColumn("ordinal", right=True, heading="Ordinal", spare=2, json="ordinal", value="origin.ordinal"),
    *_of_origin("origin"),
    ListColumn("score", json="promptScore", value="prompt_score"),
    ListColumn("sent", "sent", 7, right=True, keep=95, heading="Sent", json="tokens",
               value=lambda row: row.one.weights[row.at], cell=lambda value, _, __: Span(number(value, 7))),
    ListColumn("stored", "stored", 7, right=True, keep=70, heading="Stored", spare=1, json="storedTokens",
               value="origin.stored_tokens",
               cell=lambda value, _, __: Span(NO_VALUE if value is None else number(value, 7), "dim")),
    ListColumn("note", heading="Note", spare=3, value="notes"),
    ListColumn("tail", json="freshTail", value=lambda row: in_tail(row.one, row.origin)),
    ListColumn("text", json="preview", value=lambda row: preview(spoken(row.message))),
    ListColumn("preview", "preview", 12, grows=True, keep=60, heading="Text",
               value=lambda row: preview(beginning(row.message)), cell=_preview),
)
#: All that is said of an item that is not sent.
EVICTED_COLUMNS: Final[tuple[ListColumn[EvictedRow, None], ...]] = (
    ListColumn("ordinal", right=True, heading="Ordinal", json="ordinal", value="item.ordinal"),
    *_of_origin("item.origin"),
    ListColumn("name", heading="What", value="name"),
    ListColumn("tokens", right=True, heading="Tokens", json="tokens", value="item.tokens"),
    ListColumn("step", json="step", value=lambda row: str(row.item.step)),
    ListColumn("words", heading="Step", value="item.step.words"),
    ListColumn("why", grows=True, heading="Why", json="why", value="item.why"),
    ListColumn("score", json="promptScore", value=lambda row: prompt_score(row.one, row.item.ordinal)),
)
#: All that is said of what a user pasted.
PASTED_COLUMNS: Final[tuple[ListColumn[PastedRow, None], ...]] = (
    ListColumn("ordinal", right=True, heading="Ordinal", json="ordinal", value="ordinal"),
    ListColumn("id", heading="File", json="fileId", value="file.file_id"),
    ListColumn("named", json="fileName", value="file.file_name"),
    ListColumn("type", json="mimeType", value="file.mime_type"),
    ListColumn("size", right=True, heading="Bytes", json="byteSize", value="file.byte_size"),
    ListColumn("name", grows=True, heading="Name", value="file.file_name"),
)
#: All that is said of what was adjusted for the provider.
REPAIR_COLUMNS: Final[tuple[ListColumn[Repair, None], ...]] = (
    ListColumn("kind", json="what", value=lambda repair: str(repair.what)),
    ListColumn("ordinal", right=True, heading="Ordinal", json="ordinal", value="origin.ordinal"),
    *_of_origin("origin"),
    ListColumn("call", heading="Call", value=lambda repair: repair.call_id or ""),
    ListColumn("call_id", json="callId", value="call_id"),
    ListColumn("what", grows=True, heading="Repair", value=lambda repair: str(repair.what)),
)
# fmt: on
_IN_APP: Final = tuple(column for column in SENT_COLUMNS if column.width)


def sent_columns(width: int) -> Layout:
    """The columns for a list of messages, *width* cells wide."""
    return lay_out(_IN_APP, width)


def sent_line(ledger: Ledger, at: int, width: int, mark: str = "") -> Line:
    """A message as a line; *mark* is the operator's."""
    cells = cells_of(SENT_COLUMNS, SentRow(ledger.assembled, at), SentCells(ledger, mark))
    return row_of(sent_columns(width), cells)


def account_line(ledger: Ledger, width: int) -> Line:
    """The line above the messages, for all of them together."""
    one = ledger.assembled
    return fitted(
        (
            (Span("Whole request", "heading"),),
            (Span(f"{one.metadata.source}, {one.selection.words}"),),
            (Span(f"system prompt: {one.system.kind}", "dim"),),
            (Span(f"prompt cache: {one.metadata.cache.state}", "dim"),),
            (Span(f"hash {one.messages_hash}", "dim"),),
        ),
        width,
    )


def role_as_sent(message: SentMessage) -> StyleName:
    """The colour of a role: that of what the message stands for."""
    if message.origin.kind is OriginKind.SUMMARY:
        return depth_style(message.origin.depth)
    if message.origin.kind is OriginKind.FOCUS_BRIEF:
        return "brief"
    roles: dict[str, StyleName] = {"user": "role-user", "assistant": "role-assistant"}
    return roles.get(str(message.role), "role-tool")


def stands_for(origin: Origin) -> str:
    """What a message stands for, as the list of items names it."""
    if origin.message_id is not None:
        return f"m{origin.message_id}"
    made_up = origin.kind is OriginKind.SYNTHETIC
    return origin.summary_id or origin.brief_id or ("synthetic" if made_up else str(origin.kind))


def in_tail(one: Assembled, origin: Origin) -> bool:
    """Whether a message stands in the fresh tail."""
    first = one.tail.first_ordinal
    return origin.ordinal is not None and first is not None and origin.ordinal >= first


def searched_text(message: SentMessage) -> str:
    """What a search among messages looks at: role, what it stands for, and all that it says."""
    return f"{message.role.word} {stands_for(message.origin)} {message.call_id or ''} {spoken(message)}"


# -- to read ---------------------------------------------------------------------------------------------


def message_document(ledger: Ledger, at: int) -> Document:
    """A message as the model gets it: its role, where it came from, then its text or its blocks."""
    message, weight = ledger.assembled.messages[at], ledger.assembled.weights[at]
    origin = message.origin
    total = len(ledger.assembled.messages)
    depth = f" (D{origin.depth})" if origin.depth else " (leaf)" if origin.depth == 0 else ""
    place = "" if origin.ordinal is None else f", ordinal {origin.ordinal}"
    stored = "" if origin.stored_tokens is None else f", stored {origin.stored_tokens:,}"
    blocks = [
        Block(spans=(Span("role: ", "heading"), Span(message.role.word, role_as_sent(message)))),
        text_field("message", f"{at + 1:,} of {total:,}", width=FIELD),
        text_field("from", f"{stands_for(origin)}{depth}{place}", width=FIELD),
        text_field("tokens", f"{weight:,} as sent{stored}", width=FIELD),
    ]
    if in_tail(ledger.assembled, origin):
        blocks.append(
            text_field("", "always sent: the budget never drops it, the hard limit may", "tail", FIELD)
        )
    if message.call_id is not None:
        error = ", an error" if message.is_error else ""
        blocks.append(
            text_field("answers", f"{message.tool_name or ''} {message.call_id}{error}", width=FIELD)
        )
    if files := ledger.pasted_in(message):
        words = f"only this note is sent, not what the user pasted: {pasted_names(files)}"
        blocks.append(text_field("pasted", words, "warn", FIELD))
    adjusted = ledger.repairs_of(message)
    blocks += [text_field("repaired", str(repair.what), "warn", width=FIELD) for repair in adjusted]
    if origin.kind is OriginKind.SYNTHETIC:
        blocks.append(
            text_field(
                "",
                "synthetic: the engine adds it so that the tool call before it has a result",
                "warn",
                FIELD,
            )
        )
    if origin.kind is OriginKind.CUE:
        words = "recall cue: the engine quotes what history says about identifiers in the prompt"
        blocks.append(text_field("", words, "warn", FIELD))
    return (*blocks, Block(), *_body(message))


def _body(message: SentMessage) -> Iterator[Block]:
    if isinstance(message.content, str):
        yield Block(message.content)
        return
    for block in message.content:
        named = " ".join(word for word in (block.tool_name, block.call_id) if word)
        yield heading(f"{block.kind} {named}".rstrip())
        is_text = block.kind is BlockKind.TEXT
        yield Block(block.text if is_text else laid_out(stringify(block.document)))


def account_document(ledger: Ledger, distance: Distance | None) -> Document:
    """The assembly as a whole: the metadata that a host gets, the system prompt, steps, repairs."""
    one, meta = ledger.assembled, ledger.assembled.metadata
    authority = "authoritative" if meta.prompt_authoritative else "not authoritative"
    reason = f": {meta.fallback_reason}" if meta.fallback_reason else ""
    tail = one.tail
    cap = f", at most {tail.max_tokens:,} tokens" if tail.max_tokens is not None else ""
    sensitive = ", changing the prompt would lose it" if meta.cache.mutation_sensitive else ""
    rows: list[tuple[str, str]] = [
        ("source", f"{meta.source}{reason}, {authority} for the size of the prompt"),
        ("engine", f"as engine {one.rules} sends it; {one.selection.words}"),
        ("context", f"{counted(meta.context_items, 'item')}, {meta.raw_messages:,} of them raw messages"),
        ("sent", f"{counted(len(one.messages), 'message')}, {one.sent_tokens:,} of {one.budget:,} tokens"),
        ("estimated", f"{one.estimated_tokens:,} tokens before adjustments; stored {one.stored_tokens:,}"),
        ("always sent", f"{tail_words(one)} (rule: {counted(tail.count, 'newest message')}{cap})"),
        ("shares", _shares(one)),
        ("compaction", text_of(distance_line(distance)).removeprefix("compaction ")),
        ("cache", f"{meta.cache.state}: {meta.cache.reason}{sensitive}"),
        ("hash", one.messages_hash),
    ]
    body = [heading("The whole request"), *(text_field(name, value, width=12) for name, value in rows)]
    body += [Block(), heading("Left out"), *_steps(ledger)]
    if one.repairs:
        body += [Block(), heading(f"Adjusted for the provider: {len(one.repairs):,}")]
        body += [Block(text, "warn") for text in _repairs(one)]
    body += [Block(), heading("Added to the system prompt (its meaning, not the engine's wording)")]
    return (*body, Block(one.system.text or "nothing"))


def _steps(ledger: Ledger) -> Iterator[Block]:
    if not ledger.assembled.evicted_items:
        yield Block("nothing")
    if unseen := ledger.assembled.unseen.messages:
        words = f"{counted(unseen, 'message')}: no summary that is sent covers them"
        yield text_field("in no summary", words, "warn", width=14)
    for step in AssemblyStep:
        if count := ledger.left_out.get(step):
            yield text_field(step.words, counted(count, "item"), width=14)
            of_step = Counter({why: times for (one, why), times in _reasons(ledger).items() if one is step})
            for why, times in of_step.most_common(NAMED_REASONS):
                yield text_field("", why if times == count else f"{times:,}: {why}", width=14)
            if (more := len(of_step) - NAMED_REASONS) > 0:
                yield text_field("", f"… and {counted(more, 'other reason')}", "dim", width=14)
    if (unread := ledger.assembled.unread) is not None:
        where = f"ordinals {unread.first_ordinal:,} to {unread.last_ordinal:,} were not read: they cannot fit"
        yield text_field("", where, "dim", width=14)


def _repairs(one: Assembled) -> Iterator[str]:
    for repair in one.repairs[:NAMED_REPAIRS]:
        call = f" ({repair.call_id})" if repair.call_id else ""
        yield f"{stands_for(repair.origin)}: {repair.what}{call}"
    if len(one.repairs) > NAMED_REPAIRS:
        yield f"… and {len(one.repairs) - NAMED_REPAIRS:,} more"
