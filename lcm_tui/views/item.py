"""An item of a context as a document to read: what is recorded of it, its text, and how the model gets it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from lcm_core.assemble.elements import wrap_summary
from lcm_core.context_items import ItemId
from lcm_core.errors import NotFoundError
from lcm_core.ingest.content import ContentPart, PartKind
from lcm_core.records import SummaryId, SummaryText
from lcm_core.store import messages, summaries
from lcm_core.store.context import check_tokens, present_sources
from lcm_core.store.database import Reader
from lcm_core.store.messages import MessageEntry
from lcm_core.tokens import Estimator, TokenCheck, Verdict, blocks_json, raw_block

from lcm_tui.session import Session
from lcm_tui.views.context import kind_name
from lcm_tui.views.message import message_name, parts_of
from lcm_tui.views.units import moment_text
from lcm_tui.widgets.spans import Span, depth_style, role_style
from lcm_tui.widgets.text import Block, Document, field, heading

#: JSON longer than this is shown as it is stored: laying it out would be felt.
PRETTY = 200_000

ESTIMATORS = {Estimator.WEIGHTED: "counting rule of 0.8+", Estimator.UTF16: "counting rule of 0.1–0.7"}


@dataclass(frozen=True, slots=True)
class ItemData:
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
        field("covers", _span(summary.earliest_at, summary.latest_at, session), width=9),
        field("made", f"{_time(summary.created_at, session)}{_by(summary.model)}", width=9),
    ]
    if data.sources:
        blocks.append(field("sources", f"{len(data.sources):,} summaries", width=9))
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
        field("said", _time(message.created_at, session), width=9),
    ]
    if message.large_content:
        blocks.append(field("payload", message.large_content, width=9))
    if data.message.covered_by:
        blocks.append(field("also in", ", ".join(data.message.covered_by), "warn", width=9))
    return tuple(blocks)


def _tokens_field(stored: int, check: TokenCheck | None) -> Block:
    if check is None:
        return field("tokens", f"{stored:,}", width=9)
    match check.verdict:
        case Verdict.FITS:
            said = ESTIMATORS[check.estimator] if check.estimator else "as the engine counts"
            return field("tokens", f"{stored:,}, {said}", width=9)
        case Verdict.DIFFERS:
            return field("tokens", f"{stored:,} ≠ ~{check.weighted or 0:,} counted again", "warn", width=9)
        case Verdict.NOT_RECOMPUTABLE:
            return field("tokens", f"{stored:,}, not recomputable: {check.lacking}", width=9)


def _time(stored: str | None, session: Session) -> str:
    return moment_text(stored, session.zone)


def _span(first: str | None, last: str | None, session: Session) -> str:
    if first is None and last is None:
        known = session.database.schema.has("summaries", "earliest_at")
        return "–" if known else "not recorded by this version"
    return f"{_time(first, session)} – {_time(last, session)}"


def _by(model: str | None) -> str:
    return f" by {model}" if model else ""


# -- the text ----------------------------------------------------------------------------------------------


def _as_text(data: ItemData) -> Document:
    if data.summary is not None:
        return (Block(data.summary.content),)
    if data.message is None:
        return ()
    blocks: list[Block] = []
    for part in parts_of(data.message):
        blocks += _part(part)
    return tuple(blocks)


def _part(part: ContentPart) -> list[Block]:
    named = " ".join(
        word for word in (part.tool_name or part.name, part.call_id, part.mime, part.url) if word
    )
    texts = [text for text in (_pretty(part.arguments or ""), part.text) if text]
    blocks = [Block(text, "error" if part.is_error else "text") for text in texts]
    if part.kind is PartKind.TEXT:
        return blocks
    return [Block(spans=(Span(f"{part.raw_type or part.kind.value} {named}".strip(), "heading"),)), *blocks]


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
        return (role, Block(_pretty(blocks_json(blocks))))
    if len(parts) == 1 and parts[0].part_type == "text" and parts[0].metadata:
        return (role, Block(parts[0].text or message.content))  # the host sent a string, no blocks
    note = Block("The blocks that the host sent are not stored; this is the text taken from them.", "dim")
    return (role, note, *_as_text(data))


def _pretty(written: str) -> str:
    """JSON laid out for reading, or the text as it is when it is none or very long."""
    if not written or len(written) > PRETTY:
        return written
    try:
        return json.dumps(json.loads(written), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return written


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
