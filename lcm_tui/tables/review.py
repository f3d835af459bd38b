"""The review of a draft: its head, and the report of what it keeps, loses and invents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

from lcm_core.base.text import counted
from lcm_core.base.values import Record
from lcm_core.operations.drafting import BatchItem, Draft, DraftOrigin, ItemState, Material
from lcm_core.writers.acceptance import reversal_sentence
from lcm_core.writers.identifiers import Identifier
from lcm_core.writers.retention import Checked, KindCount, Retention, Sentence, Worth

from lcm_tui.flows.drafts import Modelling, cost_text, key_text
from lcm_tui.kit.spans import Line, Span, StyleName
from lcm_tui.tables.drafts import assessment_of

# -- the head of a review --------------------------------------------------------------------------------
# Which draft this is, who wrote it, what was found in it, what is compared.

_MADE: Final = {DraftOrigin.FALLBACK: "truncated source, no model", DraftOrigin.MANUAL: "by hand"}


class Pair(Record, frozen=True):
    """Two texts that can be compared."""

    old_name: str
    old: str
    new_name: str
    new: str
    takes: bool  #: whether what is shown here may be put into the database


class ReviewState(Record, frozen=True):
    """What is known of the draft in sight."""

    item: BatchItem
    draft: Draft | None
    busy: str  #: what is being done
    trouble: str  #: why the draft no longer fits
    author: Modelling
    author_of_draft: Modelling | None = None  #: None: it is of an earlier run, and nobody knows
    kept: Retention | None = None  #: what the text shown keeps; None: not measured yet
    now: Retention | None = None  #: what the present text keeps
    pair: Pair | None = None  #: what is compared
    place: str = ""  #: which comparison it is of how many
    changes: str = ""  #: how many changes there are and how many are left out


def review_head_lines(material: Material, state: ReviewState) -> tuple[Line, ...]:
    """Five lines."""
    item, draft, pair = state.item, state.draft, state.pair
    lines: list[Line] = [_node(material, state)]
    if draft is None:
        lines.append((Span(f" {state.author.words}"), Span(f" · {key_text(state.author)}", "dim")))
        lines.append((Span(f" {state.busy or item.why}", "text" if state.busy else "warn"),))
        return tuple(lines)
    lines += [_draft(draft, len(item.drafts)), _who(draft, state.author_of_draft)]
    lines.append(_verdict(draft, material, state))
    if pair is not None:
        lines.append(
            (
                Span(f" - {pair.old_name}", "warn"),
                Span("  "),
                Span(f"+ {pair.new_name}", "ok"),
                Span("" if pair.takes else "  (read only)", "dim"),
                Span(f"  ({state.place})" if state.place else "", "dim"),
                Span(f"   {state.changes}"),
            )
        )
    return tuple(lines)


def _node(material: Material, state: ReviewState) -> Line:
    item, summary = state.item, material.summary
    gone, spoilt = len(material.source.gone), len(material.broken_sources)
    # What is measured is counted again: the stored number may be of another text, or of an older engine.
    now = summary.tokens if state.now is None else state.now.tokens
    stored = "" if now == summary.tokens else f" (the database counts {summary.tokens:,})"
    kind = "leaf" if summary.kind == "leaf" else f"condensed, depth {summary.depth}"
    given = len(material.previous.nodes)
    passed = len(material.previous.passed_over)
    before = f" · previous context: {counted(given, 'summary')} used" if given or passed else ""
    before += f", {passed} skipped" if passed else ""
    applied = item.state is ItemState.COMMITTED
    broken = material.broken.value if material.broken else ""
    return (
        Span(" applied ·" if applied else "", "ok"),
        Span(f" {kind} · now {now:,} tokens{stored}", "dim"),
        Span(f" · broken: {broken}" if broken else "", "error"),
        Span(f" · {gone} of its sources {'is' if gone == 1 else 'are'} missing" if gone else "", "warn"),
        Span(f" · {spoilt} broken among its sources: repair first" if spoilt else "", "warn"),
        Span(f" · {item.reason}" if item.reason not in {"", broken} and not applied else "", "dim"),
        Span(before, "dim"),
    )


def _draft(draft: Draft, count: int) -> Line:
    made = _MADE.get(draft.origin)
    # Nobody writes a text by hand to a size, and a condensation of little is asked for no more than there is.
    aimed = made is None and draft.target_tokens < draft.source_tokens - 1
    target = f" (target {draft.target_tokens:,})" if aimed else ""
    return (
        Span(f" draft {draft.number} of {count}", "title"),
        Span(f" · {made or f'{draft.model}, {draft.origin} mode'} · {draft.tokens:,} tokens{target}"),
        Span(f" from a source of {counted(draft.source_tokens, 'token')}", "dim"),
    )


def _who(draft: Draft, author: Modelling | None) -> Line:
    """What it cost and with which key."""
    if draft.origin not in (DraftOrigin.NORMAL, DraftOrigin.AGGRESSIVE):
        return (Span(" no cost · no model was called", "dim"),)
    key = "" if author is None else f" · {key_text(author)}"
    if draft.model == "extractive":
        key = " · offline: sentences of the source, no model was called"
    return (Span(f" cost: {cost_text(draft.usage.cost_usd)}{key}", "dim"),)


def _verdict(draft: Draft, material: Material, state: ReviewState) -> Line:
    """One line: what speaks against the draft, or what it keeps (docs/spec/retention.md, "Worth taking")."""
    if state.item.state is ItemState.COMMITTED:
        return (Span(" applied: U, then u undoes it", "ok"),)
    if state.trouble:
        return (Span(f" {state.trouble}", "error"),)
    if draft.origin is DraftOrigin.FALLBACK:
        return (
            Span(" This is the truncated source, not a summary: it is never accepted automatically.", "warn"),
        )
    if not draft.accepted:
        return (Span(f" Advised against: {' '.join(draft.sentences)}", "error"),)
    if state.kept is None:
        return (Span(" no problem so far; comparing it with the source …", "dim"),)
    if state.kept.reversed:
        return (Span(f" Advised against: {reversal_sentence(state.kept.reversed)}", "error"),)
    found = assessment_of(draft, material, state.kept, state.now)
    said: Line = (Span(f" {found.sentence}", _STYLES[found.worth]),)
    if draft.sentences:
        said = (*said, Span(f" {' '.join(draft.sentences)}", "warn"))
    elif state.item.why and state.item.why != found.sentence:
        said = (*said, Span(f" Not auto-accepted: {state.item.why}", "warn"))
    return said


_STYLES: Final[Mapping[Worth, StyleName]] = {
    Worth.WORSE: "error",
    Worth.POOR: "error",
    Worth.LONG: "warn",
    Worth.EVEN: "dim",
    Worth.FAIR: "text",
    Worth.GOOD: "ok",
}


# -- retention -------------------------------------------------------------------------------------------
# What a draft keeps, loses and invents, as lines: the present text beside the proposed one.

#: Cells of a name, and of each of the two values.
NAME: Final = 14
VALUE: Final = 13
#: The names and numbers that matter most, by weight (docs/spec/retention.md).
TOP: Final = "top names"


class Side(StrEnum):
    """The text in which a place is meant."""

    SOURCE = "source"
    DRAFT = "draft"


class Spot(Record, frozen=True):
    """A place that enter leads to."""

    side: Side
    start: int  #: characters
    end: int


class Fact(Record, frozen=True):
    """A line of the pane; equal when it says the same of the same thing."""

    line: Line
    spot: Spot | None = None


def facts(old: Retention | None, new: Retention, below: Iterable[Fact] = ()) -> tuple[Fact, ...]:
    """The whole pane; *old*: of the present text, None when it has none worth measuring.

    *below*: what is kept of the messages below a condensed summary.
    """
    return tuple(_facts(old, new, below))


def _facts(old: Retention | None, new: Retention, below: Iterable[Fact]) -> Iterator[Fact]:
    yield Fact((Span(f"{'':<{NAME}}{'now':>{VALUE}}{'draft':>{VALUE}}", "heading"),))
    yield from _numbers(old, new)
    yield from _reversed(new)
    yield Fact(())
    yield from below
    yield Fact((Span(f"{'ids kept':<{NAME}}{'now':>{VALUE}}{'draft':>{VALUE}}", "heading"),))
    yield from _classes(old, new)
    yield from _identifiers("Invented", new.invented, Side.DRAFT, frozenset(), style="error")
    if not new.people_checked:
        yield Fact((Span("people: not checked (no capitals tell names here)", "dim"),))
    yield from _identifiers("Lost", new.lost, Side.SOURCE, _known(old), better="now has it")
    yield from _retention_rules(new)
    yield from _files(new)


def facts_below(old: Retention, new: Retention) -> Iterator[Fact]:
    """What the present text and the draft keep of the messages below a condensed summary."""
    before, after, verdicts = _said(old), _said(new), _verdicts(old, new)
    known, kept = len(new.kept) + len(new.lost), len(new.kept)
    names = f"{len(old.kept)}/{known}", f"{kept}/{known}"
    better = (kept > len(old.kept)) - (kept < len(old.kept))
    yield from _below(
        f"{new.source_tokens:,} tokens",
        _row(TOP, before[TOP], after[TOP], verdicts[TOP]),
        _row("rules kept", before["rules kept"], after["rules kept"], verdicts["rules kept"]),
        _row("names kept", *names, better),
    )


def nothing_below(why: str) -> Iterator[Fact]:
    """The same lines while, or because, nothing is known of it."""
    yield from _below(why, *(_row(name, "", "—") for name in (TOP, "rules kept", "names kept")))


def _below(size: str, *rows: Fact) -> Iterator[Fact]:
    yield Fact((Span(f"{'vs. messages':<{NAME}}{'now':>{VALUE}}{'draft':>{VALUE}}", "heading"),))
    yield Fact((Span(f"{'source':<{NAME}}", "dim"), Span(f"{size:>{VALUE * 2}}")))
    yield from rows
    yield Fact(())


def _row(name: str, old: str, new: str, verdict: int = 0) -> Fact:
    """A number of both; *verdict*: 1 the draft is better, -1 it is worse."""
    style: StyleName = "ok" if verdict > 0 else "warn" if verdict < 0 else "text"
    sign = " +" if verdict > 0 else " -" if verdict < 0 else "  "
    return Fact(
        (
            Span(f"{name:<{NAME}}", "dim"),
            Span(f"{old:>{VALUE}}", "dim"),
            Span(f"{new:>{VALUE}}"),
            Span(sign, style),
        )
    )


def _numbers(old: Retention | None, new: Retention) -> Iterator[Fact]:
    before, after = {} if old is None else _said(old), _said(new)
    verdicts = {} if old is None else _verdicts(old, new)
    yield Fact((Span(f"{'source':<{NAME}}", "dim"), Span(f"{f'{new.source_tokens:,} tokens':>{VALUE * 2}}")))
    for name, value in after.items():
        yield _row(name, before.get(name, "—"), value, verdicts.get(name, 0))


def _said(value: Retention) -> dict[str, str]:
    rules = f"{value.constraints_kept}/{value.constraints}"
    return {
        "tokens": f"{value.tokens:,}",
        "compression": "—" if value.compression is None else f"{value.compression:.1f}×",
        TOP: _percent(value.share),
        "rules kept": "not checked" if value.rules_checked is Checked.NONE else rules,
        "times": _percent(value.times.share),
        "Files: line": _file_words(value),
        "expand line": "yes" if value.closing is not None else "missing",
        "copied": _percent(value.copied),
    }


def _verdicts(old: Retention, new: Retention) -> dict[str, int]:
    def sign(one: float, other: float) -> int:
        return (one > other) - (one < other)

    return {
        TOP: sign(new.share or 0.0, old.share or 0.0),
        "rules kept": 0
        if Checked.NONE in (old.rules_checked, new.rules_checked)
        else sign(new.constraints_kept, old.constraints_kept),
        "times": sign(new.times.share or 0.0, old.times.share or 0.0),
        "expand line": sign(new.closing is not None, old.closing is not None),
    }


def _percent(share: float | None) -> str:
    return "—" if share is None else f"{share * 100:.0f} %"


def _file_words(value: Retention) -> str:
    files = value.files
    if not files.stated:
        return "missing"
    return "says none" if files.says_none else "yes"


def _classes(old: Retention | None, new: Retention) -> Iterator[Fact]:
    """Kept of how many by class, and with ``+n`` the invented ones."""
    before = {} if old is None else {one.kind: one for one in old.classes}
    if not new.classes:
        yield Fact((Span("The source contains no identifiers of the counted kinds.", "dim"),))
    for one in new.classes:
        was = before.get(one.kind)
        verdict = 0 if was is None else (one.kept > was.kept) - (one.kept < was.kept)
        yield _row(str(one.kind), "—" if was is None else _count(was), _count(one), verdict)


def _count(one: KindCount) -> str:
    return f"{one.kept}/{one.in_source}" + (f" +{one.invented}" if one.invented else "")


def _known(old: Retention | None) -> frozenset[tuple[str, str]]:
    return frozenset() if old is None else frozenset((one.kind, one.key) for one in old.kept)


def _identifiers(
    title: str,
    found: Sequence[Identifier],
    side: Side,
    elsewhere: frozenset[tuple[str, str]],
    *,
    better: str = "",
    style: StyleName = "text",
) -> Iterator[Fact]:
    if not found:
        if side is Side.DRAFT:
            yield from _heading(title, "nothing")
        return
    yield from _heading(title, f"{len(found):,}")
    for one in found:
        first, last = one.places[-1]
        spans = [Span(f"{one.kind!s:<9}", "dim"), Span(one.text, style)]
        if one.count > 1:
            spans.append(Span(f"  ×{one.count}", "dim"))
        if (one.kind, one.key) in elsewhere:
            spans.append(Span(f"  {better}", "warn"))
        yield Fact(tuple(spans), Spot(side, first, last))


def _heading(title: str, count: str) -> Iterator[Fact]:
    yield Fact(())
    yield Fact((Span(f"{title}: {count}", "heading"),))


def _sentences(found: Iterable[Sentence]) -> Iterator[Fact]:
    for one in found:
        yield Fact((Span("- ", "dim"), Span(one.text)), Spot(Side.SOURCE, *one.place))


def _reversed(new: Retention) -> Iterator[Fact]:
    """The worst first: rules that the draft tells as their opposite, with both places."""
    if not new.reversed:
        return
    yield from _heading("Rules that this draft reverses", f"{len(new.reversed):,}")
    for one in new.reversed:
        rule, draft = one.rule, one.draft
        yield Fact((Span("source ", "dim"), Span(rule.text)), Spot(Side.SOURCE, *rule.place))
        yield Fact(
            (Span("draft  ", "dim"), Span(draft.text, "error"), Span(f"  {one.words}", "warn")),
            Spot(Side.DRAFT, *draft.place),
        )


def _retention_rules(new: Retention) -> Iterator[Fact]:
    if new.rules_checked is not Checked.ALL:
        words = f"rules: {new.rules_checked.words} (text in another language)"
        yield Fact((Span(words, "dim"),))
    if new.constraints_lost:
        yield from _heading("Rules that were lost", f"{len(new.constraints_lost):,}")
        yield from _sentences(new.constraints_lost)


def _files(new: Retention) -> Iterator[Fact]:
    for title, found, side in (
        ("Files that its line does not name", new.files.missing, Side.SOURCE),
        ("Files that only its line names", new.files.unknown, Side.DRAFT),
    ):
        if found:
            yield from _heading(title, f"{len(found):,}")
            for one in found:
                yield Fact((Span(one.text),), Spot(side, *one.places[-1]))
