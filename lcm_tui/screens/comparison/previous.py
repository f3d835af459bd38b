"""The previous context of a summary as it was given, beside what a rewrite would be given now."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import tzinfo

from lcm_core.context_view import depth_name
from lcm_core.dag.previous import PreviousChoice
from lcm_core.diff import Diff, compare_lines
from lcm_core.records import SummaryId, SummaryText
from lcm_core.store.database import Reader
from lcm_core.store.summaries import texts_of
from lcm_core.summarize.source import previous_of
from lcm_core.text import safe_line
from lcm_core.wording import counted

from lcm_tui.screens.comparison.comparing import Comparing
from lcm_tui.screens.comparison.panes import HeadLines
from lcm_tui.session import Session
from lcm_tui.widgets.spans import Line, Span


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


class PreviousTexts(Comparing[GivenDiff]):
    """The two previous contexts of a summary."""

    waiting = "Reading the summaries …"

    def __init__(self, summary_id: SummaryId) -> None:
        self._summary_id = summary_id
        self.title = f"previous context of {safe_line(summary_id)}"

    async def load(self, session: Session) -> GivenDiff:
        """Read both as they are now."""
        old, new = await session.read(_read, self._summary_id)
        return GivenDiff(old, new, await asyncio.to_thread(compare_lines, old.lines, new.lines))

    def head_lines(self, data: GivenDiff | None, zone: tzinfo | None) -> HeadLines:
        """Both sides, and in how many lines they differ."""
        del zone
        first: list[Line] = [(Span("- ", "warn"), Span("as given (reconstructed)"))]
        second: list[Line] = [(Span("+ ", "ok"), Span("for a rewrite, now"))]
        if data is None:
            return [first, second]
        for line, text in ((first, data.old_text), (second, data.new_text)):
            said = f"{counted(text.summaries, 'summary')}, {text.tokens:,} tokens"
            line.append((Span(said if text.summaries else "nothing"),))
        said = f"lines -{data.diff.removed:,} +{data.diff.added:,}"
        return [first, second, [(Span(said if data.diff.hunks else "both are the same", "dim"),)]]

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
            kind = depth_name(one.depth)
            yield f"== {one.summary_id} · {kind}, {one.tokens:,} tokens"
            text = texts.get(one.summary_id)
            yield from ("(no longer in the database)" if text is None else text.content).split("\n")

    return GivenText(tuple(lines()), len(choice.nodes), sum(node.summary.tokens for node in choice.nodes))
