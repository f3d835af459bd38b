"""An item of a context as a document: what is recorded of it, its text, and how the model receives it."""

from __future__ import annotations

from typing import Final

from lcm_core.base.errors import NotFoundError
from lcm_core.base.records import ItemId, SummaryId, SummaryText
from lcm_core.base.text import counted
from lcm_core.base.tokens import Estimator, TokenCheck, Verdict, blocks_json, raw_block
from lcm_core.base.values import Record
from lcm_core.engine.sent import Ledger
from lcm_core.engine.wrapper import wrap_summary
from lcm_core.store import messages, summaries
from lcm_core.store.context import check_tokens, present_sources
from lcm_core.store.context_view import TAIL, ContextView, RowKey, gap_text
from lcm_core.store.database import Reader
from lcm_core.store.messages import MessageEntry

from lcm_tui.kit.session import Session
from lcm_tui.kit.spans import Block, Document, Span, depth_style, heading, role_style, text_field
from lcm_tui.tables.blocks import kind_name, moment_text
from lcm_tui.tables.context import fate_at, tail_text
from lcm_tui.tables.messages import laid_out, message_name, part_blocks
from lcm_tui.tables.sent import fate_fields

ESTIMATORS = {Estimator.WEIGHTED: "counting rule of 0.8+", Estimator.UTF16: "counting rule of 0.1–0.7"}


class ItemData(Record, frozen=True):
    """What stands behind an item, whole; neither summary nor message: the row is gone."""

    item: ItemId
    summary: SummaryText | None = None
    sources: tuple[SummaryId, ...] = ()
    message: MessageEntry | None = None
    check: TokenCheck | None = None


async def load_item(reader: Reader, item: ItemId) -> ItemData:
    """Read everything behind an item, in one transaction."""
    try:
        if isinstance(item, str):
            text = await summaries.get_summary(reader, item)
            sources = (await present_sources(reader, [item])).get(item, [])
            return ItemData(item, text, tuple(sources), check=await check_tokens(reader, item))
        if item is not None:
            entry = await messages.get_message(reader, item)
            return ItemData(item, message=entry, check=await check_tokens(reader, item))
    except NotFoundError:
        pass
    return ItemData(item)


def name_of(item: ItemId) -> str:
    """An item for a title."""
    if isinstance(item, str):
        return item
    return "nothing" if item is None else message_name(item)


def facts(data: ItemData, session: Session) -> Document:
    """What is recorded of an item, besides its text."""
    if data.summary is not None:
        return _summary_facts(data, session)
    if data.message is not None:
        return _message_facts(data, session)
    gone = "The row is missing; the engine skips the item." if data.item else "The item refers to nothing."
    return (Block(gone, "error"),)


def document(data: ItemData, session: Session, *, wrapped: bool, limit: int | None = None) -> Document:
    """The text of an item, or (*wrapped*) what the model gets; cut after about *limit* characters."""
    body = _as_sent(data, session) if wrapped else _as_text(data)
    return body if limit is None else cut(body, limit)


# -- what is recorded --------------------------------------------------------------------------------------


def _summary_facts(data: ItemData, session: Session) -> Document:
    assert data.summary is not None
    summary = data.summary.summary
    name = kind_name(summary.kind, summary.depth)
    blocks = [
        Block(spans=(Span(f"{name} ", depth_style(summary.depth)), Span(summary.summary_id, "title"))),
        _tokens_field(summary.tokens, data.check),
        text_field("covers", _span(summary.earliest_at, summary.latest_at, session), width=9),
        text_field(
            "made", f"{moment_text(summary.created_at, session.zone)}{_by(summary.model, session)}", width=9
        ),
    ]
    if data.sources:
        blocks.append(text_field("sources", counted(len(data.sources), "summary"), width=9))
    return tuple(blocks)


def _message_facts(data: ItemData, session: Session) -> Document:
    assert data.message is not None
    message = data.message.message
    blocks = [
        Block(
            spans=(
                Span(f"{message.role} ", role_style(message.role)),
                Span(message_name(message.message_id, message.seq), "title"),
            )
        ),
        _tokens_field(message.tokens, data.check),
        text_field("said", moment_text(message.created_at, session.zone), width=9),
    ]
    if message.large_content:
        blocks.append(text_field("payload", message.large_content, width=9))
    if data.message.covered_by:
        blocks.append(text_field("also in", ", ".join(data.message.covered_by), "warn", width=9))
    return tuple(blocks)


def _tokens_field(stored: int, check: TokenCheck | None) -> Block:
    if check is None:
        return text_field("tokens", f"{stored:,}", width=9)
    match check.verdict:
        case Verdict.FITS:
            said = ESTIMATORS[check.estimator] if check.estimator else "as the engine counts"
            return text_field("tokens", f"{stored:,}, {said}", width=9)
        case Verdict.DIFFERS:
            return text_field(
                "tokens", f"{stored:,} ≠ ~{check.weighted or 0:,} counted again", "warn", width=9
            )
        case Verdict.NOT_RECOMPUTABLE:
            return text_field("tokens", f"{stored:,}, not recomputable: {check.lacking}", width=9)


def _span(first: str | None, last: str | None, session: Session) -> str:
    if first is None and last is None:
        known = session.database.schema.has("summaries", "earliest_at")
        return "–" if known else "not recorded by this version"
    return f"{moment_text(first, session.zone)} – {moment_text(last, session.zone)}"


def _by(model: str | None, session: Session) -> str:
    if model is None and not session.database.schema.has("summaries", "model"):
        return "; model not recorded by this version"
    return f" by {model}" if model else ""


# -- the text ----------------------------------------------------------------------------------------------


def _as_text(data: ItemData) -> Document:
    if data.summary is not None:
        return (Block(data.summary.content),)
    return () if data.message is None else part_blocks(data.message)


def _as_sent(data: ItemData, session: Session) -> Document:
    if data.summary is not None:
        found = data.summary
        wrapped = wrap_summary(found.summary, found.content, data.sources, session.rules, session.engine_zone)
        return (heading("role: user"), Block(wrapped))
    if data.message is None:
        return ()
    message, parts = data.message.message, data.message.parts
    raw = [raw_block(part.metadata) for part in parts]
    blocks = [block for block in raw if block is not None]
    role = heading(f"role: {message.role}")
    if raw and len(blocks) == len(raw):
        return (role, Block(laid_out(blocks_json(blocks))))
    if len(parts) == 1 and parts[0].part_type == "text" and parts[0].metadata:
        return (role, Block(parts[0].text or message.content))  # the host sent a string, no blocks
    note = Block("The blocks that the host sent are not stored; this is the text taken from them.", "dim")
    return (role, note, *_as_text(data))


def cut(body: Document, limit: int) -> Document:
    """The beginning of a document, about *limit* characters of it; it says so when that is not all."""
    kept: list[Block] = []
    left = limit
    for block in body:
        if len(block.text) > left:
            kept += [
                Block(block.text[:left], block.style, indent=block.indent),
                Block("… enter shows the whole text", "dim"),
            ]
            return tuple(kept)
        kept.append(block)
        left -= len(block.text)
    return tuple(kept)


# -- beside the list -------------------------------------------------------------------------------------
# The text of an item, or what a line between items means.

#: Characters of an item's text that the pane shows.
SHOWN: Final = 20_000


def item_document(
    view: ContextView, place: int, data: ItemData, session: Session, ledger: Ledger | None
) -> Document:
    """An item: what is wrong with it, what is recorded of it, what becomes of it, and its text."""
    standing = f"{view.items.ordinals[place]}, running total {view.running[place]:,} tokens"
    return (
        *(Block(found.text, "error") for found in view.findings(place)),
        *facts(data, session),
        text_field("ordinal", standing, width=9),
        *fate_fields(fate_at(view, place, ledger), ledger),
        *_standing(view, place),
        Block(),
        *document(data, session, wrapped=False, limit=SHOWN),
    )


def _standing(view: ContextView, place: int) -> Document:
    overlay = view.overlay
    if overlay is not None and view.is_covered(view.items.refs[place]):
        return (text_field("replaced", f"by {overlay.brief.brief_id}", "brief", width=9),)
    if view.is_protected(place):
        return (text_field("", "in the fresh tail: compaction does not touch it", "tail", width=9),)
    return ()


def between_document(view: ContextView, key: RowKey) -> Document:
    """What a line between items means."""
    if key[0] == "gap":
        gap = view.gap(key)
        return (
            heading("A gap in the ordinals"),
            Block(f"{gap_text(gap)[5:].capitalize()}." if gap else ""),
            Block(),
            Block(
                "The engine renumbers a context without gaps after each compaction. A gap remains when a "
                "host prunes (on /new, or heartbeats), which is legitimate, or when someone deleted rows. "
                "The model does not notice: it receives the items in order."
            ),
        )
    if key == TAIL:
        return _tail_document(view)
    overlay = view.overlay
    if overlay is None:
        return ()
    brief = overlay.brief
    return (
        heading(f"Focus brief {brief.brief_id}"),
        Block(brief.prompt, "brief"),
        text_field("tokens", f"{brief.tokens:,} of {brief.target_tokens:,}", width=9),
        text_field("instead", f"of {', '.join(sorted(overlay.covered))}", width=9),
        Block(),
        heading("As the model receives it"),
        Block(overlay.text),
    )


#: Said where the tokens decide: the three weights are those of docs/spec/compaction.md, "Weights".
COUNTED_AS_STORED = (
    "This list counts stored tokens. Compaction also counts the label of a sender, and assembly counts "
    "tokens as sent: with a token limit its fresh tail and what is always sent may begin at other ordinals."
)


def _tail_document(view: ContextView) -> Document:
    tail = view.tail
    limit = f"The rule protects {counted(tail.count, 'message')}"
    limit += f" of at most {tail.max_tokens:,} tokens" if tail.max_tokens is not None else ""
    turn = view.rules.keeps_turn_whole
    whole = ", and extends back to the newest user message, so that the turn stays whole" if turn else ""
    return (
        heading("The fresh tail"),
        Block(f"{tail_text(view)[12:].capitalize()}, from ordinal {tail.first_ordinal} on."),
        Block(),
        Block(f"The newest messages, which compaction may not touch. {limit}{whole}."),
        *((Block(), Block(COUNTED_AS_STORED)) if tail.max_tokens is not None else ()),
    )
