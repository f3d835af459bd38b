"""What a question to the memory brought, as documents: the answer, and the evidence beside it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from typing import Final

from lcm_core.base.text import counted
from lcm_core.base.times import format_local, parse_utc
from lcm_recall.answer import REPEATS
from lcm_recall.ask import Asked
from lcm_recall.search import OTHER_SPELLING

from lcm_tui.kit.spans import Block, Document, Span, heading

NOBODY: Final = "No model was called: none is configured. This is the evidence found."
#: Cells before every line of a passage, where its mark is when it is selected.
MARGIN: Final = 2
UNASKED: Final = "No model was called and nothing was sent. This is the evidence found."


def answer_document(asked: Asked, note: str, spent: str = "") -> Document:
    """The question, and the answer with what is known of its citations; *note* where nobody answered."""
    blocks: list[Block] = [heading("Question"), Block(asked.question), Block()]
    if asked.answer is not None:
        blocks += [heading(f"Answer of {asked.model}"), Block(asked.answer), Block()]
        blocks.append(_citations(asked.citations))
        if asked.is_cut:
            blocks.append(Block("The answer was too long and was truncated.", "warn"))
        blocks += [Block(f"Citation removed: {one.citation} ({one.why}).", "warn") for one in asked.dropped]
    elif asked.failed is not None:
        blocks.append(Block(f"{asked.failed.message} This is the evidence found.", "warn"))
    else:
        blocks.append(Block(note, "dim"))
    if asked.unfound:
        blocks.append(Block(asked.unfound_text, "warn"))
    if spent:
        blocks += [Block(), Block(spent, "dim")]
    if asked.gaps:
        blocks.append(Block())
    blocks += [Block(f"Not searched or not shown: {gap}.", "warn") for gap in asked.gaps]
    return tuple(blocks)


def passage_at(block: int) -> int:
    """The passage, from 1, that a block of this document belongs to: three blocks for each."""
    return max(block - 1, 0) // 3 + 1


def blocks_of(passage: int) -> tuple[int, int]:
    """The blocks of a passage, from 1: its heading, and its text, which is the last."""
    return passage * 3 - 1, passage * 3


def passages_in(document: Document) -> int:
    """How many passages this document shows."""
    return (len(document) - 1) // 3


def _citations(citations: Sequence[str]) -> Block:
    if not citations:
        return Block("No citation could be verified: check the answer yourself.", "warn")
    return Block(f"Verified citations: {', '.join(citations)}", "ok")


def evidence_document(asked: Asked, zone: tzinfo | None) -> Document:
    """The passages, those of the answer first, each under its citation with the tokens that it counts."""
    if not asked.evidence:
        return heading("Evidence"), Block("No evidence was found.", "dim")
    said = f"Evidence: {counted(len(asked.evidence), 'passage')}, ~{asked.tokens:,} tokens"
    blocks: list[Block] = [heading(said)]
    for number, one in enumerate(asked.cited_first, 1):
        moment = parse_utc(one.at)
        when = one.at if moment is None else format_local(moment, zone)[:16]
        cited = (Span("cited  ", "ok"),) if one.citation in asked.citations else ()
        notes = [*([REPEATS] if one.repeats else []), *([OTHER_SPELLING] if one.other_spelling else [])]
        about = f"  {one.label}  {when}  conversation {one.conversation_id}  ~{one.tokens:,} tokens"
        blocks += [
            Block(),
            Block(
                indent=MARGIN,
                spans=(
                    Span(" " * MARGIN),
                    Span(f"{number} ", "key"),
                    *cited,
                    Span(one.citation, "key"),
                    Span(about, "dim"),
                    *(Span(f"  {note}", "warn") for note in notes),
                ),
            ),
            Block(one.text, indent=MARGIN),
        ]
    return tuple(blocks)
