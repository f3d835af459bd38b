"""What is said of a previous context: records in, documents and cells out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from typing import Final

from lcm_core.context_view import depth_name
from lcm_core.dag.previous import PreviousNode
from lcm_core.records import Summary, SummaryText
from lcm_core.times import format_local, parse_utc

from lcm_tui.screens.previous.reads import PreviousData, View
from lcm_tui.views.context import kind_words
from lcm_tui.widgets.spans import Span, depth_style
from lcm_tui.widgets.text import Block, Document, field, heading

UNRECORDED: Final = "not recorded by this version"


def about(summary: Summary) -> str:
    """The summary asked about, for the title."""
    return f"{_kind(summary)}, {summary.tokens:,} tokens"


def _kind(summary: Summary) -> str:
    return kind_words(summary.kind, summary.depth)


def cells_of(data: PreviousData, summary: Summary | None, zone: tzinfo | None) -> dict[str, Span]:
    """The cells that say what a summary is; of one that is gone there is nothing to say."""
    if summary is None:
        return {"depth": Span("gone", "error")}
    return {
        "depth": Span(depth_name(summary.depth), depth_style(summary.depth)),
        "tokens": Span(f"{summary.tokens:,}"),
        "span": Span(_covers(data, summary, zone), "dim"),
    }


def _covers(data: PreviousData, summary: Summary, zone: tzinfo | None) -> str:
    """The times that a summary covers; the end only by its clock when it is on the same day."""
    first, last = parse_utc(summary.earliest_at), parse_utc(summary.latest_at)
    if first is None or last is None:
        written = " – ".join(stamp for stamp in (summary.earliest_at, summary.latest_at) if stamp)
        return written or ("–" if data.has_times else UNRECORDED)
    start, end = format_local(first, zone)[:16], format_local(last, zone)[:16]
    return f"{start} – {end[11:] if end[:10] == start[:10] else end}"


def whole_document(views: Sequence[View], place: int) -> Document:
    """The text as a whole, under what it rests on."""
    view = views[place]
    blocks = [
        heading(view.title[0].upper() + view.title[1:]),
        Block(view.choice.assumption, "dim"),
        Block(),
    ]
    if view.choice.text:
        blocks += [heading(f"The text that {view.given}"), Block(view.choice.text)]
    elif view.choice.nodes:
        blocks.append(Block(f"No text: {view.given} only what says nothing."))
    else:
        blocks.append(Block(f"No text: {view.given} no previous context."))
    others = [other.choice.assumption for other in views[2:]] if place == 0 else []
    if others:
        blocks += [Block(), heading("Possible alternative")]
        blocks += [Block(f"{assumption} (w)", "dim") for assumption in others]
    return tuple(blocks)


def summary_document(
    data: PreviousData, held: SummaryText, node: PreviousNode | None, why: str, zone: tzinfo | None
) -> Document:
    """One summary: what it is, why it stands here or not, what it says."""
    summary = held.summary
    model = summary.model or ("–" if data.has_models else UNRECORDED)
    made = format_local(parse_utc(summary.created_at), zone) or summary.created_at
    blocks = [
        field("summary", summary.summary_id, "key"),
        field("kind", _kind(summary), depth_style(summary.depth)),
        field("tokens", f"{summary.tokens:,}"),
        field("covers", _covers(data, summary, zone)),
        field("created", made),
        field("model", model),
    ]
    if node is not None and node.first_seq is not None:
        blocks.append(field("messages", f"seq {node.first_seq} to {node.last_seq}"))
    if node is not None and node.broken is not None:
        blocks.append(field("broken", str(node.broken), "error"))
    blocks += [Block(f"In it: {why}." if node else f"Skipped: {why}."), Block()]
    return (*blocks, Block(held.content))
