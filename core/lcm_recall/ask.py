"""A question to the memory, answered by a model that is shown evidence and may ask for more, in few calls.

Source: docs/spec/searching.md, "Asking". Nothing is sent without a model that somebody named; without one the
evidence itself is what a question is answered with. What a model says is a proposal: its citations are
compared with what it was shown and with the rows, and its answer is foreign text.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import time
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Annotated, Final

from lcm_core.base.errors import LcmError, NotFoundError, UsageError
from lcm_core.base.javascript import JsonObject, trimmed, well_formed
from lcm_core.base.records import ConversationId
from lcm_core.base.text import counted, fold, safe_line
from lcm_core.base.tokens import Estimator, estimate
from lcm_core.base.values import Record, Struct, T, field, replace
from lcm_core.store.database import Database, Reader
from lcm_core.store.opening import Rows
from lcm_core.store.schema import Schema
from lcm_core.store.search import Document, DocumentKind, Filter, SearchedRows
from lcm_core.writers.cost import Forecast, Model, form_in, likely_tokens, total_forecast
from lcm_core.writers.prompts import boundary_for, own_prompt, sendable
from lcm_core.writers.request import NO_USAGE, SummarizerError, SummaryReply, Usage
from lcm_core.writers.wire import ATTEMPTS
from lcm_prompts import ASK
from msgspec import UNSET, Meta, UnsetType, structs

from lcm_recall.answer import Adds, Parameters, repeats
from lcm_recall.delegation import DEFAULT_ANSWER_TOKENS, MAX_BUCKETS, DelegationError, Task, timed_out
from lcm_recall.queries import RecallSettings
from lcm_recall.read import (
    Passage,
    Verdict,
    beginning_of,
    document_of,
    passage_of,
    read_below,
    text_of,
    verify,
)
from lcm_recall.search import search
from lcm_recall.terms import Query, parse

# -- the evidence ----------------------------------------------------------------------------------------
# Passages of what is stored, the most telling first, within a budget (docs/spec/searching.md, "Asking").
#
# The search is that of `lcm_recall.search`. A question is not a query, for its words hardly ever all occur
# together: so they are also looked for one by one, and rare ones count more.

#: Seconds that looking for the evidence of one question may take.
SEARCH_SECONDS: Final = 5.0
#: Words of a question that are looked for one by one, and hits of each that count.
MOST_TERMS, _HITS = 8, 20
MOST_PASSAGES: Final = 12
#: Hits of which it is looked whether they only repeat the question, the best.
_LOOKED_AT: Final = 4 * MOST_PASSAGES
_FUSION: Final = 60
#: The logarithm that a word counts which is in nearly every text.
_COMMON: Final = 0.1
#: Of the budget, what one passage takes at most; and the least that is worth showing.
_SHARE, _LEAST = 4, 40
_GLUED: Final = "\u2e80-\u9fff\uf900-\ufaff\uac00-\ud7af\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_BLANK: Final = re.compile(r"\s+")
_WORD: Final = re.compile(rf'"([^"]+)"|([{_GLUED}]+)|([^\W{_GLUED}](?:[\w./:@#-]*[^\W{_GLUED}])?)')


#: Words that ask and tell nothing: that one of them is not found is not worth saying.
_ASKING: Final = re.compile(
    "and|are|can|could|did|does|for|from|had|has|have|how|our|that|the|this|used?|was|were|what|when|where|"
    "which|who|whom|whose|why|will|with|would|your?",
    re.IGNORECASE,
)


class Gathered(Record, frozen=True):
    """What was found for a question."""

    passages: tuple[Passage, ...]  #: the most telling first
    gaps: tuple[str, ...]  #: what was not searched, or not shown, and why; empty: nothing
    unfound: tuple[str, ...] = ()  #: words of the question that are nowhere in what was searched

    @property
    def tokens(self) -> int:
        """Of all passages."""
        return sum(one.tokens for one in self.passages)


class Memory(Record, frozen=True):
    """What may be read for a question."""

    rows: Rows
    schema: Schema
    settings: RecallSettings
    within: tuple[ConversationId, ...] | None  #: only these conversations; None: all

    def find(self, question: str, tokens: int) -> Gathered:
        """The passages that words of a question are found in."""
        terms = terms_of(question)
        if not terms:
            return Gathered((), ())
        end = time.monotonic() + SEARCH_SECONDS
        worth: dict[str, float] = {}
        by_all: dict[str, float] = {}  #: of its worth, what it has for holding all words
        queries: dict[str, Query] = {}
        spelled: set[str] = set()
        gaps: dict[str, None] = {}
        unfound: list[str] = []
        whole = parse(" ".join(terms))
        asked = [whole, *(map(parse, terms) if len(terms) > 1 else ())]
        for at, query in enumerate(asked):
            left = end - time.monotonic()
            if left <= 0:
                gaps["some words of the question: time limit reached"] = None
                break
            found = search(
                self.rows,
                self.schema,
                query,
                Filter(self.within),
                self.settings,
                limit=_HITS,
                seconds=left,
                near_seconds=0.0,
            )
            gaps |= dict.fromkeys(found.coverage.not_searched)
            if not found.total and found.coverage.full and (at or len(asked) == 1):
                word = terms[max(at - 1, 0)]
                unfound += [] if _ASKING.fullmatch(word) else [word]
            documents = sum(found.coverage.searched.values())
            weight = max(math.log(max(documents, 1) / (1 + found.total)), _COMMON) ** 2 * len(query.terms)
            for rank, hit in enumerate(found.hits, start=1):
                worth[hit.citation] = worth.get(hit.citation, 0.0) + weight / (_FUSION + rank)
                if query is whole and len(asked) > 1:
                    by_all[hit.citation] = weight / (_FUSION + rank)
                queries.setdefault(hit.citation, query)
                spelled |= {hit.citation} if hit.spelled else set()
        best = sorted(worth, key=lambda name: -worth[name])
        repeat: set[str] = set()
        for name in best[:_LOOKED_AT]:
            adds = self._added_by(name, question, asked)
            if adds is not Adds.FACT:
                # Whoever repeats a question has all its words: that tells nothing.
                worth[name] = (worth[name] - by_all.get(name, 0.0)) * adds.value
                repeat.add(name)
        # The best statement comes before all of them, however many of the words they share.
        stated = max((worth[name] for name in best if name not in repeat), default=math.inf)
        best.sort(key=lambda name: (-min(worth[name], stated), name in repeat))
        shown = self._passages([(name, queries[name]) for name in best], tokens, gaps, repeat, spelled)
        return replace(shown, unfound=tuple(unfound))

    def _added_by(self, name: str, question: str, asked: Sequence[Query]) -> Adds:
        """What a message says beyond the question; everything that is no message counts as a statement."""
        message = re.match(r"msg#(\d{1,18})", name)
        if message is None:
            return Adds.FACT
        rows = SearchedRows(self.rows, self.schema)
        found = rows.some(DocumentKind.MESSAGE, [message[1]])
        if not found or found[0].label not in {"user", "assistant"} or len(found[0].texts) != 1:
            return Adds.FACT
        text = found[0].texts[0][1]
        folded = fold(text)
        held = [term.part for query in asked for term in query.terms if term.part.search(folded)]
        return repeats(
            text,
            found[0].label,
            question,
            lambda other: all(part.search(fold(other)) for part in held),
            rows.asked_before(int(message[1])) if found[0].label == "assistant" else None,
        )

    def below(self, name: str, tokens: int, *, with_messages: bool = True) -> Gathered:
        """What a summary was made from, or one message, brief or file; nothing when it may not be read."""
        try:
            page = read_below(
                self.rows,
                self.schema,
                name,
                self.settings,
                tokens=tokens,
                with_messages=with_messages,
                within=self.within,
            )
        except NotFoundError:
            return Gathered((), (f"{name[:80]}: no row with this id is in scope",))
        return Gathered(page.passages, () if page.next is None else (f"more below {name[:80]}",))

    def _passages(
        self,
        best: Sequence[tuple[str, Query]],
        tokens: int,
        gaps: dict[str, None],
        repeat: Container[str],
        spelled: Container[str],
    ) -> Gathered:
        found: list[Passage] = []
        left, share = tokens, max(tokens // _SHARE, 1)
        for name, query in best:
            if left < _LEAST or len(found) >= MOST_PASSAGES:
                more = counted(len(best) - len(found), "more hit")
                spent = "the token budget was used up"
                gaps[f"{more}: {spent if left < _LEAST else f'the best {len(found):,} are shown'}"] = None
                break
            document = document_of(self.rows, self.schema, name, self.settings)
            if document is not None:
                passage = _around(document, query, min(left, share))
                found.append(replace(passage, repeats=name in repeat, other_spelling=name not in spelled))
                left -= found[-1].tokens
        return Gathered(tuple(found), tuple(gaps))


def terms_of(question: str) -> list[str]:
    """The words and phrases of a question that are looked for, in its order: the longest of many."""
    found: dict[str, str] = {}
    for phrase, glued, word in _WORD.findall(question[:4_000]):
        if phrase.strip():
            found.setdefault(phrase.casefold(), f'"{phrase.strip()}"')
        elif glued:
            pieces = [glued] if len(glued) < 4 else [glued[at : at + 2] for at in range(0, len(glued) - 1, 2)]
            found.update((piece, piece) for piece in pieces if piece not in found)
        elif len(word) > 2 or word.isdigit():
            found.setdefault(word.casefold(), word[:100])
    chosen = sorted(found, key=lambda term: -len(term))[:MOST_TERMS]
    return [term for key, term in found.items() if key in chosen]


def _around(document: Document, query: Query, tokens: int) -> Passage:
    """As much of a document as fits, around the place where the query is found first."""
    whole = text_of(document)
    start = 0
    if estimate(whole, Estimator.WEIGHTED) > tokens:
        places = [start for term in query.terms for start, _ in term.places(whole)[:1]]
        start = max(
            0, min(places, default=0) - tokens
        )  # a quarter of about four characters a token before it
    return passage_of(document, 0, whole, start, tokens)


# -- the question ----------------------------------------------------------------------------------------


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


class AskLimits(Record, frozen=True):
    """What one question may take."""

    tokens: int = 8_000  #: of passages, all together
    calls: int = 4  #: the last of them has to answer
    first: float = 0.6  #: the share of the tokens that is shown before a model is asked
    answer_tokens: int = 1_000
    seconds: float = 120.0  #: for the model, from its first call on


class Dropped(Record, frozen=True):
    """A citation of a model that does not stand."""

    citation: str  #: as it was given: foreign text
    why: str


class Asked(Record, frozen=True):
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
    def remarks(self) -> list[str]:
        """What is to be known of the answer, in sentences; names in them are foreign text."""
        found = ["The answer was too long and was truncated."] if self.is_cut else []
        found += [f"Citation removed: {one.citation} ({one.why})." for one in self.dropped]
        if self.failed is not None:
            found.append(f"{self.failed.message} This is the evidence found.")
        unfound = ", ".join(one if one.startswith('"') else f'"{one}"' for one in self.unfound)
        return [*found, f"Not found: {unfound}."] if unfound else found

    @property
    def gap_texts(self) -> list[str]:
        """The gaps, in sentences."""
        return [f"Not searched or not shown: {gap}." for gap in self.gaps]

    @property
    def cited_first(self) -> tuple[Passage, ...]:
        """The evidence, that of the answer before the rest."""
        return tuple(sorted(self.evidence, key=lambda one: one.citation not in self.citations))


class Evidence(Passage, frozen=True, kw_only=True):
    """A passage beside an answer."""

    cited: bool


class Failure(Record, frozen=True):
    """Why a model gave no answer."""

    code: str
    message: str


class AskedAnswer(Record, frozen=True):
    """A question with its answer, and the evidence beside it: what the answer cites first."""

    question: str
    scope: str
    answer: str | None
    model: str | None
    citations: tuple[str, ...]
    dropped: tuple[Dropped, ...]
    cut: bool
    calls: int
    usage: Usage
    tokens: int
    evidence: tuple[Evidence, ...]
    gaps: tuple[str, ...]
    unfound: Annotated[tuple[str, ...], Meta(description="Words of the question that are nowhere.")] = field(
        name="notFound"
    )
    failed: Failure | UnsetType | None = UNSET

    @classmethod
    def of(cls, scope: str, asked: Asked) -> AskedAnswer:
        """What a question brought."""
        evidence = (
            Evidence(**structs.asdict(one), cited=one.citation in asked.citations)
            for one in asked.cited_first
        )
        return cls(
            asked.question,
            scope,
            asked.answer,
            asked.model,
            asked.citations,
            asked.dropped,
            asked.is_cut,
            asked.calls,
            asked.usage,
            asked.tokens,
            tuple(evidence),
            asked.gaps,
            asked.unfound,
        )


class Step(Record, frozen=True):
    """What a model wants: one of the three."""

    answer: str = ""
    citations: tuple[str, ...] = ()
    search: str = ""
    expand: str = ""


Progress = Callable[[int, str], None]  #: the call that begins, and what is done, in words of ours


class Inquiry(Struct):
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
                f"{name} gave no answer in {counted(calls, 'call')}: ask a narrower question, or use another "
                "model.",
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
            return await reader.run(lambda rows: ask(Memory(rows, reader.schema, self.settings, self.within)))

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


# -- a model as sub-agent --------------------------------------------------------------------------------
# A model in the place of the sub-agent that ``lcm_expand_query`` starts (docs/spec/recall.md, "A model as
# sub-agent"). It answers as any question is answered, within the one conversation and the tokens of its
# task, and what it cites is compared with what it was shown.


class ModelDelegate(Record, frozen=True):
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
