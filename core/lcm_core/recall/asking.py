"""A question to the memory, answered by a model that is shown evidence and may ask for more, in few calls.

Source: docs/recall.md, "Asking". Nothing is sent without a model that somebody named; without one the
evidence itself is what a question is answered with. What a model says is a proposal: its citations are
compared with what it was shown and with the rows, and its answer is foreign text.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from lcm_prompts import ASK

from lcm_core.errors import LcmError, UsageError
from lcm_core.javascript import trimmed, well_formed
from lcm_core.recall.gathering import Gathered, Memory
from lcm_core.recall.read import Passage, Verdict, beginning_of, verify
from lcm_core.recall.settings import RecallSettings
from lcm_core.records import ConversationId
from lcm_core.store.connecting import Rows
from lcm_core.store.database import Database, Reader
from lcm_core.summarize.cost import Forecast, likely_tokens
from lcm_core.summarize.models.wire import ATTEMPTS
from lcm_core.summarize.prompts import boundary_for, own_prompt, sendable
from lcm_core.summarize.replies import Model, form_in
from lcm_core.summarize.request import NO_USAGE, SummarizerError, SummaryReply, Usage
from lcm_core.text import safe_line

T = TypeVar("T")

#: Tokens of the public vocabularies for one of the budget, at most; more of a text is not shown.
_DEAREST: Final = 1.4
#: Characters of a query or an id that a model asks for, and tokens that the words about it can be.
_ASKED, _STEP_TOKENS = 200, 400
_REMOVED: Final = "[citation removed]"
_MARK: Final = re.compile(
    r"\[\s*((?:msg#\d{1,18}|(?:sum|file|brief|focus)_[\w-]{1,80}|[0-9a-f]{8}-[0-9a-f-]{20,40})"
    r"(?:@[0-9a-f]{1,64})?)\s*\]",
    re.ASCII,
)
#: What a reply of one of the three forms holds.
_FORMS: Final = frozenset({"answer", "search", "expand"})
#: What is read of a reply as JSON, in characters.
_LONGEST_REPLY: Final = 200_000
_MOST_CITED: Final = 100


@dataclass(frozen=True, slots=True)
class AskLimits:
    """What one question may take."""

    tokens: int = 8_000  #: of passages, all together
    calls: int = 4  #: the last of them has to answer
    first: float = 0.6  #: the share of the tokens that is shown before a model is asked
    answer_tokens: int = 1_000
    seconds: float = 120.0  #: for the model, from its first call on


@dataclass(frozen=True, slots=True)
class Dropped:
    """A citation of a model that does not stand."""

    citation: str  #: as it was given: foreign text
    why: str


@dataclass(frozen=True, slots=True)
class Asked:
    """What a question brought."""

    question: str
    evidence: tuple[Passage, ...]  #: all that was shown, in the order it was
    gaps: tuple[str, ...]  #: what was not searched or not shown, and why
    unfound: tuple[str, ...] = ()  #: words of the question that are nowhere in what was searched
    answer: str | None = None  #: of a model: foreign text; None: no model answered
    citations: tuple[str, ...] = ()  #: of the answer, each of a passage in evidence whose text still holds
    dropped: tuple[Dropped, ...] = ()
    is_cut: bool = False  #: the answer was longer than it may be
    model: str | None = None  #: who answered, or was asked; None: nobody was
    calls: int = 0
    usage: Usage = NO_USAGE  #: of the calls that were answered
    failed: LcmError | None = None  #: why a model that was asked gave no answer

    @property
    def tokens(self) -> int:
        """Of the evidence."""
        return sum(one.tokens for one in self.evidence)

    @property
    def unfound_text(self) -> str:
        """Which words of the question were not found, in a sentence; empty: none, or it is not known."""
        named = ", ".join(one if one.startswith('"') else f'"{one}"' for one in self.unfound)
        return f"Not found: {named}." if named else ""

    @property
    def cited_first(self) -> tuple[Passage, ...]:
        """The evidence, that of the answer before the rest."""
        return tuple(sorted(self.evidence, key=lambda one: one.citation not in self.citations))


@dataclass(frozen=True, slots=True)
class Step:
    """What a model wants: one of the three."""

    answer: str = ""
    citations: tuple[str, ...] = ()
    search: str = ""
    expand: str = ""


Progress = Callable[[int, str], None]  #: the call that begins, and what is done, in words of ours


@dataclass(slots=True)
class Inquiry:
    """One question: what was found for it, what was shown, and what is left."""

    database: Database
    settings: RecallSettings
    question: str
    limits: AskLimits = AskLimits()
    within: tuple[ConversationId, ...] | None = None  #: only these conversations; None: all
    shown: dict[tuple[str, int], Passage] = field(default_factory=dict)
    gaps: dict[str, None] = field(default_factory=dict)
    unfound: tuple[str, ...] = ()
    _steps: list[str] = field(default_factory=list)
    _likely: float = 0.0

    # -- without a model -----------------------------------------------------------------------------------

    async def gather(self, *, for_model: bool) -> None:
        """Look for the evidence; *for_model*: some of the budget is left for what a model will ask for."""
        budget = int(self.limits.tokens * self.limits.first) if for_model else self.limits.tokens
        found = await self._read(lambda memory: memory.find(self.question, budget))
        self.unfound = found.unfound
        self._add(found)

    async def show(self, name: str, tokens: int, *, with_messages: bool) -> None:
        """Take a summary that is named into the evidence, with what lies below it."""
        self._add(
            await self._read(
                lambda memory: memory.below(name, min(tokens, self._left), with_messages=with_messages)
            )
        )

    @property
    def evidence(self) -> Asked:
        """What was found so far, without an answer."""
        return Asked(self.question, tuple(self.shown.values()), tuple(self.gaps), self.unfound)

    @property
    def _left(self) -> int:
        return max(0, self.limits.tokens - sum(one.tokens for one in self.shown.values()))

    # -- with one ------------------------------------------------------------------------------------------

    def forecast(self, model: Model) -> Forecast:
        """What asking takes when the first call answers, and at most. Nothing is sent."""
        prompt = self._prompt(self.limits.calls - 1)
        return _forecast(model, prompt, self.limits, _DEAREST * self.limits.tokens - self._likely)

    async def ask(self, model: Model, progress: Progress | None = None) -> Asked:
        """Ask a model about the evidence; what goes wrong is said in the result.

        Cancelling ends the call that is out.
        """
        usage, calls, name = NO_USAGE, 0, model.name
        try:
            async with asyncio.timeout(self.limits.seconds):
                while calls < self.limits.calls:
                    calls += 1
                    if progress is not None:
                        progress(calls, f"Call {calls} of {self.limits.calls} at most")
                    prompt = await asyncio.to_thread(self._prompt, self.limits.calls - calls)
                    reply = await model.say(*prompt, self.limits.answer_tokens)
                    usage += reply.usage
                    step = step_of(reply)
                    if step.answer:
                        answered = await self._answered(step, reply)
                        return replace(answered, model=name, calls=calls, usage=usage)
                    await self._look(step)
            failure = SummarizerError(
                f"{name} gave no answer in {calls} calls: ask a narrower question, or use another model.",
                code="NO_ANSWER",
            )
        except TimeoutError:
            failure = SummarizerError(
                f"{name} gave no answer in {self.limits.seconds:g} s: allow more time, or use another model.",
                code="DEADLINE",
            )
        except SummarizerError as error:
            failure = error
        return replace(self.evidence, model=name, calls=calls, usage=usage, failed=failure)

    def _prompt(self, looks: int) -> tuple[str, str]:
        """System prompt and request, when a model may still look so many times after this call."""
        return _prompt(self.question, tuple(self.shown.values()), self._steps, looks, self._left, self.limits)

    async def _look(self, step: Step) -> None:
        """Show what a model asks for, and note for it what came of that."""
        if step.search:
            words = step.search[:_ASKED]
            found = await self._read(lambda memory: memory.find(words, self._left))
            asked = f"search {safe_line(words)}"
        elif step.expand:
            wanted = step.expand[:_ASKED]
            found = await self._read(lambda memory: memory.below(wanted, self._left))
            asked = f"expand {safe_line(wanted)}"
        else:
            self._steps.append("a reply in none of the three forms")
            return
        new = self._add(found)
        self._steps.append(sendable(f"{asked}: {new} new passages" if new else f"{asked}: nothing new"))

    def _add(self, found: Gathered) -> int:
        """Show passages that were not shown yet, as long as they fit; how many there were."""
        new = 0
        for one in found.passages:
            key = (one.citation, one.start)
            likely = likely_tokens(f"[{_id_of(one.citation)}] {_head(one)}\n{one.text}\n")
            if key in self.shown or self._contains(one):
                continue
            if one.tokens > self._left or self._likely + likely > _DEAREST * self.limits.tokens:
                self.gaps["more passages: the token budget was used up"] = None
                continue
            self.shown[key] = one
            self._likely += likely
            new += 1
        self.gaps |= dict.fromkeys(found.gaps)
        return new

    def _contains(self, one: Passage) -> bool:
        """Whether all of a passage was shown already."""
        end = one.start + len(one.text)
        return any(
            known.citation == one.citation
            and known.start <= one.start
            and end <= known.start + len(known.text)
            for known in self.shown.values()
        )

    async def _answered(self, step: Step, reply: SummaryReply) -> Asked:
        """The answer with its citations compared with what was shown, and with the rows as they are now."""
        text = beginning_of(step.answer, 2 * self.limits.answer_tokens)
        is_cut = len(text) < len(step.answer) or not reply.finished
        shown = {_id_of(one.citation): one.citation for one in self.shown.values()}
        named = dict.fromkeys(one.strip("[] ") for one in (*step.citations, *_MARK.findall(text)))
        known = {
            name: whole
            for name in named
            if (whole := shown.get(_id_of(name))) is not None and name in (_id_of(name), whole)
        }
        verdicts = await self._verdicts(tuple(dict.fromkeys(known.values())))
        bad = {
            name: "no passage of this id was shown"
            if name not in known
            else f"the text that was shown is {verdicts[known[name]]}"
            for name in named
            if name not in known or verdicts[known[name]] is not Verdict.HOLDS
        }
        text = _MARK.sub(lambda mark: _REMOVED if mark[1] in bad else mark[0], text)
        return replace(
            self.evidence,
            answer=text,
            citations=tuple(one for one, verdict in verdicts.items() if verdict is Verdict.HOLDS),
            dropped=tuple(Dropped(name[:_ASKED], why) for name, why in bad.items()),
            is_cut=is_cut,
        )

    async def _verdicts(self, citations: tuple[str, ...]) -> Mapping[str, Verdict]:
        def verdict_of(memory: Memory, citation: str) -> Verdict:
            try:
                found, _ = verify(memory.rows, memory.schema, citation, self.settings, within=self.within)
            except UsageError:  # an id that no engine makes
                return Verdict.UNPROVEN
            return found

        return await self._read(lambda memory: {one: verdict_of(memory, one) for one in citations})

    async def _read(self, ask: Callable[[Memory], T]) -> T:
        async def load(reader: Reader) -> T:
            def asked(rows: Rows) -> T:
                return ask(Memory(rows, reader.schema, self.settings, self.within))

            return await reader.run(asked)

        return await self.database.read(load)


def forecast_of(model: Model, question: str, limits: AskLimits) -> Forecast:
    """The same for a question whose evidence is not known yet."""
    prompt = _prompt(question, (), (), limits.calls - 1, limits.tokens, limits)
    return _forecast(model, prompt, limits, _DEAREST * limits.tokens)


def _forecast(model: Model, prompt: tuple[str, str], limits: AskLimits, unseen: float) -> Forecast:
    """Of a first prompt, and what may still be shown, in tokens of the public vocabularies."""
    once = model.load_of(*prompt, limits.answer_tokens)
    more = max(0, int(unseen)) + _STEP_TOKENS * limits.calls
    largest = model.load_of(*prompt, limits.answer_tokens, more)
    return Forecast(once, largest.times(limits.calls * ATTEMPTS), largest)


def _prompt(
    question: str,
    shown: Sequence[Passage],
    steps: Sequence[str],
    looks: int,
    left: int,
    limits: AskLimits,
) -> tuple[str, str]:
    passages = [
        {"id": _id_of(one.citation), "head": sendable(safe_line(_head(one))), "text": sendable(one.text)}
        for one in shown
    ]
    asked = sendable(question)
    return own_prompt(
        ASK,
        {
            "boundary": boundary_for(asked, *(one["text"] for one in passages)),
            "question": asked,
            "passages": passages,
            "steps": steps,
            "looks": looks,
            "may_look": looks > 0 and left > 0,
            "tokens_left": left,
            "answer_tokens": limits.answer_tokens,
        },
    )


def step_of(reply: SummaryReply) -> Step:
    """What a model wants, whatever it sent: a text that is no JSON is its answer.

    Raises:
        SummarizerError: it said nothing.
    """
    text = trimmed(reply.text)
    if not text:
        raise SummarizerError(
            f"{reply.model} returned no text ({safe_line(str(reply.stop_reason))[:40]}): ask again, or use "
            "another model.",
            code="NO_ANSWER",
        )
    value = form_in(text[:_LONGEST_REPLY], _FORMS)
    if value is None:
        return Step(answer=text)
    answer = value.get("answer")
    if isinstance(answer, str) and trimmed(answer):
        cited = value.get("citations")
        listed = cited if isinstance(cited, list) else []
        names = (well_formed(one) for one in listed[:_MOST_CITED] if isinstance(one, str))
        return Step(well_formed(trimmed(answer)), tuple(names))
    search, expand = value.get("search"), value.get("expand")
    if isinstance(search, str) and trimmed(search):
        return Step(search=well_formed(trimmed(search)))
    return Step(expand=well_formed(trimmed(expand)) if isinstance(expand, str) else "")


def _head(one: Passage) -> str:
    part = "" if one.complete and not one.start else ", a part of it"
    return f"{one.kind} ({one.label}), conversation {one.conversation_id}, {one.at}{part}"


def _id_of(citation: str) -> str:
    """The id in a citation, as a model is shown it."""
    return sendable(safe_line(citation.partition("@")[0]))
