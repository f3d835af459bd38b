"""A conversation beside its Codex session: what one of them has and the other has not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lcm_core.diff import unified_text
from lcm_core.host.codex import Rollout, Spoken
from lcm_core.host.codex_compare import CodexDiff
from lcm_core.text import safe_line
from lcm_core.wording import counted

from lcm_tui.views.blocks import Block, Facts, Note, Prose

#: Rows, and problems of lines, that a line for people names.
MOST_NAMED = 8


def codex_blocks(found: CodexDiff) -> Iterator[Block]:
    """The two, line by line."""
    yield Facts(
        [
            ("- Codex", f"{safe_line(str(found.rollout.path))}: {codex_rows(found)}"),
            ("+ conversation", counted(len(found.new_text.rows), "row")),
            ("Only in Codex", _named(found.only_codex)),
            ("Only in the conversation", _named(found.only_conversation)),
            ("Elsewhere", counted(found.elsewhere, "row")),
            ("Alike", counted(found.same, "row")),
        ]
    )
    yield from (Note(line) for line in remarks(found))
    if found.diff.hunks:
        yield Prose("\n".join(unified_text(found.diff)))
    else:
        yield Note("Both say exactly the same.")


def codex_rows(found: CodexDiff) -> str:
    """How much of the file is compared."""
    read = found.rollout
    return f"{counted(len(read.rows), 'row')} from {counted(read.lines, 'line')}"


def remarks(found: CodexDiff) -> list[str]:
    """What was left out, or could not be read."""
    read = found.rollout
    said = []
    if found.older:
        older = counted(found.older, "older file")
        said.append(f"The thread has {older} too; the newest is compared. --rollout names another one.")
    if not found.complete:
        said.append("Only the beginning is compared: one of them is longer than what is read at a time.")
    if read.repeated:
        said.append(f"{counted(read.repeated, 'event')} only repeat a message and are left out.")
    if read.others:
        kinds = ", ".join(f"{safe_line(kind)} {count:,}" for kind, count in sorted(read.others.items()))
        said.append(f"Not compared, by type of line: {kinds}.")
    if read.refused is not None:
        said.append(f"`backfill --file` would not import it: {safe_line(read.refused)}.")
    said += _problems(read)
    return said


def _problems(read: Rollout) -> Iterator[str]:
    for one in read.problems.kept[:MOST_NAMED]:
        yield f"Line {one.line:,} is skipped: {safe_line(one.reason)}."
    if (rest := read.problems.count - MOST_NAMED) > 0:
        yield f"{counted(rest, 'more line')} could not be read."


def _named(rows: Sequence[Spoken]) -> str:
    if not rows:
        return "nothing"
    more = f" and {len(rows) - MOST_NAMED:,} more" if len(rows) > MOST_NAMED else ""
    named = ", ".join(f"{one.where} ({safe_line(one.role)})" for one in rows[:MOST_NAMED])
    return f"{counted(len(rows), 'row')}: {named}{more}"
