"""What recall finds, for people: the levels below a summary, and the hits of a search."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from typing import Final

from lcm_core.base.records import Conversation, ConversationId
from lcm_core.base.text import cell_width, clip, counted, depth_name, safe_line
from lcm_core.store.search import DocumentKind
from lcm_recall.read import Level, Passage
from lcm_recall.search import NAMES, OTHER_SPELLING, Found, Hit

from lcm_tui.kit.spans import Block, Document, Line, Span, StyleName, role_style, text_of
from lcm_tui.tables.blocks import ListColumn, OutputColumn, Table, When, minute_text
from lcm_tui.tables.messages import message_name
from lcm_tui.tables.summaries import ShortIds

# -- levels ----------------------------------------------------------------------------------------------
# The levels below a summary for both faces: what each holds and costs; the texts of one as a document.


def level_text(level: Level) -> str:
    """What is on a level: ``4 D1 summaries, 12 messages``."""
    found = [
        f"{number:,} {depth_name(depth)} {'summary' if number == 1 else 'summaries'}"
        for depth, number in level.depths
    ]
    found += [counted(len(level.messages), "message")] if level.messages else []
    found += [f"{level.missing:,} missing"] if level.missing else []
    return ", ".join(found)


# fmt: off
#: Tokens are as stored.
LEVEL_COLUMNS: Final[tuple[ListColumn[Level, None], ...]] = (
    ListColumn("level", "level", 5, right=True, keep=90, heading="Level", value="number"),
    ListColumn("contains", "contains", 20, grows=True, keep=99, heading="Contains", value=level_text,
               cell=lambda text, level, _: Span(text, "warn" if level.missing else "text")),
    ListColumn("tokens", "tokens", 11, right=True, keep=98, heading="Tokens", value="tokens"),
    ListColumn("total", "to here", 11, right=True, keep=97, heading="Tokens to here", value="tokens_to_here",
               cell=lambda number, *_: Span(f"{number:,}", "dim")),
)
# fmt: on


def passages_document(passages: Sequence[Passage], zone: tzinfo | None) -> Document:
    """Texts one below the other, each under its citation with the tokens that it counts."""
    blocks: list[Block] = []
    for one in passages:
        part = "  continued" if one.start else ""
        about = f"  {one.label}  {minute_text(one.at, zone)}  ~{one.tokens:,} tokens{part}"
        blocks += [Block()] if blocks else []
        blocks += [Block(spans=(Span(one.citation, "key"), Span(about, "dim"))), Block(one.text, indent=2)]
    return tuple(blocks)


# -- hits ------------------------------------------------------------------------------------------------
# By conversation, with what was found visible in its text.

_STYLES: Final[dict[DocumentKind, StyleName]] = {
    DocumentKind.SUMMARY: "leaf",
    DocumentKind.BRIEF: "brief",
    DocumentKind.FILE: "tail",
}

#: Cells of what a hit is, with a blank behind it.
LABEL: Final = 10


def conversation_line(
    conversation_id: ConversationId,
    conversation: Conversation | None,
    hits: int,
    width: int,
    *,
    cut: bool = False,
) -> Line:
    """The heading above the hits of a conversation; *cut*: others may not be listed."""
    name = "" if conversation is None else conversation.name
    said = (
        f"Conversation {conversation_id}  {safe_line(name)}  {counted(hits, 'hit')}{' shown' if cut else ''}"
    )
    return (Span(clip(said, width), "heading"),)


def recent_line(text: str, width: int) -> Line:
    """A search that was made before."""
    return Span("  recent  ", "dim"), Span(clip(safe_line(text), max(width - 10, 1)))


def hit_lines(hit: Hit, width: int, zone: tzinfo | None, ids: ShortIds) -> Sequence[Line]:
    """Two lines: what it is, when and what covers it; then the text around what was found."""
    label = safe_line(hit.label or "")
    if not 0 < len(label) < LABEL:  # the type of a file, for instance
        label = hit.kind.value
    style = role_style(hit.label) if hit.kind is DocumentKind.MESSAGE else _STYLES[hit.kind]
    head: Line = (
        Span("  "),
        Span(f"{label:<{LABEL}}", style),
        Span(f"{minute_text(hit.at, zone)}  ", "dim"),
        Span(ids.of(safe_line(name_of(hit))), "key"),
        Span("" if hit.spelled else f"  {OTHER_SPELLING}", "warn"),
        Span(f"  {ids.of(covered_text(hit))}", "dim"),
    )
    return head, (Span("    "), *snippet_spans(hit, max(width - 4, 1)))


def hits_table(hits: Sequence[Hit], when: When) -> Table:
    """Hits for a file."""
    titles = ("Hit", "Conversation", "Kind", "Time", "Seen", "Text")
    rows = [
        (name_of(hit), str(hit.conversation_id), hit.label, when(hit.at), covered_text(hit), hit.snippet)
        for hit in hits
    ]
    return Table([OutputColumn(one) for one in titles], rows)


def name_of(hit: Hit) -> str:
    """A message by its id and its place in the conversation; else the id."""
    return message_name(hit.id, hit.seq) if hit.kind is DocumentKind.MESSAGE else hit.id


def covered_text(hit: Hit) -> str:
    """Whether the model sees it: itself, or by which summary of the context; "" for what is no item."""
    if hit.kind in (DocumentKind.BRIEF, DocumentKind.FILE):
        return ""
    if hit.in_context:
        return "in the context"
    if hit.way:
        return f"in the context as {safe_line(hit.way[0])}"
    return "not in a context"


def snippet_spans(hit: Hit, width: int) -> Line:
    """The text around what was found, begun so that the first match is in sight."""
    text, first = hit.snippet, hit.spans[0].start if hit.spans else 0
    begin = max(0, first - width // 3) if first > width // 2 else 0
    spans: list[Span] = []
    if begin:  # at a word, where one begins before the match
        begin = next((at + 1 for at in range(begin, first) if text[at] == " "), begin)
        spans.append(Span("…"))
    end = begin + width - len(spans)
    more = (Span("…"),) if end < len(text) else ()
    end -= len(more)
    at = begin
    for found in sorted(hit.spans, key=lambda one: one.start):
        start, stop = max(found.start, at), min(found.end, end)
        if start >= stop:
            continue
        spans += [Span(safe_line(text[at:start])), Span(safe_line(text[start:stop]), "match")]
        at = stop
    return (*spans, Span(safe_line(text[at:end])), *more)


def coverage_parts(found: Found | None, share: float | None, whole: Found | None, width: int) -> list[Line]:
    """How many hits there are, in what, and what was not searched; in short where a line has no room.

    *share*: how far a search is, 0 to 1. *whole*: what there is where the search is not narrowed.
    """
    if found is None:
        said = 'Type a word, several words, a "phrase", or the start of a word*'
        return [(Span(said if share is None else "searching …", "dim"),)]
    least = "at least " if found.at_least and found.total else ""
    said = counted(found.total, "hit") if whole is None else of_whole(found, whole)
    hits: Line = (Span(f"{least}{said}", "ok" if found.total else "warn"),)
    if found.total > 1:
        hits = (*hits, Span(", best first", "dim"))
    if is_cut(found):
        hits = (*hits, Span(f", {len(found.hits):,} shown", "warn"))
    if share is not None:
        return [(*hits, Span(f"  searching … {share:.0%}", "dim"))]
    covered = found.coverage
    took = took_text(covered.elapsed_ms / 1000)
    lacks: list[Line] = [] if covered.full else [(Span(covered.missing, "warn"),)]
    kinds = ", ".join(counted(count, kind, NAMES[kind]) for kind, count in covered.searched.items() if count)
    texts = counted(sum(covered.searched.values()), "text")
    for searched in (f"{kinds or texts} searched, {took}", f"{texts} searched, {took}", f"{texts} searched"):
        line = (*hits, Span(f"  {searched}", "dim"))
        if cell_width(text_of(line)) < width:
            break
    return [line, *lacks]


def of_whole(found: Found, whole: Found) -> str:
    """How many hits there are of those without the narrowing."""
    return f"{found.total:,} of {whole.total_text} {'hit' if whole.total == 1 else 'hits'}"


def is_cut(found: Found) -> bool:
    """Whether there are more hits than are listed, or may be."""
    return found.at_least or found.total > len(found.hits)


def took_text(seconds: float) -> str:
    """How long a search took."""
    return f"{seconds:.1f} s" if seconds >= 0.1 else "under 0.1 s"


def nothing_text(found: Found) -> str:
    """Why nothing was found: which word is nowhere, and spellings that are there."""
    if not any(found.coverage.searched.values()):
        return "Nothing was searched: no text is like that. 0 in the list searches all."
    return " ".join(["Nothing found.", *(near.text for near in found.near)])
