"""``summaries --map``: what the summaries of a conversation cover, as a picture or JSON."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable

from lcm_core.base.records import Conversation
from lcm_core.base.setting_values import Json
from lcm_core.base.text import safe_line
from lcm_core.engine.coverage import WRONG, Coverage
from lcm_core.engine.coverage import CoverageBlock as Block
from lcm_core.engine.rules import configured, engine_rules
from lcm_core.engine.sessions import settings_for_session
from lcm_core.operations.stale import read_wrong
from lcm_core.store.coverage import read_coverage
from lcm_core.store.database import Reader

from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.documents import Document
from lcm_tui.cli.options import Named
from lcm_tui.cli.selecting import chosen
from lcm_tui.kit.spans import text_of
from lcm_tui.tables.blocks import Facts, Note, Verbatim, When, json_of, list_table
from lcm_tui.tables.blocks import OutputBlock as Printed
from lcm_tui.tables.coverage import (
    BLOCK_COLUMNS,
    BlockRow,
    legend,
    notes,
    picture,
    runs_json,
    scale_of,
    scale_text,
    sums,
    wrapped,
)

#: Cells of a line where there is no terminal.
WIDTH, _LEAST = 80, 20
#: Summaries that the table of what is wrong lists.
LISTED = 50


def draw(run: Run, named: Named) -> Answer:
    """The map of a conversation, as wide as the terminal or ``COLUMNS``."""
    conversation, coverage = run.read(_load, run, named)
    cells = max(_LEAST, shutil.get_terminal_size((WIDTH, 0)).columns)
    data = _document(conversation, coverage)
    plain = not (run.presentation.color and _draws())
    return run.answer("summaries.list", data, _blocks(run.time, conversation, coverage, cells, plain=plain))


def _draws() -> bool:
    """Whether standard output has the characters of the patterns."""
    try:
        "█░▒▚│▐╵".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


async def _load(reader: Reader, run: Run, named: Named) -> tuple[Conversation, Coverage]:
    conversation = await chosen(reader, named)
    owner = conversation.conversation_id
    engine = settings_for_session(run.settings.engine, conversation.session_key)
    coverage = await read_coverage(reader, owner, configured(engine_rules(reader.schema), engine).tail)
    return conversation, coverage.marked(await read_wrong(reader, owner))


def _blocks(
    when: When, conversation: Conversation, coverage: Coverage, width: int, *, plain: bool
) -> list[Printed]:
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
        rows = [BlockRow(coverage, block) for block in wrong[:LISTED]]
        blocks.append(list_table(BLOCK_COLUMNS, rows, when, title="Broken, orphan or stale"))
        if len(wrong) > LISTED:
            blocks.append(Note(f"{len(wrong) - LISTED:,} more: --json lists all."))
    return blocks


def _document(conversation: Conversation, coverage: Coverage) -> Document:
    def summaries(blocks: Iterable[Block]) -> list[Json]:
        return [json_of(BLOCK_COLUMNS, BlockRow(coverage, one)) for one in blocks]

    seqs, tail = coverage.seqs, coverage.tail
    pieces = runs_json(coverage, [(piece.first, piece.end) for piece in coverage.cut])
    return {
        "conversationId": conversation.conversation_id,
        "messages": len(seqs),
        "firstSeq": seqs[0] if seqs else None,
        "lastSeq": seqs[-1] if seqs else None,
        "states": {state.name.lower(): count for state, count in coverage.counts.items()},
        "levels": [
            {
                "depth": level.depth,
                "summaries": summaries(level.blocks),
                "coveredTwice": runs_json(coverage, level.doubled),
            }
            for level in coverage.levels
        ],
        "context": [
            {**one, "depth": piece.depth, "times": piece.times}
            for piece, one in zip(coverage.cut, pieces, strict=True)
        ],
        "notInContext": runs_json(coverage, coverage.lost),
        "twiceInContext": runs_json(coverage, coverage.doubled),
        "freshTail": {
            "firstSeq": seqs[tail] if tail < len(seqs) else None,
            "messages": len(seqs) - tail,
        },
        "withoutMessages": summaries(coverage.unplaced),
        "withoutRow": list(coverage.dangling),
    }
