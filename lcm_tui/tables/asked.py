"""What a question to the memory brought, as documents: the answer, and the evidence beside it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from typing import Final

from lcm_core.base.text import counted
from lcm_recall.ask import Asked

from lcm_tui.kit.spans import Block, Document, Span, heading
from lcm_tui.tables.blocks import minute_text

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
    elif asked.failed is None:
        blocks.append(Block(note, "dim"))
    blocks += [Block(one, "warn") for one in asked.remarks]
    if spent:
        blocks += [Block(), Block(spent, "dim")]
    if asked.gaps:
        blocks.append(Block())
    blocks += [Block(one, "warn") for one in asked.gap_texts]
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
        cited = (Span("cited  ", "ok"),) if one.citation in asked.citations else ()
        when = minute_text(one.at, zone)
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
                    *(Span(f"  {note}", "warn") for note in one.notes),
                ),
            ),
            Block(one.text, indent=MARGIN),
        ]
    return tuple(blocks)
