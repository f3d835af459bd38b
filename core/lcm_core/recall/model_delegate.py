"""A model in the place of the sub-agent that ``lcm_expand_query`` starts.

Source: docs/engine/recall.md, "A model as sub-agent". It is asked as any question is (`asking`), within the
one conversation and the tokens of its task, and what it cites is compared with what it was shown.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from lcm_core.errors import LcmError
from lcm_core.javascript import JsonObject
from lcm_core.recall.asking import Asked, AskLimits, Inquiry, forecast_of
from lcm_core.recall.delegation import (
    DEFAULT_ANSWER_TOKENS,
    MAX_BUCKETS,
    DelegationError,
    Task,
    timed_out,
)
from lcm_core.recall.parameters import Parameters
from lcm_core.recall.settings import RecallSettings
from lcm_core.store.database import Database
from lcm_core.store.searched import DocumentKind
from lcm_core.summarize.cost import Forecast, total_forecast
from lcm_core.summarize.replies import Model


@dataclass(frozen=True, slots=True)
class ModelDelegate:
    """Answers tasks by asking a model that somebody named."""

    database: Database
    settings: RecallSettings
    model: Model

    async def __call__(self, task: Task) -> str:
        """The reply to a task, of the form that a sub-agent's has.

        Raises:
            DelegationError: no answer came back.
        """
        limits = AskLimits(
            tokens=task.token_cap, answer_tokens=task.answer_tokens, seconds=max(0.0, task.seconds)
        )
        inquiry = Inquiry(self.database, self.settings, task.prompt, limits, (task.bucket.conversation_id,))
        try:
            await self._seed(inquiry, task)
            asked = await inquiry.ask(self.model)
        except LcmError as error:
            raise DelegationError("spawn", "SPAWN_FAILED", error.message) from None
        if asked.failed is not None:
            if asked.failed.code == "DEADLINE":
                raise DelegationError("wait", "TIMEOUT", timed_out(task.seconds))
            raise DelegationError("wait", "WAIT_FAILED", asked.failed.message)
        return _reply(asked)

    async def _seed(self, inquiry: Inquiry, task: Task) -> None:
        """Show what a task begins with: each summary gets an equal share of what is left."""
        seeds = task.bucket.summaries
        for number, summary_id in enumerate(seeds):
            share = (task.token_cap - inquiry.evidence.tokens) // (len(seeds) - number)
            await inquiry.show(summary_id, share, with_messages=summary_id in task.bucket.with_messages)


def _reply(asked: Asked) -> str:
    answer = asked.answer or ""
    if asked.dropped:
        names = ", ".join(one.citation for one in asked.dropped[:5])
        answer += f"\n\nCitations were left out that do not stand: {names}."
    read = {one.citation for one in asked.evidence if one.kind is DocumentKind.SUMMARY}
    return json.dumps(
        {
            "answer": answer,
            "citedIds": [one.partition("@")[0] for one in asked.citations],
            "expandedSummaryCount": len(read),
            "totalSourceTokens": asked.tokens,
            "truncated": asked.is_cut or bool(asked.gaps),
        }
    )


def query_forecast(model: Model, given: JsonObject, settings: RecallSettings) -> Forecast:
    """What ``lcm_expand_query`` takes when each first call answers, and at most. Nothing is sent.

    At most, all that may be shown is shown to every conversation that may be asked, in every call.
    """
    parameters = Parameters(given)
    cap, wanted = parameters.number("tokenCap"), parameters.number("maxTokens")
    limits = AskLimits(
        settings.max_expand_tokens if cap is None else max(1, cap),
        answer_tokens=DEFAULT_ANSWER_TOKENS if wanted is None else max(1, wanted),
    )
    one = forecast_of(model, parameters.text("prompt"), limits)
    return total_forecast([one] * (MAX_BUCKETS if parameters.flag("allConversations") else 1))
