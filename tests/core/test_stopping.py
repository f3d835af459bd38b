"""A call that is given up: really cancelled, told as a failure of the call and of nothing else."""

from __future__ import annotations

import asyncio

import pytest
from lcm_core.summarize.request import SummaryReply, SummaryRequest
from lcm_core.summarize.wrappers import StoppableSummarizer, StoppedError

REQUEST = SummaryRequest("text", aggressive=False, depth=0, target_tokens=10)


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
    assert (await summarizer(REQUEST)).text == "TEXT"


async def test_who_is_cancelled_cancels_the_call():
    writer = Writer()
    call = asyncio.ensure_future(StoppableSummarizer(writer)(REQUEST))
    await writer.asked.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.sleep(0)
    assert writer.cancelled == 1
