"""The levels below a summary for both faces: what each holds and costs; the texts of one as a document."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from itertools import accumulate

from lcm_core.context_view import depth_name
from lcm_core.recall.levels import Level
from lcm_core.recall.read import Passage
from lcm_core.times import format_local, parse_utc
from lcm_core.wording import counted

from lcm_tui.views.blocks import Column, Table
from lcm_tui.widgets.spans import Span
from lcm_tui.widgets.wrapped import Block, Document


def level_text(level: Level) -> str:
    """What is on a level: ``4 D1 summaries, 12 messages``."""
    found = [
        f"{number:,} {depth_name(depth)} {'summary' if number == 1 else 'summaries'}"
        for depth, number in level.depths
    ]
    found += [counted(len(level.messages), "message")] if level.messages else []
    found += [f"{level.missing:,} missing"] if level.missing else []
    return ", ".join(found)


def totals(levels: Sequence[Level]) -> list[int]:
    """The tokens of each level and of all above it: what it costs to read so far down."""
    return list(accumulate(one.tokens for one in levels))


def levels_table(levels: Sequence[Level]) -> Table:
    """The levels as a table; tokens as stored."""
    return Table(
        [
            Column("Level", right=True),
            Column("Contains", grows=True),
            Column("Tokens", right=True),
            Column("Tokens to here", right=True),
        ],
        [
            (level.number, level_text(level), level.tokens, total)
            for level, total in zip(levels, totals(levels), strict=True)
        ],
    )


def passages_document(passages: Sequence[Passage], zone: tzinfo | None) -> Document:
    """Texts one below the other, each under its citation with the tokens that it counts."""
    blocks: list[Block] = []
    for one in passages:
        moment = parse_utc(one.at)
        when = one.at if moment is None else format_local(moment, zone)[:16]
        part = "  continued" if one.start else ""
        about = f"  {one.label}  {when}  ~{one.tokens:,} tokens{part}"
        blocks += [Block()] if blocks else []
        blocks += [Block(spans=(Span(one.citation, "key"), Span(about, "dim"))), Block(one.text, indent=2)]
    return tuple(blocks)
