"""The previous context of a summary as it was given, beside what a rewrite would be given now."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import ClassVar

from lcm_core.context_view import depth_name
from lcm_core.dag.previous import PreviousChoice
from lcm_core.diff import Diff, compare_lines
from lcm_core.records import SummaryId, SummaryText
from lcm_core.store.database import Reader
from lcm_core.store.summaries import texts_of
from lcm_core.summarize.source import previous_of
from lcm_core.text import safe_line
from lcm_core.wording import counted
from textual.strip import Strip

from lcm_tui.screens.comparison.comparing import Comparing
from lcm_tui.session import Session
from lcm_tui.views.sent import fitted
from lcm_tui.widgets.drawn import Drawn
from lcm_tui.widgets.spans import Line, Span, strip_of


@dataclass(frozen=True, slots=True)
class GivenText:
    """The summaries that are given, as lines under headings."""

    lines: tuple[str, ...]
    summaries: int
    tokens: int

    def heading_at(self, line: int) -> str:
        """The summary that a line belongs to."""
        above = (one for one in reversed(self.lines[: line + 1]) if one.startswith("== "))
        return next(above, "")


@dataclass(frozen=True, slots=True)
class GivenDiff:
    """What was given, what a rewrite would be given, and their difference."""

    old_text: GivenText
    new_text: GivenText
    diff: Diff


class GivenHead(Drawn):
    """Both sides in a line each, and the difference in one more."""

    SPEAKS: ClassVar[bool] = True
    DEFAULT_CSS = """
    GivenHead { height: 3; width: 1fr; background: $surface; }
    """

    def __init__(self) -> None:
        super().__init__(id="head")
        self._found: GivenDiff | None = None

    def show_diff(self, found: GivenDiff) -> None:
        """Say how the two differ."""
        self._found = found
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """One of the lines."""
        lines, width = self._lines(), self.size.width
        return strip_of(fitted(lines[y], width) if y < len(lines) else (), self.style_of, width)

    def _lines(self) -> Sequence[Sequence[Line]]:
        found = self._found
        first: list[Line] = [(Span("- ", "warn"), Span("as given (reconstructed)"))]
        second: list[Line] = [(Span("+ ", "ok"), Span("for a rewrite, now"))]
        if found is None:
            return [first, second]
        for line, text in ((first, found.old_text), (second, found.new_text)):
            said = f"{counted(text.summaries, 'summary')}, {text.tokens:,} tokens"
            line.append((Span(said if text.summaries else "nothing"),))
        said = f"lines -{found.diff.removed:,} +{found.diff.added:,}"
        return [first, second, [(Span(said if found.diff.hunks else "both are the same", "dim"),)]]


class PreviousTexts(Comparing[GivenDiff]):
    """The two previous contexts of a summary."""

    waiting = "Reading the summaries …"

    def __init__(self, summary_id: SummaryId) -> None:
        self._summary_id = summary_id
        self.title = f"previous context of {safe_line(summary_id)}"
        self.head: GivenHead = GivenHead()

    async def load(self, session: Session) -> GivenDiff:
        """Read both as they are now."""
        old, new = await session.read(_read, self._summary_id)
        return GivenDiff(old, new, await asyncio.to_thread(compare_lines, old.lines, new.lines))

    def say(self, data: GivenDiff, zone: tzinfo | None) -> None:
        """Both sides, and in how many lines they differ."""
        del zone
        self.head.show_diff(data)

    def id_of(self, heading: str) -> str | None:
        """The summary's."""
        return heading.removeprefix("== ").partition(" ")[0] or None


async def _read(reader: Reader, summary_id: SummaryId) -> tuple[GivenText, GivenText]:
    """Both texts, with the summaries in them.

    Raises:
        NotFoundError: the summary is gone.
    """
    found = await previous_of(reader, summary_id)
    choices = (found.as_given, found.for_rewrite)
    named = dict.fromkeys(node.summary_id for choice in choices for node in choice.nodes)
    texts = {text.summary.summary_id: text for text in await texts_of(reader, list(named))}
    old, new = (_given(choice, texts) for choice in choices)
    return old, new


def _given(choice: PreviousChoice, texts: dict[SummaryId, SummaryText]) -> GivenText:
    def lines() -> Iterator[str]:
        for node in choice.nodes:
            one = node.summary
            kind = "leaf" if one.depth == 0 else depth_name(one.depth)
            yield f"== {one.summary_id} · {kind}, {one.tokens:,} tokens"
            text = texts.get(one.summary_id)
            yield from ("(no longer in the database)" if text is None else text.content).split("\n")

    return GivenText(tuple(lines()), len(choice.nodes), sum(node.summary.tokens for node in choice.nodes))
