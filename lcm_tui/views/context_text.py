"""What stands beside the list of a context: the text of an item, or what a line between items means."""

from __future__ import annotations

from typing import Final

from lcm_core.assemble.ledger import Ledger
from lcm_core.context_view import TAIL, KnownContext, RowKey, gap_text

from lcm_tui.session import Session
from lcm_tui.views.context import fate_at, tail_text
from lcm_tui.views.item import ItemData, document, facts
from lcm_tui.views.sent import fate_fields
from lcm_tui.widgets.text import Block, Document, field, heading

#: Characters of an item's text that the pane shows.
SHOWN: Final = 20_000


def item_document(
    known: KnownContext, place: int, data: ItemData, session: Session, ledger: Ledger | None
) -> Document:
    """An item: what is wrong with it, what is recorded of it, what becomes of it, and its text."""
    items = known.view.items
    running = known.running_total(place)
    total = "…" if running is None else f"running total {running:,} tokens"
    return (
        *(Block(found.text, "error") for found in known.findings(place)),
        *facts(data, session),
        field("ordinal", f"{items.ordinals[place]}, {total}", width=9),
        *fate_fields(fate_at(known, place, ledger), ledger),
        *_standing(known, place),
        Block(),
        *document(data, session, wrapped=False, limit=SHOWN),
    )


def _standing(known: KnownContext, place: int) -> Document:
    overlay = known.view.overlay
    if overlay is not None and known.is_covered(known.view.items.refs[place]):
        return (field("replaced", f"by {overlay.brief.brief_id}", "brief", width=9),)
    if known.is_protected(place):
        return (field("", "in the fresh tail: compaction does not touch it", "tail", width=9),)
    return ()


def between_document(known: KnownContext, key: RowKey) -> Document:
    """What a line between items means."""
    if key[0] == "gap":
        gap = known.gap(key)
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
        return _tail_document(known)
    overlay = known.view.overlay
    if overlay is None:
        return ()
    brief = overlay.brief
    return (
        heading(f"Focus brief {brief.brief_id}"),
        Block(brief.prompt, "brief"),
        field("tokens", f"{brief.tokens:,} of {brief.target_tokens:,}", width=9),
        field("instead", f"of {', '.join(sorted(overlay.covered))}", width=9),
        Block(),
        heading("As the model receives it"),
        Block(overlay.text),
    )


#: Said where the tokens decide: the three weights are those of docs/engine/compaction.md, "Weights".
COUNTED_AS_STORED = (
    "This list counts stored tokens. Compaction also counts the label of a sender, and assembly counts "
    "tokens as sent: with a token limit its fresh tail and what is always sent may begin at other ordinals."
)


def _tail_document(known: KnownContext) -> Document:
    tail = known.view.tail
    if tail is None:
        return ()
    limit = f"The rule protects {tail.count:,} messages"
    limit += f" of at most {tail.max_tokens:,} tokens" if tail.max_tokens is not None else ""
    turn = known.rules.keeps_turn_whole
    whole = ", and extends back to the newest user message, so that the turn stays whole" if turn else ""
    return (
        heading("The fresh tail"),
        Block(f"{tail_text(known)[12:].capitalize()}, from ordinal {tail.first_ordinal} on."),
        Block(),
        Block(f"The newest messages, which compaction may not touch. {limit}{whole}."),
        *((Block(), Block(COUNTED_AS_STORED)) if tail.max_tokens is not None else ()),
    )
