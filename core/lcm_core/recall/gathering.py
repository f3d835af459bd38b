"""The evidence for a question: passages of what is stored, the most telling first, within a budget.

Source: docs/recall.md, "Asking". The search is that of `find`; a question is not a query, for hardly ever all
of its words occur together, so its words are also looked for one by one, and rare ones count more.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lcm_core.errors import NotFoundError
from lcm_core.recall.find import search
from lcm_core.recall.read import Passage, beginning_of, cite, document_of, read_below, text_of
from lcm_core.recall.settings import RecallSettings
from lcm_core.recall.telling import Adds, repeats
from lcm_core.recall.terms import Query, parse
from lcm_core.records import ConversationId
from lcm_core.store.connecting import Rows
from lcm_core.store.schema import Schema
from lcm_core.store.searched import Document, DocumentKind, Filter, SearchedRows
from lcm_core.text import fold
from lcm_core.tokens import Estimator, estimate
from lcm_core.wording import counted

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
#: Characters in which a passage looks for the end of a word to begin behind.
_WORD_END: Final = 30
_WORD: Final = re.compile(rf'"([^"]+)"|([{_GLUED}]+)|([^\W{_GLUED}](?:[\w./:@#-]*[^\W{_GLUED}])?)')


#: Words that ask and tell nothing: that one of them is not found is not worth saying.
_ASKING: Final = re.compile(
    "and|are|can|could|did|does|for|from|had|has|have|how|our|that|the|this|used?|was|were|what|when|where|"
    "which|who|whom|whose|why|will|with|would|your?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Gathered:
    """What was found for a question."""

    passages: tuple[Passage, ...]  #: the most telling first
    gaps: tuple[str, ...]  #: what was not searched, or not shown, and why; empty: nothing
    unfound: tuple[str, ...] = ()  #: words of the question that are nowhere in what was searched

    @property
    def tokens(self) -> int:
        """Of all passages."""
        return sum(one.tokens for one in self.passages)


@dataclass(frozen=True, slots=True)
class Memory:
    """What may be read for a question."""

    rows: Rows
    schema: Schema
    settings: RecallSettings
    within: tuple[ConversationId, ...] | None  #: only these conversations; None: all

    def find(self, question: str, tokens: int, *, seconds: float = SEARCH_SECONDS) -> Gathered:
        """The passages that words of a question are found in."""
        terms = terms_of(question)
        if not terms:
            return Gathered((), ())
        end = time.monotonic() + seconds
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
            if not found.total and found.coverage.is_full and (at or len(asked) == 1):
                word = terms[max(at - 1, 0)]
                unfound += [] if _ASKING.fullmatch(word) else [word]
            documents = sum(count for _, count in found.coverage.searched)
            weight = rarity(documents, found.total) * len(query.terms)
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
                found.append(replace(passage, repeats=name in repeat, spelled=name in spelled))
                left -= found[-1].tokens
        return Gathered(tuple(found), tuple(gaps))


def rarity(documents: int, found: int) -> float:
    """What a hit of a search counts by how few of all *documents* it finds.

    Squared, as in every product of two such vectors: a few words that are in many texts, whatever their
    language, never outweigh one that is in few.
    """
    return max(math.log(max(documents, 1) / (1 + found)), _COMMON) ** 2


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
    text = beginning_of(whole[start:], tokens)
    return Passage(
        cite(document),
        document.kind,
        document.conversation_id,
        document.label,
        document.at,
        0,
        text,
        estimate(text, Estimator.WEIGHTED),
        start,
        start + len(text) >= len(whole),
    )
