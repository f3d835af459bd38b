"""What a text keeps, loses and invents of its source, beside the present text; measured in threads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from lcm_core.summarize.retention import Retention, RetentionSource, measure, read_retention_source
from lcm_core.summarize.rulebook import Reversal
from lcm_core.tokens import Estimator

from lcm_tui.views.retention import Fact, facts, facts_below, nothing_below


@dataclass(frozen=True, slots=True)
class Texts:
    """What is measured: a text, the present one beside it, and what both are held against."""

    text: str
    now: str
    source: str
    previous: str


@dataclass(frozen=True, slots=True)
class Against:
    """A source text, read once, and what the present text keeps of it."""

    source: RetentionSource
    now: str
    previous: str
    before: Retention


class Measurement:
    """What was measured last; a source that has not changed is not read again."""

    def __init__(self, estimator: Estimator) -> None:
        """*estimator* counts the tokens."""
        self._estimator = estimator
        self.texts: Texts | None = None
        self.direct: Against | None = None  #: the text that the summary is made from
        self.below: Against | None = None  #: the messages below a condensed summary
        self._kept: Retention | None = None

    def reversals_in(self, text: str) -> tuple[Reversal, ...] | None:
        """The rules that a text reverses; None when another one was measured."""
        if self._kept is None or self.texts is None or self.texts.text != text:
            return None
        return self._kept.reversed

    async def measure(
        self, texts: Texts, read_below: Callable[[], Awaitable[str | None]] | None
    ) -> AsyncIterator[tuple[Fact, ...]]:
        """Against the direct sources first, then against the messages below, which takes longer.

        *read_below* gives the text of those messages, None when they are too many; without it the summary is
        made from messages itself.
        """
        self.direct, kept = await self._against(self.direct, texts.source, texts)
        self.texts, self._kept = texts, kept
        before = self.direct.before
        if read_below is None:
            yield facts(before, kept)
            return
        yield facts(before, kept, nothing_below("…"))
        messages = await read_below()
        if not messages:
            why = "not run: too many" if messages is None else "none is left"
            yield facts(before, kept, nothing_below(why))
            return
        self.below, below = await self._against(self.below, messages, texts)
        yield facts(before, kept, facts_below(self.below.before, below))

    async def _against(
        self, known: Against | None, source_text: str, texts: Texts
    ) -> tuple[Against, Retention]:
        """Read the source unless that is *known*, and measure the present text and the other one."""

        def work() -> tuple[Against, Retention]:
            against = known
            if against is None or (against.source.text, against.now, against.previous) != (
                source_text,
                texts.now,
                texts.previous,
            ):
                source = read_retention_source(
                    source_text, previous=texts.previous, estimator=self._estimator
                )
                against = Against(source, texts.now, texts.previous, measure(source, texts.now))
            return against, measure(against.source, texts.text)

        return await asyncio.to_thread(work)
