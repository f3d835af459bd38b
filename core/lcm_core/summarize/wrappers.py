"""Wrappers around a summariser: one whose call can be stopped, one that reuses answers that were paid for."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import replace
from typing import ClassVar, Final

from lcm_core.summarize.request import (
    NO_USAGE,
    Summarizer,
    SummarizerError,
    SummaryReply,
    SummaryRequest,
    Usage,
)


class StoppedError(SummarizerError):
    """The operator stopped the call; there is no answer."""

    default_code: ClassVar[str] = "CANCELLED"


class StoppableSummarizer:
    """Passes requests on to *writer*; `stop` really cancels the one that is being answered.

    The caller gets a `StoppedError`, as for a call that failed; a commit that runs meanwhile continues.
    """

    def __init__(self, writer: Summarizer) -> None:
        self._writer = writer
        self._call: asyncio.Task[SummaryReply] | None = None
        self._stopped = False

    async def __call__(self, request: SummaryRequest, /) -> SummaryReply:
        """Summarise."""
        self._stopped = False
        self._call = asyncio.ensure_future(self._ask(request))
        try:
            return await self._call
        except asyncio.CancelledError:
            if not self._stopped:
                self._call.cancel()  # the caller itself was cancelled
                raise
            raise StoppedError("The call was given up; what was made before stays.") from None
        finally:
            self._call = None

    async def _ask(self, request: SummaryRequest) -> SummaryReply:
        return await self._writer(request)

    @property
    def is_asking(self) -> bool:
        """Whether a call is being answered."""
        return self._call is not None

    def stop(self) -> bool:
        """Give up the call that is being answered; False when there is none."""
        if self._call is None:
            return False
        self._stopped = True
        return self._call.cancel()


#: Answers that are kept; of more, the oldest go. One is seldom longer than some thousand characters.
MOST_REPLIES: Final = 64


class ReplyCache:
    """Answers by who was asked for what. It may be shared by several writers, one after the other."""

    def __init__(self) -> None:
        self._held: OrderedDict[tuple[str, SummaryRequest], SummaryReply] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def find(self, who: str, request: SummaryRequest) -> SummaryReply | None:
        """The answer to exactly this request."""
        return self._held.get((who, request))

    def keep(self, who: str, request: SummaryRequest, reply: SummaryReply) -> None:
        """Keep an answer."""
        self._held[who, request] = reply
        while len(self._held) > MOST_REPLIES:
            self._held.popitem(last=False)

    def forget(self, who: str, request: SummaryRequest) -> None:
        """Drop an answer, if it is kept."""
        self._held.pop((who, request), None)


class CachingSummarizer:
    """A summariser that asks *writer* only for what is not among the *kept* answers."""

    def __init__(self, writer: Summarizer, who: str, kept: ReplyCache) -> None:
        """*who* names the writer: the answer of another one is another answer."""
        self._writer = writer
        self._who = who
        self._kept = kept
        self._open: list[SummaryRequest] = []  #: asked since the last `settle`
        self.spent: Usage = NO_USAGE  #: by all calls that were really made

    async def __call__(self, request: SummaryRequest, /) -> SummaryReply:
        """The answer; one that was kept costs nothing any more.

        Raises:
            SummarizerError: no answer came back.
        """
        self._open.append(request)
        held = self._kept.find(self._who, request)
        if held is not None:
            return replace(held, usage=NO_USAGE)
        reply = await self._writer(request)
        self.spent += reply.usage
        self._kept.keep(self._who, request, reply)
        return reply

    def settle(self, *, keep: bool = False) -> None:
        """What was asked since the last time is decided: its answers go, unless they are to be kept."""
        for request in self._open if not keep else ():
            self._kept.forget(self._who, request)
        self._open.clear()
