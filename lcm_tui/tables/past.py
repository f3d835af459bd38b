"""A conversation as it was, for people: which point, what is not known, and what changed since."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import tzinfo
from typing import Final

from lcm_core.base.text import counted, some
from lcm_core.base.times import format_zoned, parse_utc
from lcm_core.change.plan import Ref
from lcm_core.operations.past import Doubt, Found, Since, since
from lcm_core.operations.past_point import Side

from lcm_tui.kit.spans import Line, Span
from lcm_tui.tables.blocks import Cell, Facts, Note, When
from lcm_tui.tables.blocks import OutputBlock as Block

#: Ids of one kind that are listed.
LISTED: Final = 8
#: Statements that stand above the rows of a screen.
ABOVE: Final = 2
#: What stands there for a statement that names ids: the help has all of it.
SHORT: Final[Mapping[Doubt, str]] = {
    Doubt.COMPACTED: "What the host compacted later is shown as its sources.",
    Doubt.MADE_LATER: "Some items are newer; what they replaced is not known.",
    Doubt.SAME_SECOND: "What came in that very second is shown; it may have come after.",
}


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
    facts.append(("Reversed", counted(len(found.cut.taken), "operation")))
    if found.snapshot is not None:
        name, made = found.snapshot
        facts.append(("Snapshot", f"{name} of {when(made)} (`show` of its id shows what was sent)"))
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
    names = (ref if isinstance(ref, str) else f"message {ref}" for ref in refs)
    return f"{len(refs):,}: {some(names, LISTED)}"


# -- in the app ------------------------------------------------------------------------------------------


def past_lines(found: Found, zone: tzinfo | None, key_of: Callable[[str], str], step: str = "") -> list[Line]:
    """The point, how to leave it, what changed since, and the first of what is not known.

    *step*: the how manieth of how many it is, in words.
    """
    changed = ", ".join(_counts(since(found.earlier), len(found.cut.taken)))
    parts = [
        f"{key_of('hunk-previous')} {key_of('hunk-next')} {step or 'step'}",
        *([f"{key_of('help')} details"] if any(one.doubt in SHORT for one in found.statements) else ()),
        *([f"then to now: {changed}"] if changed else ()),
    ]
    lines: list[Line] = [
        (Span(f" {moment_text(found, zone, titled=True)}", "warn"),),
        (Span(f" {' · '.join(parts)}", "dim"),),
    ]
    doubts = [one for one in found.statements if not one.certain]
    lines += [(Span(f" ! {SHORT.get(one.doubt, one.text)}", "warn"),) for one in doubts[:ABOVE]]
    if len(doubts) > ABOVE:
        lines.append((Span(f" ! {len(doubts) - ABOVE:,} more: {key_of('help')} shows all", "warn"),))
    return lines


def moment_text(found: Found, zone: tzinfo | None, *, titled: bool = False) -> str:
    """As `point_text`; a second before a compaction of the host by that; *titled*: what the change did."""
    when, beside = _when(zone), found.cut.beside
    if found.compaction is None and beside is not None and titled:
        side = "before" if found.cut.point.side is Side.BEFORE else "after"
        return f"as it was {side} {when(beside.created_at)}: {beside.title} ({beside.id})"
    if found.compaction is None:
        return point_text(when, found)
    return f"as it was before the compaction of {when(found.compaction)}"


def _counts(changed: Since, operations: int) -> Iterator[str]:
    for what, less, more in (
        ("items", changed.left, changed.joined),
        ("summaries", changed.gone, changed.made),
    ):
        if less or more:
            yield what + (f" -{len(less):,}" if less else "") + (f" +{len(more):,}" if more else "")
    if changed.changed:
        yield f"{len(changed.changed):,} rewritten"
    if operations:
        yield counted(operations, "operation")


def past_text(found: Found, zone: tzinfo | None) -> str:
    """All that is to be said of a point, as the help of a screen begins with it."""
    lines = [f"This is the past, {moment_text(found, zone)}; it is read-only."]
    lines += [one.text for one in found.statements]
    return "\n\n".join(lines)


def _when(zone: tzinfo | None) -> When:
    return lambda stored: format_zoned(parse_utc(stored), zone) or stored
