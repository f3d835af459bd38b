"""A summariser whose call can be given up, while nothing else of what asked for it is."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from lcm_core.summarize.request import Summarizer, SummarizerError, SummaryReply, SummaryRequest


class StoppedError(SummarizerError):
    """The operator gave the call up; nothing came of it."""

    default_code: ClassVar[str] = "CANCELLED"


class Stoppable:
    """Passes requests on to *writer*; `stop` really cancels the one that is being answered.

    Whoever called gets a `StoppedError`, as for a call that failed: a commit that runs meanwhile goes on.
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
