"""A conversation as it was, for people: which point, what is not known, and what changed since."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from lcm_core.change.plan import Ref
from lcm_core.past.point import Side
from lcm_core.past.reading import Found
from lcm_core.past.since import Since

from lcm_tui.views.blocks import Block, Cell, Facts, Note, When, counted

#: Ids of one kind that are listed.
LISTED: Final = 8
READ_ONLY: Final = "this is the past, which is read-only: ] leads back to the present"


def point_text(when: When, found: Found) -> str:
    """The point in a few words, as a title goes on with it."""
    one = found.cut.beside
    if one is None:
        return f"as it was at {when(found.cut.point.text) or found.cut.point.text}"
    side = "before" if found.cut.point.side is Side.BEFORE else "after"
    return f"as it was {side} {one.id} ({when(one.created_at)})"


def past_blocks(when: When, found: Found) -> Iterator[Block]:
    """Which point it is, what was taken back for it, and what is not known."""
    facts: list[tuple[str, Cell]] = [("Point", point_text(when, found))]
    if found.cut.beside is not None:
        facts.append(("Operation", found.cut.beside.title))
    facts.append(("Taken back", counted(len(found.cut.taken), "operation", "operations")))
    if found.snapshot is not None:
        name, made = found.snapshot
        facts.append(("Snapshot", f"{name} of {when(made)} (`context snapshots` shows what was sent)"))
    yield Facts(facts)
    yield from (Note(statement.text) for statement in found.statements)


def since_blocks(changed: Since, then: int, now: int) -> Iterator[Block]:
    """What changed since; *then* and *now* are the stored tokens of the context."""
    facts: list[tuple[str, Cell]] = [("Stored tokens", f"{then:,} then, {now:,} now ({now - then:+,})")]
    for label, refs in (
        ("Left the context", changed.left),
        ("Joined the context", changed.joined),
        ("Summaries made", changed.made),
        ("Summaries gone", changed.gone),
        ("Summaries changed", changed.changed),
    ):
        if refs:
            facts.append((label, named(refs)))
    yield Facts(facts)
    if not changed:
        yield Note("Nothing has changed since.")


def named(refs: Sequence[Ref]) -> str:
    """Some items or summaries by their ids, the first few of them."""
    shown = ", ".join(ref if isinstance(ref, str) else f"message {ref}" for ref in refs[:LISTED])
    more = len(refs) - LISTED
    return f"{len(refs):,}: {shown}" + (f" and {more:,} more" if more > 0 else "")
