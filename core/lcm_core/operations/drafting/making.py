"""Drafts of one summary: normal, aggressive, and the deterministic cut, which nothing commits by itself."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from lcm_core.operations.drafting.material import Base, Material, Setting, request_for
from lcm_core.records import SummaryId
from lcm_core.summarize.acceptance import DraftVerdict, judge, judge_text, without_wrapping
from lcm_core.summarize.escalate import fallback
from lcm_core.summarize.request import NO_USAGE, Summarizer, SummaryReply, SummaryRequest, Usage
from lcm_core.summarize.retention import Retention, measure, read_retention_source
from lcm_core.times import iso_z
from lcm_core.tokens import estimate

#: What ``summaries.model`` records for a text that a person wrote.
MANUAL: Final = "manual"
#: What it records for a cut of the source.
CUT: Final = "unknown"
#: Half characters that no UTF-8 can hold; those that stand for undecodable bytes are left as they are.
_UNSTORABLE: Final = re.compile("[\ud800-\udc7f\udd00-\udfff]")


class Origin(StrEnum):
    """Where a draft comes from."""

    NORMAL = "normal"
    AGGRESSIVE = "aggressive"
    FALLBACK = "fallback"  #: no model made it: a cut of the source with the engine's marker
    MANUAL = "manual"  #: a person wrote it, or took parts of it


@dataclass(frozen=True, slots=True)
class Draft:
    """One proposed text of a summary."""

    number: int  #: from 1, within its summary
    summary_id: SummaryId
    origin: Origin
    text: str
    model: str  #: what ``summaries.model`` would record
    verdict: DraftVerdict
    source_tokens: int
    target_tokens: int
    usage: Usage
    base: Base
    made_at: str  #: UTC, ISO
    previous: tuple[str, ...] = ()  #: summaries whose texts were given, so as not to be repeated
    gone: int = 0  #: sources that are not there any more: nothing in it can cover them

    @property
    def tokens(self) -> int:
        """Estimate of the text."""
        return self.verdict.tokens

    @property
    def may_be_taken(self) -> bool:
        """Whether a rule may accept it; a person may take any by its number."""
        return self.verdict.accepted and self.origin is not Origin.FALLBACK


def storable(text: str) -> str:
    """A text as a TEXT column can hold it: no NUL, no half characters."""
    return _UNSTORABLE.sub("\ufffd", text.replace("\0", ""))


async def draft_summary(
    summarizer: Summarizer,
    material: Material,
    setting: Setting,
    *,
    first: int = 1,
    keep: Callable[[Draft], None] = lambda draft: None,
) -> tuple[Draft, ...]:
    """Ask for a new text, and ask again for a shorter one when the answer cannot stand.

    No lock is held and no transaction is open. *keep* gets each draft at once, so that what was paid for is
    not lost when the next call fails. When neither answer can stand, the deterministic cut of the source is
    added: shown, never taken by itself. *first* is the number of the first draft.

    Raises:
        ProviderAuthError: the key was refused.
        HopelessError: the provider answers nobody for now.
        SummarizerError: no answer came back; drafts that *keep* got stay.
    """
    made: list[Draft] = []

    def add(draft: Draft) -> Draft:
        made.append(draft)
        keep(draft)
        return draft

    for origin in (Origin.NORMAL, Origin.AGGRESSIVE):
        request = request_for(material, setting, aggressive=origin is Origin.AGGRESSIVE)
        reply = await summarizer(request)
        draft = await asyncio.to_thread(answered, material, request, reply, origin, first + len(made))
        if add(draft).may_be_taken:
            return tuple(made)
    add(cut_of(material, setting, first + len(made)))
    return tuple(made)


def answered(
    material: Material, request: SummaryRequest, reply: SummaryReply, origin: Origin, number: int
) -> Draft:
    """A model's answer as a draft, without what it put around the summary."""
    text = without_wrapping(storable(reply.text))
    cleaned = SummaryReply(text, reply.model, reply.finished, reply.stop_reason, reply.usage)
    return _draft(material, request, origin, number, text, reply.model, judge(cleaned, request), reply.usage)


def cut_of(material: Material, setting: Setting, number: int) -> Draft:
    """The engine's deterministic cut of the source (docs/engine/texts.md, "Fallback")."""
    request = request_for(material, setting, aggressive=True)
    text = fallback(request.text, setting.rendering.rules)
    return _draft(material, request, Origin.FALLBACK, number, text, CUT, _verdict(text, request), NO_USAGE)


def written(material: Material, setting: Setting, text: str, number: int) -> Draft:
    """A text that a person wrote, judged as a model's is."""
    request = request_for(material, setting)
    text = storable(text)
    return _draft(material, request, Origin.MANUAL, number, text, MANUAL, _verdict(text, request), NO_USAGE)


def _verdict(text: str, request: SummaryRequest) -> DraftVerdict:
    return judge_text(
        text,
        source=request.text,
        previous=request.previous or "",
        target_tokens=request.target_tokens,
        estimator=request.estimator,
    )


def _draft(
    material: Material,
    request: SummaryRequest,
    origin: Origin,
    number: int,
    text: str,
    model: str,
    verdict: DraftVerdict,
    usage: Usage,
) -> Draft:
    return Draft(
        number=number,
        summary_id=material.summary.summary_id,
        origin=origin,
        text=text,
        model=model,
        verdict=verdict,
        source_tokens=estimate(request.text, request.estimator),
        target_tokens=request.target_tokens,
        usage=usage,
        base=material.base,
        made_at=iso_z(datetime.now(UTC)),
        previous=tuple(node.summary_id for node in material.previous.nodes),
        gone=len(material.source.gone),
    )


async def retention_of(material: Material, text: str, setting: Setting) -> Retention:
    """What a text keeps of its source, loses and invents; worked out off the event loop."""

    def work() -> Retention:
        estimator = setting.rendering.rules.estimator
        source = read_retention_source(
            material.source.text, previous=material.previous.text, estimator=estimator
        )
        return measure(source, text)

    return await asyncio.to_thread(work)
