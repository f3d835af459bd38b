"""Wrappers around a summariser: a call that is stopped, and answers that are paid for once."""

from __future__ import annotations

import asyncio

import pytest
from lcm_core.base.values import replace
from lcm_core.writers.request import SummaryReply, SummaryRequest, Usage
from lcm_core.writers.wire import CachingSummarizer, ReplyCache, StoppableSummarizer, StoppedError

MOST_REPLIES = 64

REQUEST = SummaryRequest("what was said", aggressive=False, depth=0, target_tokens=100)
COST = Usage(10, 5, 0.25)


class Writer:
    """Answers when it may."""

    def __init__(self) -> None:
        self.goes_on, self.asked, self.cancelled = asyncio.Event(), asyncio.Event(), 0

    async def __call__(self, request: SummaryRequest, /) -> SummaryReply:
        self.asked.set()
        try:
            await self.goes_on.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return SummaryReply(request.text.upper())


async def test_a_call_is_answered_and_another_one_given_up():
    writer = Writer()
    summarizer = StoppableSummarizer(writer)
    assert summarizer.stop() is False
    call = asyncio.ensure_future(summarizer(REQUEST))
    await writer.asked.wait()
    assert summarizer.is_asking
    assert summarizer.stop() is True
    with pytest.raises(StoppedError):
        await call
    assert (writer.cancelled, summarizer.is_asking) == (1, False)
    writer.goes_on.set()
    assert (await summarizer(REQUEST)).text == "WHAT WAS SAID"


async def test_who_is_cancelled_cancels_the_call():
    writer = Writer()
    call = asyncio.ensure_future(StoppableSummarizer(writer)(REQUEST))
    await writer.asked.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.sleep(0)
    assert writer.cancelled == 1


class Counting:
    """A writer that counts its calls and says how manieth an answer is."""

    def __init__(self) -> None:
        self.calls = 0

    async def __call__(self, request: SummaryRequest, /) -> SummaryReply:
        self.calls += 1
        return SummaryReply(f"{request.text} {self.calls}", usage=COST)


async def test_the_same_request_is_paid_for_once_while_its_answer_is_kept():
    writer, kept = Counting(), ReplyCache()
    first = CachingSummarizer(writer, "a model", kept)
    assert (await first(REQUEST)).usage == COST
    first.settle(keep=True)
    second = CachingSummarizer(writer, "a model", kept)
    again = await second(REQUEST)
    assert (again.text, again.usage) == ("what was said 1", Usage(cost_usd=0.0))
    assert (writer.calls, first.spent.cost_usd, second.spent.cost_usd) == (1, 0.25, 0.0)
    second.settle()
    assert len(kept) == 0
    assert (await second(REQUEST)).text == "what was said 2"


async def test_another_request_and_another_writer_are_asked():
    writer, kept = Counting(), ReplyCache()
    ask = CachingSummarizer(writer, "a model", kept)
    for request in (REQUEST, replace(REQUEST, aggressive=True), replace(REQUEST, previous="before")):
        await ask(request)
    await CachingSummarizer(writer, "another model", kept)(REQUEST)
    assert (writer.calls, len(kept)) == (4, 4)
    assert ask.spent.input_tokens == 30


async def test_only_so_many_are_kept():
    kept = ReplyCache()
    ask = CachingSummarizer(Counting(), "a model", kept)
    for number in range(MOST_REPLIES + 3):
        await ask(replace(REQUEST, depth=number))
    assert len(kept) == MOST_REPLIES
    assert kept.find("a model", replace(REQUEST, depth=2)) is None
    assert kept.find("a model", replace(REQUEST, depth=3)) is not None
