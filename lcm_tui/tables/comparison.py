"""Comparisons for people: what two contexts send to the model, and a conversation with its Codex session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lcm_core.base.diff import unified_text
from lcm_core.base.text import counted, safe_line, safe_text, some
from lcm_core.engine.sent import ContextDiff, MessageKey, SentContext, SnapshotOrigin, names_of
from lcm_host.codex import CodexDiff, RolloutReading, Spoken

from lcm_tui.tables.blocks import Facts, Note, OutputBlock, Prose, When

#: Messages that a line for people names.
MOST_NAMED = 8


# -- two contexts ----------------------------------------------------------------------------------------
# How what they send to the model differs.


def comparison_blocks(when: When, found: ContextDiff, old: str, new: str) -> Iterator[OutputBlock]:
    """What two contexts send, line by line; *old* and *new* say which conversations they are of."""
    yield Facts(
        [
            ("- first", _told(when, found.old, old, beside=found.new)),
            ("+ second", _told(when, found.new, new, beside=found.old)),
            ("Only in the first", _named(found.only_old)),
            ("Only in the second", _named(found.only_new)),
            ("Changed", _named(found.changed)),
            ("Alike", counted(found.same, "message")),
        ]
    )
    if found.diff.hunks:
        yield Prose("\n".join(unified_text(found.diff)))
    else:
        yield Note("Both send exactly the same.")


def _told(when: When, one: SentContext, who: str, *, beside: SentContext) -> str:
    if one.taken is not None:
        who += f", {taken_words(one.taken, when(one.taken.created_at) or '')}"
    sent = f"{counted(len(one.messages), 'message')}, {one.sent_tokens:,} tokens"
    left_out = f"{counted(one.evicted_items, 'item')} not sent"
    rules = f", rules {safe_text(one.rules)}" if one.rules != beside.rules else ""
    return f"{who}{rules}, {one.budget:,} tokens: {sent}; {left_out}"


def taken_words(taken: SnapshotOrigin, time: str) -> str:
    """A snapshot, and what of it is shown."""
    lost = [
        f"{counted(taken.gone, 'message')} missing" if taken.gone else "",
        f"{counted(taken.not_kept, 'message')} of the host's own list" if taken.not_kept else "",
    ]
    how = " and ".join(filter(None, lost)) or ("" if taken.exact else "rows changed since")
    return f"snapshot {safe_text(taken.snapshot_id)} of {time}" + (f" ({how})" if how else "")


def _named(keys: Sequence[MessageKey]) -> str:
    if not keys:
        return "nothing"
    return f"{counted(len(keys), 'message')}: {some(names_of(keys[:MOST_NAMED]), MOST_NAMED, len(keys))}"


# -- a Codex session -------------------------------------------------------------------------------------
# What a conversation has and its Codex session has not, and the reverse.

#: Rows, and problems of lines, that a line for people names.


def codex_blocks(found: CodexDiff) -> Iterator[OutputBlock]:
    """The two, line by line."""
    yield Facts(
        [
            ("- Codex", f"{safe_line(str(found.rollout.path))}: {codex_rows(found)}"),
            ("+ conversation", counted(len(found.new_text.rows), "row")),
            ("Only in Codex", _codex_named(found.only_codex)),
            ("Only in the conversation", _codex_named(found.only_conversation)),
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
    return f"{counted(len(read.rows), 'row')} from {counted(read.reading.lines, 'line')}"


def remarks(found: CodexDiff) -> list[str]:
    """What was left out, or could not be read."""
    others, read = found.rollout.others, found.rollout.reading
    said = []
    if found.older:
        older = counted(found.older, "older file")
        said.append(f"The thread has {older} too; the newest is compared. --file names another one.")
    if not found.complete:
        said.append("Only the beginning is compared: one of them is longer than what is read at a time.")
    if read.repeated:
        said.append(f"{counted(read.repeated, 'event')} only repeat a message and are left out.")
    if others:
        kinds = ", ".join(f"{safe_line(kind)} {count:,}" for kind, count in sorted(others.items()))
        said.append(f"Not compared, by type of line: {kinds}.")
    if read.refused is not None:
        said.append(f"`backfill --file` would not import it: {safe_line(read.refused)}.")
    said += _problems(read)
    return said


def _problems(read: RolloutReading) -> Iterator[str]:
    for one in read.problems.kept[:MOST_NAMED]:
        yield f"Line {one.line:,} is skipped: {safe_line(one.reason)}."
    if (rest := read.problems.count - MOST_NAMED) > 0:
        yield f"{counted(rest, 'more line')} could not be read."


def _codex_named(rows: Sequence[Spoken]) -> str:
    if not rows:
        return "nothing"
    named = (f"{one.where} ({safe_line(one.role)})" for one in rows[:MOST_NAMED])
    return f"{counted(len(rows), 'row')}: {some(named, MOST_NAMED, len(rows))}"
