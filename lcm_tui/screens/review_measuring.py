"""What the text shown in a review keeps, loses and invents, beside the present text; measured in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from lcm_core.operations.drafting.draft import Material, text_below
from lcm_core.records import SummaryId
from lcm_core.summarize.retention import Retention, RetentionSource, measure, read_retention_source
from lcm_core.summarize.rulebook import Reversal

from lcm_tui import places
from lcm_tui.drafts import Work
from lcm_tui.screens.review_comparing import Comparing
from lcm_tui.screens.review_rows import Fact, Side, facts, facts_below, nothing_below
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.spans import Line
from lcm_tui.widgets.text import Block


@dataclass(frozen=True, slots=True)
class _Texts:
    """What is measured: a text, the present one beside it, and what both are held against."""

    text: str
    now: str
    source: str
    previous: str


@dataclass(frozen=True, slots=True)
class _Against:
    """A source text, read once, and what the present text keeps of it."""

    source: RetentionSource
    now: str
    previous: str
    before: Retention


class Measuring(Comparing):
    """A review with a pane of what is kept; enter on a line of it shows where that stands."""

    def __init__(self, work: Work, summary_id: SummaryId) -> None:
        super().__init__(work, summary_id)
        self.table = LineView[Fact](self._draw_fact, tall=True, empty="Measuring …", id="facts")
        self._direct: _Against | None = None
        self._below: _Against | None = None
        self._measured: _Texts | None = None
        self._kept: Retention | None = None

    def measure_again(self) -> None:
        """Measure the text shown, unless all that it is held against is what was measured last."""
        draft, text, material = self.draft, self.view.text, self.material
        if text is None or draft is None or material is None:
            return
        wanted = text if self.pair is None or self.pair.takes else draft.text
        texts = _Texts(wanted, material.base.content, material.source.text, material.previous.text)
        if texts != self._measured:
            self.work_on("measure", self._measure, material, texts)

    async def _measure(self, material: Material, texts: _Texts) -> None:
        """Against the direct sources first, then against the messages below, which takes longer."""
        self._direct, kept = await self._against(self._direct, texts.source, texts)
        self._measured, self._kept = texts, kept
        self.again()
        before = self._direct.before
        if not material.source.summaries:
            self.table.replace(facts(before, kept))
            return
        self.table.replace(facts(before, kept, nothing_below("…")))
        messages = await self.session.read(text_below, material.summary, self.work.batch.setting.rendering)
        if not messages:
            why = "not run: too many" if messages is None else "none is left"
            self.table.replace(facts(before, kept, nothing_below(why)))
            return
        self._below, below = await self._against(self._below, messages, texts)
        self.table.replace(facts(before, kept, facts_below(self._below.before, below)))

    async def _against(
        self, known: _Against | None, source_text: str, texts: _Texts
    ) -> tuple[_Against, Retention]:
        """Read the source unless that is *known*, and measure the present text and *text*."""
        estimator = self.work.batch.setting.rendering.rules.estimator

        def work() -> tuple[_Against, Retention]:
            against = known
            if against is None or (against.source.text, against.now, against.previous) != (
                source_text,
                texts.now,
                texts.previous,
            ):
                source = read_retention_source(source_text, previous=texts.previous, estimator=estimator)
                against = _Against(source, texts.now, texts.previous, measure(source, texts.now))
            return against, measure(against.source, texts.text)

        return await asyncio.to_thread(work)

    def _draw_fact(self, fact: Fact, width: int) -> Sequence[Line]:
        from lcm_tui.widgets.wrapped import WrappedBlock

        block = WrappedBlock(Block(spans=fact.line, indent=2), max(width - 1, 20))
        return [block.line(at) for at in range(len(block))]

    @property
    def turned(self) -> tuple[Reversal, ...] | None:
        """The rules that the text shown reverses; None while that is not known."""
        if self._kept is None or self._measured is None or self.draft is None:
            return None
        shown = self.view.text
        wanted = shown if shown is not None and (self.pair is None or self.pair.takes) else self.draft.text
        return self._kept.reversed if wanted == self._measured.text else None

    def spot(self) -> Fact | None:
        """The selected line, when it leads somewhere."""
        fact = self.table.selected
        return fact if fact is not None and fact.spot is not None else None

    def show_spot(self) -> None:
        """Show where what the selected line names stands, in the source or in the draft."""
        fact = self.spot()
        if fact is None or fact.spot is None or self._measured is None:
            return
        of_source = fact.spot.side is Side.SOURCE
        text = self._measured.source if of_source else self._measured.text
        title = f"{'Source' if of_source else 'Draft'} of {self.summary_id}"
        self.open(places.Source(title, text, fact.spot.start, fact.spot.end))
