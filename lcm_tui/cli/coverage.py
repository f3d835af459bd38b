"""``summaries map``: what the summaries of a conversation cover, as text, JSON or an SVG picture."""

from __future__ import annotations

import shutil
import sys

from lcm_core.base.records import Conversation
from lcm_core.base.setting_values import Json
from lcm_core.base.text import depth_name, safe_line
from lcm_core.engine.coverage import WRONG, Coverage, Runs
from lcm_core.engine.coverage import CoverageBlock as Block
from lcm_core.engine.rules import configured, engine_rules
from lcm_core.engine.sessions import settings_for_session
from lcm_core.operations.stale import stale_in
from lcm_core.store.coverage import read_broken, read_coverage
from lcm_core.store.database import Reader

from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.documents import Document
from lcm_tui.cli.options import Selector
from lcm_tui.cli.selecting import chosen
from lcm_tui.kit.spans import text_of
from lcm_tui.tables.blocks import Facts, Note, Table, Verbatim
from lcm_tui.tables.blocks import OutputBlock as Printed
from lcm_tui.tables.blocks import OutputColumn as Column
from lcm_tui.tables.coverage import (
    legend,
    notes,
    picture,
    runs_text,
    scale_of,
    scale_text,
    state_text,
    sums,
    wrapped,
)

#: Cells of a line where there is no terminal.
WIDTH = 80
#: Summaries that the table of what is wrong lists.
LISTED = 50


def show(run: Run, named: Selector, width: int | None, *, letters: bool) -> Answer:
    """The map of a conversation; *width* None is that of the terminal."""
    conversation, coverage = run.read(_load, run, named)
    cells = width or (shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH)
    data = _document(conversation, coverage)
    return run.answer(
        "summaries.map", data, _blocks(conversation, coverage, cells, plain=letters or not _draws())
    )


def _draws() -> bool:
    """Whether standard output has the characters of the patterns."""
    try:
        "█░▒▚│▐╵".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


async def _load(reader: Reader, run: Run, named: Selector) -> tuple[Conversation, Coverage]:
    conversation = await chosen(reader, named)
    owner = conversation.conversation_id
    engine = settings_for_session(run.settings.engine, conversation.session_key)
    coverage = await read_coverage(reader, owner, configured(engine_rules(reader.schema), engine).tail)
    stale = {one.summary_id for one in await stale_in(reader, owner)}
    return conversation, coverage.marked(await read_broken(reader, owner), stale)


def _blocks(conversation: Conversation, coverage: Coverage, width: int, *, plain: bool) -> list[Printed]:
    lines = [text_of(line).rstrip() for line in picture(coverage, width, plain=plain)]
    lines += ["", *(text_of(line) for line in wrapped(legend(coverage, plain=plain), width))]
    head = f"Conversation {safe_line(conversation.called)} · {sums(coverage)}"
    scale = [] if not coverage.messages else [Note(f"{scale_text(scale_of(coverage, width))}.")]
    blocks: list[Printed] = [Note(head), Verbatim("\n".join(lines)), *scale]
    if found := notes(coverage):
        blocks.append(Facts(found))
    wrong = [block for block in coverage.blocks.values() if block.state in WRONG]
    if wrong:
        wrong.sort(key=lambda block: (WRONG.index(block.state), -block.depth, block.runs))
        columns = (Column("Summary"), Column("Depth"), Column("State"), Column("Messages", grows=True))
        rows = [
            (
                block.summary_id,
                depth_name(block.depth),
                state_text(block.state),
                runs_text(coverage, block.runs) or None,
            )
            for block in wrong[:LISTED]
        ]
        blocks.append(Table(columns, rows, title="Broken, orphan or stale"))
        if len(wrong) > LISTED:
            blocks.append(Note(f"{len(wrong) - LISTED:,} more: --json lists all."))
    return blocks


def _document(conversation: Conversation, coverage: Coverage) -> Document:
    def runs(found: Runs) -> list[Json]:
        return [
            {"firstSeq": coverage.seqs[first], "lastSeq": coverage.seqs[end - 1], "messages": end - first}
            for first, end in found
        ]

    def block(one: Block) -> Json:
        return {
            "summaryId": one.summary_id,
            "kind": one.kind,
            "state": one.state.name.lower(),
            "messages": one.messages,
            "runs": runs(one.runs),
            "coarse": one.coarse,
        }

    seqs, tail = coverage.seqs, coverage.tail
    return {
        "conversationId": conversation.conversation_id,
        "messages": len(seqs),
        "firstSeq": seqs[0] if seqs else None,
        "lastSeq": seqs[-1] if seqs else None,
        "states": {state.name.lower(): count for state, count in coverage.counts.items()},
        "levels": [
            {
                "depth": level.depth,
                "summaries": [block(one) for one in level.blocks],
                "coveredTwice": runs(level.doubled),
            }
            for level in coverage.levels
        ],
        "context": [
            {
                "firstSeq": seqs[piece.first],
                "lastSeq": seqs[piece.end - 1],
                "messages": piece.end - piece.first,
                "depth": piece.depth,
                "times": piece.times,
            }
            for piece in coverage.cut
        ],
        "notInContext": runs(coverage.lost),
        "twiceInContext": runs(coverage.doubled),
        "freshTail": {
            "firstSeq": seqs[tail] if tail < len(seqs) else None,
            "messages": len(seqs) - tail,
        },
        "withoutMessages": [block(one) for one in coverage.unplaced],
        "withoutRow": list(coverage.dangling),
    }
