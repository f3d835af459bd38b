"""What the screen of previous contexts reads, and what it says: records in, documents and cells out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from lcm_core.dag.previous import PreviousChoice, PreviousContext, PreviousNode
from lcm_core.errors import NotFoundError
from lcm_core.records import Summary, SummaryId, SummaryText
from lcm_core.store import summaries
from lcm_core.store.database import Reader
from lcm_core.summarize.source import previous_of
from lcm_core.times import format_local, parse_utc

from lcm_tui.session import Session
from lcm_tui.widgets.spans import Span, depth_style
from lcm_tui.widgets.text import Block, Document, heading
from lcm_tui.widgets.text import field as fact

UNRECORDED: Final = "not recorded by this version"


@dataclass(frozen=True, slots=True)
class View:
    """One of the previous contexts that can be shown."""

    title: str
    word: str  #: what it makes of a summary that is in it
    choice: PreviousChoice
    rewrite: bool = False  #: what a rewrite would be given, not what was given


@dataclass(frozen=True, slots=True)
class PreviousData:
    """The previous context of a summary with the rows of all summaries that it names."""

    subject: Summary | None  #: None: it is not in the database (any more)
    context: PreviousContext | None = None
    texts: dict[SummaryId, SummaryText] = field(default_factory=dict)

    @property
    def views(self) -> tuple[View, ...]:
        """What can be shown: as given, for a rewrite, and what may have been given instead."""
        if self.context is None or not self.context.applies:
            return ()
        return (
            View("as given (reconstructed)", "given", self.context.as_given),
            View("for a rewrite", "taken", self.context.for_rewrite, rewrite=True),
            *(
                View("perhaps given instead (reconstructed)", "perhaps", other)
                for other in self.context.otherwise
            ),
        )

    @property
    def nothing(self) -> str:
        """Why there is nothing to show, in one sentence."""
        if self.subject is None:
            return "This summary is not in the database (any more)."
        return (self.context.why_not if self.context is not None else None) or "Nothing can be said about it."


async def load_previous(reader: Reader, summary_id: SummaryId) -> PreviousData:
    """Read all that the screen shows, in one transaction."""
    try:
        subject = (await summaries.get_summary(reader, summary_id)).summary
    except NotFoundError:
        return PreviousData(None)
    data = PreviousData(subject, await previous_of(reader, summary_id))
    named: dict[SummaryId, None] = {}
    for view in data.views:
        named |= dict.fromkeys(node.summary_id for node in view.choice.nodes)
        named |= dict.fromkeys(passed.summary_id for passed in view.choice.passed_over)
    texts = await summaries.texts_of(reader, list(named))
    return PreviousData(subject, data.context, {text.summary.summary_id: text for text in texts})


def about(summary: Summary) -> str:
    """The summary asked about, for the title."""
    return f"{_kind(summary)}, {summary.tokens:,} tokens"


def _kind(summary: Summary) -> str:
    return "leaf" if summary.kind == "leaf" and summary.depth == 0 else f"{summary.kind} d{summary.depth}"


def cells_of(summary: Summary | None, session: Session) -> dict[str, Span]:
    """The cells that tell what a summary is; of one that is gone there is nothing to tell."""
    if summary is None:
        return {"depth": Span("gone", "error")}
    return {
        "depth": Span("leaf" if summary.depth == 0 else f"d{summary.depth}", depth_style(summary.depth)),
        "tokens": Span(f"{summary.tokens:,}"),
        "span": Span(_covers(summary, session), "dim"),
    }


def _covers(summary: Summary, session: Session) -> str:
    """The times that a summary covers; the end only by its clock when it is on the same day."""
    first, last = parse_utc(summary.earliest_at), parse_utc(summary.latest_at)
    if first is None or last is None:
        written = " – ".join(stamp for stamp in (summary.earliest_at, summary.latest_at) if stamp)
        return written or ("–" if session.database.schema.has("summaries", "earliest_at") else UNRECORDED)
    start, end = format_local(first, session.zone)[:16], format_local(last, session.zone)[:16]
    return f"{start} – {end[11:] if end[:10] == start[:10] else end}"


def whole_document(views: Sequence[View], place: int) -> Document:
    """The text as a whole, under what it rests on."""
    view = views[place]
    who = "a rewrite would be" if view.rewrite else "the model was"
    blocks = [
        heading(view.title[0].upper() + view.title[1:]),
        Block(view.choice.assumption, "dim"),
        Block(),
    ]
    if view.choice.text:
        blocks += [heading(f"The text, exactly as {who} given it"), Block(view.choice.text)]
    else:
        blocks.append(Block(f"There is no text: {who} given no previous context."))
    others = [other.choice.assumption for other in views[2:]] if place == 0 else []
    if others:
        blocks += [Block(), heading("Perhaps instead")]
        blocks += [Block(f"{assumption} (w)", "dim") for assumption in others]
    return tuple(blocks)


def summary_document(held: SummaryText, node: PreviousNode | None, why: str, session: Session) -> Document:
    """One summary: what it is, why it stands here or not, what it says."""
    summary = held.summary
    model = summary.model or ("–" if session.database.schema.has("summaries", "model") else UNRECORDED)
    made = format_local(parse_utc(summary.created_at), session.zone) or summary.created_at
    blocks = [
        fact("summary", summary.summary_id, "key"),
        fact("kind", _kind(summary), depth_style(summary.depth)),
        fact("tokens", f"{summary.tokens:,}"),
        fact("covers", _covers(summary, session)),
        fact("created", made),
        fact("model", model),
    ]
    if node is not None and node.first_seq is not None:
        blocks.append(fact("messages", f"seq {node.first_seq} to {node.last_seq}"))
    if node is not None and node.broken is not None:
        blocks.append(fact("broken", str(node.broken), "error"))
    blocks += [Block(f"In it: {why}." if node else f"Passed over: {why}."), Block()]
    return (*blocks, Block(held.content))
