"""A focus brief written by a model: first it gathers, then it writes; in few calls, from what it is shown.

The JSON of both answers is the engine's (docs/spec/focus.md, "Writing it"). What a model says is a
proposal: whoever asked judges it, and its ids are compared with rows.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final

from lcm_prompts import FOCUS_BRIEF, FOCUS_EVIDENCE

from lcm_core.base.javascript import Json, JsonObject, trimmed, well_formed
from lcm_core.base.records import SummaryId
from lcm_core.base.text import safe_line
from lcm_core.base.tokens import Estimator, estimate
from lcm_core.base.values import Record, Struct, field, replace
from lcm_core.writers.cost import Forecast, Model, form_in
from lcm_core.writers.prompts import boundary_for, own_prompt, sendable
from lcm_core.writers.request import MANUAL, NO_USAGE, SummarizerError, SummaryReply, Usage, storable
from lcm_core.writers.wire import ATTEMPTS

_EVIDENCE: Final = frozenset({"evidenceMarkdown", "evidence"})
_BRIEF: Final = frozenset({"briefMarkdown", "brief"})
#: What is read of a reply as JSON, in characters, and ids of a list.
_LONGEST_REPLY: Final = 400_000
_MOST_IDS: Final = 500
_ID: Final = re.compile(r"sum_[0-9a-zA-Z_-]{1,80}", re.ASCII)


class BriefPassage(Record, frozen=True):
    """A summary, or what it was made from, as a model is shown it."""

    summary_id: SummaryId
    head: str  #: what it is, for the model
    text: str
    tokens: int


class BriefQuestion(Record, frozen=True):
    """What a brief is to be about, and what it is written from."""

    prompt: str
    passages: tuple[BriefPassage, ...]  #: oldest first
    earlier: str = ""  #: the brief that it carries on; empty: there is none


class BriefLimits(Record, frozen=True):
    """What writing one brief may take."""

    source_tokens: int = 120_000  #: of summaries that are shown; the newest go first
    expand_tokens: int = 40_000  #: of what is shown of their sources
    most_expanded: int = 12  #: summaries
    looks: int = 1  #: how often more is shown
    target_tokens: int = 12_000
    evidence_tokens: int = 12_000
    seconds: float = 900.0  #: for all calls

    @property
    def calls(self) -> int:
        """Calls, without those that are made again after a failure."""
        return self.looks + 2


class BriefText(Record, frozen=True):
    """A text for a brief, and what its writer said of it."""

    content: str = field(name="text")
    writer: str = MANUAL  #: the model, or `MANUAL` for a person
    #: ids, as they were given: none needs to be one of the conversation
    cited: tuple[str, ...] = field(default=(), name="citedSummaryIds")
    expanded: tuple[str, ...] = field(default=(), name="expandedSummaryIds")
    irrelevant: tuple[str, ...] = field(default=(), name="irrelevantSummaryIds")
    truncated: bool = False  #: something was left out
    notes: str = field(default="", name="confidenceNotes")  #: what the writer said about how sure it is

    @property
    def storable(self) -> BriefText:
        """The same as columns can hold it."""
        return BriefText(
            storable(self.content),
            storable(self.writer),
            tuple(map(storable, self.cited)),
            tuple(map(storable, self.expanded)),
            tuple(map(storable, self.irrelevant)),
            self.truncated,
            storable(self.notes),
        )

    @property
    def raw(self) -> str | None:
        """What ``raw_result_json`` records; None for a text that a person wrote."""
        if self.writer == MANUAL:
            return None
        document: JsonObject = {
            "briefMarkdown": self.content,
            "citedSummaryIds": list(self.cited),
            "expandedSummaryIds": list(self.expanded),
            "irrelevantSummaryIds": list(self.irrelevant),
            "confidenceNotes": self.notes,
            "truncated": self.truncated,
        }
        return storable(json.dumps(document, ensure_ascii=False, separators=(",", ":")))


class WrittenBrief(Record, frozen=True):
    """What a model wrote."""

    text: BriefText
    calls: int
    usage: Usage
    shown: tuple[BriefPassage, ...]  #: all that it was shown


#: Reads what some summaries were made from, within so many tokens.
Expand = Callable[[Sequence[SummaryId], int], Awaitable[Sequence[BriefPassage]]]
Progress = Callable[[int, str], None]  #: the call that begins, and what is done


def forecast_brief(model: Model, question: BriefQuestion, limits: BriefLimits) -> Forecast:
    """What writing takes when nothing more is asked for, and at most. Nothing is sent."""
    shown, left_out = fitting(question.passages, limits.source_tokens)
    first = _evidence_prompt(question, shown, left_out, limits, may_look=limits.looks > 0)
    gather = model.load_of(*first, limits.evidence_tokens)
    again = model.load_of(*first, limits.evidence_tokens, limits.expand_tokens)
    last = model.load_of(
        *_brief_prompt(question, "", "", limits), limits.target_tokens, limits.evidence_tokens
    )
    most = gather.times(1) + again.times(limits.looks) + last
    return Forecast(gather + last, most.times(ATTEMPTS), again.larger(last))


def fitting(passages: Sequence[BriefPassage], tokens: int) -> tuple[tuple[BriefPassage, ...], int]:
    """The passages that fit into so many tokens, the newest first of all, in their order; how many do not."""
    kept: list[BriefPassage] = []
    for one in reversed(passages):
        if one.tokens > tokens:
            break
        tokens -= one.tokens
        kept.append(one)
    return tuple(reversed(kept)), len(passages) - len(kept)


async def write_brief(
    model: Model,
    question: BriefQuestion,
    expand: Expand,
    progress: Progress = lambda _, __: None,
) -> WrittenBrief:
    """Have a brief written. No transaction is open; *expand* reads in short ones of its own.

    Raises:
        SummarizerError: no answer came back, or not in time; what was answered before is paid for.
    """
    limits = BriefLimits()
    try:
        async with asyncio.timeout(limits.seconds):
            return await _Writing(model, question, expand, limits, progress).write()
    except TimeoutError:
        raise SummarizerError(
            f"{model.name} wrote no brief in {limits.seconds:g} s: allow more time, or use another model.",
            code="DEADLINE",
        ) from None


class _Writing(Struct):
    """One brief on its way."""

    model: Model
    question: BriefQuestion
    expand: Expand
    limits: BriefLimits
    progress: Progress
    calls: int = 0
    usage: Usage = NO_USAGE

    async def write(self) -> WrittenBrief:
        """Gather, perhaps look once more, and write."""
        limits = self.limits
        shown, left_out = fitting(self.question.passages, limits.source_tokens)
        lists = BriefText("", truncated=left_out > 0)
        looks = limits.looks
        while True:
            prompt = await asyncio.to_thread(
                _evidence_prompt, self.question, shown, left_out, limits, may_look=looks > 0
            )
            reply = await self._say(prompt, limits.evidence_tokens, "gathering what is known")
            form = form_in(trimmed(reply.text)[:_LONGEST_REPLY], _EVIDENCE)
            lists = _with_lists(lists, _lists_of(form, reply))
            wanted = _wanted(form, limits.most_expanded) if looks > 0 else ()
            if not wanted:
                break
            looks -= 1
            known = {(one.summary_id, one.text) for one in shown}
            found = await self.expand(wanted, limits.expand_tokens)
            new, _ = fitting(
                [one for one in found if (one.summary_id, one.text) not in known], limits.expand_tokens
            )
            if not new:
                break
            shown += new
            lists = _with_lists(lists, BriefText("", expanded=tuple(one.summary_id for one in new)))
        evidence = _text_of(form, ("evidenceMarkdown", "evidence"), reply)
        notes = _text_in(form, ("confidenceNotes",))
        prompt = await asyncio.to_thread(_brief_prompt, self.question, evidence, notes, limits)
        reply = await self._say(prompt, limits.target_tokens, "writing the brief")
        form = form_in(trimmed(reply.text)[:_LONGEST_REPLY], _BRIEF)
        lists = _with_lists(lists, _lists_of(form, reply))
        content = _text_of(form, ("briefMarkdown", "brief"), reply)
        text = replace(lists, content=content, writer=reply.model, notes=notes)
        return WrittenBrief(text.storable, self.calls, self.usage, shown)

    async def _say(self, prompt: tuple[str, str], tokens: int, doing: str) -> SummaryReply:
        self.calls += 1
        self.progress(self.calls, f"Call {self.calls} of {self.limits.calls} at most: {doing}")
        reply = await self.model.say(*prompt, tokens)
        self.usage += reply.usage
        return reply


# -- the request -----------------------------------------------------------------------------------------


def _evidence_prompt(
    question: BriefQuestion,
    shown: Sequence[BriefPassage],
    left_out: int,
    limits: BriefLimits,
    *,
    may_look: bool,
) -> tuple[str, str]:
    passages = [
        {
            "id": sendable(safe_line(one.summary_id)),
            "head": sendable(safe_line(one.head)),
            "text": sendable(one.text),
        }
        for one in shown
    ]
    asked, earlier = sendable(question.prompt), sendable(question.earlier)
    return own_prompt(
        FOCUS_EVIDENCE,
        {
            "boundary": boundary_for(asked, earlier, *(one["text"] for one in passages)),
            "question": asked,
            "earlier": earlier,
            "passages": passages,
            "left_out": left_out,
            "may_look": may_look,
            "most_expanded": limits.most_expanded,
        },
    )


def _brief_prompt(question: BriefQuestion, evidence: str, notes: str, limits: BriefLimits) -> tuple[str, str]:
    asked, earlier = sendable(question.prompt), sendable(question.earlier)
    gathered, said = sendable(evidence), sendable(notes)
    return own_prompt(
        FOCUS_BRIEF,
        {
            "boundary": boundary_for(asked, earlier, gathered, said),
            "question": asked,
            "earlier": earlier,
            "evidence": gathered,
            "notes": said,
            "target_tokens": limits.target_tokens,
        },
    )


# -- what comes back -------------------------------------------------------------------------------------


def _text_of(form: Mapping[str, Json] | None, names: Iterable[str], reply: SummaryReply) -> str:
    """The text of an answer: of its JSON, else as it came.

    Raises:
        SummarizerError: it says nothing.
    """
    text = _text_in(form, names) if form is not None else well_formed(trimmed(reply.text))
    if not text:
        raise SummarizerError(
            f"{reply.model} wrote no brief ({safe_line(str(reply.stop_reason))[:40]}): ask again, or another "
            "model.",
            code="NO_ANSWER",
        )
    return text


def _text_in(form: Mapping[str, Json] | None, names: Iterable[str]) -> str:
    for name in names:
        value = None if form is None else form.get(name)
        if isinstance(value, str) and trimmed(value):
            return well_formed(trimmed(value))
    return ""


def _lists_of(form: Mapping[str, Json] | None, reply: SummaryReply) -> BriefText:
    if form is None:
        return BriefText("", cited=_ids(_ID.findall(reply.text)), truncated=not reply.finished)
    return BriefText(
        "",
        cited=_ids(form.get("citedSummaryIds")),
        expanded=_ids(form.get("expandedSummaryIds")),
        irrelevant=_ids(form.get("irrelevantSummaryIds")),
        truncated=form.get("truncated") is True or not reply.finished,
    )


def _with_lists(one: BriefText, other: BriefText) -> BriefText:
    return replace(
        one,
        cited=_joined(one.cited, other.cited),
        expanded=_joined(one.expanded, other.expanded),
        irrelevant=_joined(one.irrelevant, other.irrelevant),
        truncated=one.truncated or other.truncated,
    )


def _wanted(form: Mapping[str, Json] | None, most: int) -> tuple[SummaryId, ...]:
    """The summaries whose sources an answer asks for."""
    asked = None if form is None else form.get("expansionPrompts")
    found: tuple[str, ...] = ()
    for one in asked[:_MOST_IDS] if isinstance(asked, list) else ():
        if isinstance(one, Mapping):
            found = _joined(found, _ids(one.get("summaryIds")))
    return tuple(map(SummaryId, found[:most]))


def _ids(value: Json | Sequence[str]) -> tuple[str, ...]:
    listed = value[:_MOST_IDS] if isinstance(value, list) else []
    return tuple(dict.fromkeys(well_formed(one)[:100] for one in listed if isinstance(one, str) and one))


def _joined(one: Iterable[str], other: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*one, *other)))


def passage(summary_id: SummaryId, head: str, text: str, estimator: Estimator) -> BriefPassage:
    """A passage with its tokens."""
    return BriefPassage(summary_id, head, text, estimate(text, estimator))


def cut_to(one: BriefPassage, tokens: int, estimator: Estimator) -> BriefPassage:
    """The beginning of a passage that fits into so many tokens, about."""
    if one.tokens <= tokens:
        return one
    text = one.text[: len(one.text) * tokens // max(one.tokens, 1)]
    return replace(one, text=text, tokens=estimate(text, estimator))
