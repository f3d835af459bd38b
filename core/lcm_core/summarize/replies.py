"""Somebody who is asked in words of one's own, and the JSON in what comes back, whatever is around it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final, Protocol

from lcm_core.javascript import Json, read_json, trimmed
from lcm_core.summarize.cost import CallLoad
from lcm_core.summarize.request import SummaryReply

_FENCE: Final = re.compile(r"```(?:json)?[^\S\n]*\n?(.*?)```", re.DOTALL | re.IGNORECASE)


class Model(Protocol):
    """A model that can be called; `ModelSummarizer` is one."""

    @property
    def name(self) -> str:
        """Who it is, for people."""

    async def say(self, system: str, user: str, target_tokens: int) -> SummaryReply:
        """The answer to one request.

        Raises:
            SummarizerError: none came back.
        """

    def load_of(self, system: str, user: str, target_tokens: int, more_tokens: int = 0) -> CallLoad:
        """What such a call takes at most; nothing is sent."""


def fenced(text: str) -> str | None:
    """What stands in the first code fence of a model's reply; None where there is no fence."""
    found = _FENCE.search(text)
    return None if found is None else trimmed(found[1])


def form_in(text: str, forms: Collection[str]) -> Mapping[str, Json] | None:
    """The object of a reply that has one of the members *forms*.

    None for a text that is none, an empty one for JSON of another form.
    """
    inside = text[text.find("{") : text.rfind("}") + 1]
    for candidate in (text, fenced(text) or "", inside):
        try:
            value = read_json(candidate)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, Mapping) and not set(forms).isdisjoint(value):
            return value
        if candidate is text and not isinstance(value, str):
            return {}
    return None
