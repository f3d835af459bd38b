"""How what two contexts send to the model differs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lcm_core.assemble.compare import ContextDiff, SentContext, SnapshotOrigin, names_of
from lcm_core.assemble.ledger import MessageKey
from lcm_core.diff import unified_text
from lcm_core.text import safe_text
from lcm_core.wording import counted

from lcm_tui.views.blocks import Block, Facts, Note, Prose, When

#: Messages that a line for people names.
MOST_NAMED = 8


def comparison_blocks(when: When, found: ContextDiff, old: str, new: str) -> Iterator[Block]:
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
    more = f" and {len(keys) - MOST_NAMED:,} more" if len(keys) > MOST_NAMED else ""
    return f"{counted(len(keys), 'message')}: {', '.join(names_of(keys[:MOST_NAMED]))}{more}"
