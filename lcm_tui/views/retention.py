"""What a draft keeps, loses and invents, as lines: the present text beside the one that is proposed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lcm_core.summarize.identifiers import Identifier
from lcm_core.summarize.retention import KindCount, Retention
from lcm_core.summarize.rulebook import Checked, Sentence

from lcm_tui.widgets.spans import Line, Span, StyleName

#: Cells of a name, and of each of the two values.
NAME: Final = 14
VALUE: Final = 13


class Side(StrEnum):
    """The text in which a place is meant."""

    SOURCE = "source"
    DRAFT = "draft"


@dataclass(frozen=True, slots=True)
class Spot:
    """A place that enter leads to."""

    side: Side
    start: int  #: characters
    end: int


@dataclass(frozen=True, slots=True)
class Fact:
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
    yield from _rules(new)
    yield from _files(new)


def facts_below(old: Retention, new: Retention) -> Iterator[Fact]:
    """What the present text and the draft keep of the messages below a condensed summary."""
    before, after, verdicts = _said(old), _said(new), _verdicts(old, new)
    known, kept = len(new.kept) + len(new.lost), len(new.kept)
    names = f"{len(old.kept)}/{known}", f"{kept}/{known}"
    better = (kept > len(old.kept)) - (kept < len(old.kept))
    yield from _below(
        f"{new.source_tokens:,} tokens",
        _row("retention", before["retention"], after["retention"], verdicts["retention"]),
        _row("rules kept", before["rules kept"], after["rules kept"], verdicts["rules kept"]),
        _row("names kept", *names, better),
    )


def nothing_below(why: str) -> Iterator[Fact]:
    """The same lines while, or because, nothing is known of it."""
    yield from _below(why, *(_row(name, "", "—") for name in ("retention", "rules kept", "names kept")))


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
    yield Fact((Span(f"{'source':<{NAME}}", "dim"), Span(f"{new.source_tokens:>{VALUE * 2},} tokens")))
    for name, value in after.items():
        yield _row(name, before.get(name, "—"), value, verdicts.get(name, 0))


def _said(value: Retention) -> dict[str, str]:
    rules = f"{value.constraints_kept}/{value.constraints}"
    return {
        "tokens": f"{value.tokens:,}",
        "compression": "—" if value.compression is None else f"{value.compression:.1f}×",
        "retention": _percent(value.share),
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
        "retention": sign(new.share or 0.0, old.share or 0.0),
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


def _rules(new: Retention) -> Iterator[Fact]:
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
