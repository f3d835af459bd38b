"""The checks of the texts of summaries, and of what is listed from them (C1 to C20 but C19, D11, D12).

The texts of a conversation are read in batches and not kept. Some checks are asked of one text after the
other, some when all were read: whether a summary was made from a bad one shows only then.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from hashlib import blake2b
from typing import Final

from lcm_core.base.findings import Confidence, Finding, FixId, KeyPart
from lcm_core.base.records import ConversationId, SummaryId
from lcm_core.base.text import BLANKS, counted
from lcm_core.base.tokens import estimate_utf16, estimate_weighted
from lcm_core.base.values import Record
from lcm_core.checks.check import (
    BROKEN,
    BY_DESIGN,
    ERROR,
    INFO,
    SUSPICIOUS,
    WARNING,
    Fault,
    FaultRows,
    Gathering,
    Hit,
    Limits,
    Rule,
    Run,
    TextRule,
    hit,
    summary_row,
)
from lcm_core.checks.metadata import TOKEN_COUNT, Miscounted
from lcm_core.checks.structure import StoredNode, Structure
from lcm_core.engine.markers import (
    FALLBACK_MARKER,
    MARKER_LIKE,
    TRUNCATED_MARKER,
    BadKind,
    Copy,
    classify,
    copy_of_source,
    is_capped,
    is_error,
    may_be_copy,
)
from lcm_core.store.database import Reader
from lcm_core.store.opening import SqlValue
from lcm_core.store.summaries import BATCH, MOST_CHARACTERS, Body, bodies_of, source_texts

# -- texts that are no summaries -------------------------------------------------------------------------
# What is no summary without saying so, and messages that differ only in form. Pure.

#: A refusal or an error is short; a long text that begins like one is a summary of one.
_MAX_REFUSAL: Final = 1_500
#: Tags, as alternatives of a pattern, between which models leave their reasoning.
THOUGHT_TAGS: Final = "think|thinking|thought|analysis|reasoning|scratchpad|antthinking"
_REASONING: Final = re.compile(
    rf"\s*(?:<\s*(?:{THOUGHT_TAGS})\s*>"
    r"|(?:(?:sure|certainly|okay|ok|of course|absolutely)[,.!]?\s+)?here(?:'s|’s|\sis)\s+"
    r"(?:the|a|an|your|my)\s+(?:[\w-]+\s+){0,3}summar(?:y|ization)\b"
    r"|(?:okay|alright)[,.]?\s+(?:let me|i need to|i'll|the user wants)\b)",
    re.IGNORECASE,
)
_REASONING_END: Final = re.compile(rf"</\s*(?:{THOUGHT_TAGS})\s*>", re.IGNORECASE)
_INJECTED: Final = re.compile(
    r"</?\s*(?:active_memory_plugin|relevant-memories|relevant_memories|hindsight_memories)\b", re.IGNORECASE
)
_MEDIA: Final = re.compile(r"^MEDIA:\s*\S|data:[a-z0-9.+/-]{1,80};base64,", re.MULTILINE)
_LONG_WORD: Final = 400
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]{400}")
_REFUSAL: Final = re.compile(
    r"\s*(?:(?:i['’]m|i am)\s+(?:sorry|unable|not able)\b"
    r"|(?:sorry|apologies|unfortunately)[,.]?\s+(?:but\s+)?i\b"
    r"|i\s+(?:can['’]?t|cannot|won['’]?t)\s+(?:help|assist|summari[sz]e|process|comply|do|provide|continue)\b"
    r"|as an ai\b)",
    re.IGNORECASE,
)
_ERROR: Final = re.compile(
    r"\s*(?:error\s*:?\s*[0-9]{3}\b|[0-9]{3}\s+\{|(?:api|http|provider|llm)\s*error\b"
    r"|request (?:timed out|failed)\b)",
    re.IGNORECASE,
)
_ORDERS: Final = re.compile(
    r"\b(?:ignore|disregard|forget)\s+(?:all\s+|any\s+|the\s+|your\s+)*"
    r"(?:previous|prior|above|earlier|preceding)\s+(?:instructions?|messages?|prompts?|rules?|context)\b"
    r"|\byou are now (?:a|an|in)\b"
    r"|\b(?:new|override) system (?:prompt|instructions?)\b"
    r"|</?(?:conversation_segment|conversation_to_condense|previous_context|summary_ref)\b"
    r"|<summary\s+id=",
    re.IGNORECASE,
)
_ORDER_WORDS: Final = (
    *("ignore", "disregard", "forget", "you are now", " system ", "</", "<summary", "<conv", "<prev"),
)
_EXPANSION: Final = re.compile(r"^[^\w\n]{0,20}expand for details\b", re.MULTILINE | re.IGNORECASE)
_FILE_ID: Final = re.compile(r"\bfile_[a-f0-9]{16}\b", re.IGNORECASE | re.ASCII)


def file_ids(text: str) -> list[str]:
    """The ids of files that a text names, as the engine finds them (docs/spec/format.md, "Identifiers")."""
    if "file_" not in text.lower():  # the pattern is slow, and hardly a text names one
        return []
    return list(dict.fromkeys(match.lower() for match in _FILE_ID.findall(text)))


def has_reasoning(content: str) -> bool:
    """Whether a text begins with what a model thinks or says before the summary."""
    return _REASONING.match(content) is not None or _REASONING_END.search(content, 0, 4_000) is not None


def has_binary(content: str) -> bool:
    """Whether a text has base64, a data URL or a media line."""
    if ("MEDIA:" in content or ";base64," in content) and _MEDIA.search(content):
        return True
    words = content.split()
    if max(map(len, words), default=0) < _LONG_WORD:  # of most texts, and quicker than to look at each word
        return False
    return any(len(word) >= _LONG_WORD and _BASE64.search(word) for word in words)


def is_refusal(content: str) -> bool:
    """Whether a text reads like a refusal or a provider's complaint."""
    if len(content) > _MAX_REFUSAL:
        return False
    return _REFUSAL.match(content) is not None or _ERROR.match(content) is not None


def gives_orders(content: str) -> bool:
    """Whether a text holds what could work as an instruction when the model reads it."""
    lowered = content.lower()  # the pattern is slow, and hardly a text holds any of its words
    return any(map(lowered.__contains__, _ORDER_WORDS)) and _ORDERS.search(content) is not None


def has_expansion_hint(content: str) -> bool:
    """Whether a text says what can be expanded (docs/spec/settings.md, "Asking a summariser")."""
    return _EXPANSION.search(content) is not None


def says_something(content: str) -> bool:
    """Whether a text holds a letter or a digit."""
    return any(character.isalnum() for character in content)


#: What a host or a log filter puts in place of a secret.
_REDACTED: Final = re.compile(r"\[REDACTED[^\]]{0,40}\]|\*{3,}|<redacted>", re.IGNORECASE)
#: How the metadata begins that a host puts in front of what a user wrote.
_DECORATION: Final = re.compile(
    r"(?:Conversation info|Sender|Thread starter|Replied message|Forwarded message) ?"
    r"\((?:untrusted|metadata)"
    r"|\[[A-Z][\w .-]{1,30} [^\]\n]{1,200}\]",
)
_MAX_DECORATION: Final = 4_000
_MAX_LENGTH: Final = 20_000
_MIN_LENGTH: Final = 24


def are_twins(one: str, other: str) -> bool:
    """Whether two different texts say the same, but for form or what a host put in front."""
    if one == other or max(len(one), len(other)) > _MAX_LENGTH or min(len(one), len(other)) < _MIN_LENGTH:
        return False
    short, long = sorted((" ".join(one.split()), " ".join(other.split())), key=len)
    return short == long or _is_decorated(short, long) or _is_redacted(one, other) or _is_redacted(other, one)


def _is_decorated(bare: str, decorated: str) -> bool:
    if len(bare) < _MIN_LENGTH or not decorated.endswith(bare):
        return False
    front = decorated[: -len(bare)]
    return 0 < len(front) <= _MAX_DECORATION and _DECORATION.match(front) is not None


def _is_redacted(redacted: str, whole: str) -> bool:
    """Whether *redacted* is *whole* with some runs of characters replaced by a mark."""
    kept = _REDACTED.split(redacted)
    if (
        len(kept) < 2
        or len("".join(kept)) < _MIN_LENGTH
        or not (whole.startswith(kept[0]) and whole.endswith(kept[-1]))
    ):
        return False
    at = 0
    for piece in kept:
        at = whole.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    return True


# -- the checks ------------------------------------------------------------------------------------------

_BY_MODEL: Final = (
    "No automatic fix. Press R in the app, or run lcm-tui repair, to rewrite it (offline or with a model)."
)
_OMISSION: Final = "[LCM fallback summary omitted directive-shaped untrusted content]"
_NOTHING_TRUNCATED: Final = "[Truncated from 0 tokens]"
#: Stored counts may be this far from an estimate: another tool rounds down.
_TOLERANCE: Final = 1
#: Messages whose texts are searched for file ids at a time.
_PAGE: Final = 500


class CheckedSummary(Record, frozen=True, dict=True):
    """A summary with its text, in its conversation."""

    structure: Structure
    node: StoredNode
    body: Body
    kind: BadKind | None  #: what its marker says of it

    @property
    def id(self) -> SummaryId:
        """The summary's id."""
        return self.node.summary_id

    @property
    def content(self) -> str:
        """Its text."""
        return self.body.content

    @cached_property
    def is_error(self) -> bool:
        """Whether it is the error of a provider."""
        return self.kind is None and is_error(self.content)

    @property
    def listed(self) -> tuple[str, ...] | None:
        """The stored list of file ids; None when it cannot be read."""
        try:
            value = json.loads(self.body.file_ids or "")
        except (ValueError, RecursionError):
            return None
        return (
            tuple(value) if isinstance(value, list) and all(isinstance(one, str) for one in value) else None
        )

    @property
    def source_tokens(self) -> int | None:
        """Tokens of what the summary was made from; None when some of it is gone."""
        structure = self.structure
        if self.node.is_leaf:
            links = structure.links.get(self.id)
            places = structure.places(self.id)
            if links is None or len(places) < len(links.message_ids):
                return None
            return sum(structure.messages.tokens[place] for place in places)
        sources = [structure.nodes.get(edge.source) for edge in structure.edges.get(self.id, ())]
        known = [source.tokens for source in sources if source is not None and source.tokens >= 0]
        return sum(known) if len(known) == len(sources) else None


Found = Iterable[Hit | tuple[Fault, KeyPart]]


def _marked(
    kinds: Iterable[BadKind], words: str, applies: Callable[[str], bool] = lambda content: True
) -> Callable[[CheckedSummary, Limits], Found]:
    """A rule for the summaries that the engine itself marked as none."""
    wanted = frozenset(kinds)

    def find(text: CheckedSummary, limits: Limits) -> Iterator[Hit]:
        if text.kind in wanted and applies(text.content):
            yield hit(BROKEN, f"Summary {text.id} {words}.", summary_row(text.id))

    return find


def _is_nothing(content: str) -> bool:
    return content.strip(BLANKS) == _NOTHING_TRUNCATED


def _empty(text: CheckedSummary, limits: Limits) -> Iterator[Hit]:
    row = summary_row(text.id)
    if text.kind is BadKind.EMPTY:
        yield hit(BROKEN, f"Summary {text.id} has no text.", row)
    elif text.kind is None and not says_something(text.content):
        yield hit(SUSPICIOUS, f"The text of summary {text.id} contains no words.", row)
    elif text.kind is None and text.node.tokens == 0:
        yield hit(SUSPICIOUS, f"Summary {text.id} has text but counts 0 tokens.", row)


def _no_compression(text: CheckedSummary, limits: Limits) -> Iterator[Hit]:
    source = text.source_tokens if text.kind is None else None
    if source and text.node.tokens >= source:
        what = f"Summary {text.id} has {text.node.tokens:,} tokens, its sources {source:,}."
        yield hit(SUSPICIOUS, what, summary_row(text.id))


def _quoted_marker(text: CheckedSummary, limits: Limits) -> Iterator[Hit]:
    content = text.content
    if text.kind is not None or not any(marker in content for marker in MARKER_LIKE):
        return
    end = content.rstrip(BLANKS)
    if end.endswith(FALLBACK_MARKER) or (end.endswith(" tokens]") and TRUNCATED_MARKER in content[-40:]):
        why = (
            "and again at its end, where it means that the text was truncated; the engine's doctor misses it"
        )
        yield hit(SUSPICIOUS, f"Summary {text.id} contains a marker early {why}.", summary_row(text.id))
    else:
        why = "quotes a marker of the engine, or names a model although it contains one"
        yield hit(BY_DESIGN, f"Summary {text.id} {why}.", summary_row(text.id))


def _reasoning(text: CheckedSummary, limits: Limits) -> Iterator[Hit]:
    if text.kind is None and has_reasoning(text.content):
        what = f"Summary {text.id} contains reasoning or a preamble of the model."
        yield hit(SUSPICIOUS, what, summary_row(text.id))


def _refusal(text: CheckedSummary, limits: Limits) -> Iterator[Hit]:
    if text.is_error:
        yield hit(BROKEN, f"Summary {text.id} is the error of a provider.", summary_row(text.id))
    elif text.kind is None and is_refusal(text.content):
        yield hit(SUSPICIOUS, f"Summary {text.id} reads like a refusal or an error.", summary_row(text.id))


def _over_target(text: CheckedSummary, limits: Limits) -> bool:
    target = limits.leaf_target if text.node.is_leaf else limits.condensed_target
    return text.node.tokens > target * limits.overage


def _fault(words: str, confidence: Confidence = SUSPICIOUS, fix: FixId | None = None) -> Fault:
    return Fault(confidence, "summary", words, fix, "summaries")


def _with(
    fault: Fault, applies: Callable[[CheckedSummary, Limits], bool], *, marked: bool = False
) -> Callable[[CheckedSummary, Limits], Found]:
    """A rule for the texts of which something is true; those that carry a mark count only when *marked*."""

    def find(text: CheckedSummary, limits: Limits) -> Found:
        asked = marked or text.kind is None
        return ((fault, text.id),) if asked and applies(text, limits) else ()

    return find


_CAPPED: Final = _fault("were truncated at the hard cap")
_DIRECTIVES: Final = _fault("lack parts that looked like instructions")
_SUMMARIES_INJECTED: Final = _fault("contain tags of injected memory or context")
_BINARY: Final = _fault("contain base64, data URLs or media lines")
_LONG: Final = _fault("are more than three times as long as the target")
_SUMMARIES_ORDERS: Final = _fault("contain text that a model could read as instructions")
_UNREADABLE: Final = _fault("have a list of file ids that cannot be read", BROKEN, FixId.RECOMPUTE_FILE_IDS)

#: The checks whose broken findings are the broken summaries (`store.summaries.broken_in`).
BROKEN_SUMMARIES: Final = frozenset({"C1", "C2", "C3", "C4", "C7", "C9", "C15"})

#: Those of them that go by a mark of the engine's own.
MARKED_BY_ENGINE: Final = frozenset({"C1", "C2", "C3", "C4"})


def certainty_of(finding: Finding) -> str:
    """How sure a finding is, in a sentence for people (docs/spec/doctor.md, "How sure a finding is")."""
    if finding.confidence is not BROKEN:
        return finding.confidence.meaning
    if finding.check in MARKED_BY_ENGINE:
        return "Certain: the engine's own mark says that this text is not a summary."
    if finding.check in ("C7", "C15"):
        return "Certain: the text, whoever wrote it, is not a summary."
    return "Certain: no engine version writes this."


#: Asked of one text after the other.
# fmt: off
TEXT_CHECKS: Final[tuple[TextRule[CheckedSummary], ...]] = (
    TextRule("C1", ERROR, "truncated", "Is a summary only its truncated source?",
             why="When no answer of the model is shorter than the source, the engine stores the truncated "
             "source, marked [Truncated from N tokens]. The model no longer sees the rest; the messages are "
             "still stored.", needs=("summaries",), unfixed=_BY_MODEL,
             find=_marked(
                 [BadKind.TRUNCATED],
                 "is not a summary: it is its truncated source",
                 lambda content: not _is_nothing(content),
             )),
    TextRule("C2", ERROR, "truncated from nothing", "Is a summary only the marker of an empty source?",
             why="The marker says 0 tokens: the source was empty, so the model sees nothing of it.",
             needs=("summaries",), unfixed=_BY_MODEL,
             find=_marked([BadKind.TRUNCATED], "is empty: its source was empty", _is_nothing)),
    TextRule("C3", ERROR, "summariser fallback",
             "Is a summary a fallback because the model returned nothing?",
             why="The model failed or returned nothing, so the engine stored the truncated source, marked "
             "[LCM fallback summary; …].", needs=("summaries",), unfixed=_BY_MODEL,
             find=_marked(
                 [BadKind.OLD, BadKind.FALLBACK],
                 "is a fallback: the model returned nothing, so the truncated source was stored",
             )),
    TextRule("C4", ERROR, "emergency cut",
             "Is a summary the truncated source because no model was available?",
             why="Without a model the engine stores the truncated source, meant as a short-lived "
             "placeholder.", needs=("summaries",), unfixed=_BY_MODEL,
             find=_marked([BadKind.EMERGENCY], "is its truncated source: no model was available")),
    TextRule("C5", WARNING, "capped", "Was a summary truncated at the hard cap?",
             why="A summary far over its target is truncated at a hard cap; the model no longer sees the "
             "rest.", needs=("summaries",), unfixed=_BY_MODEL, faults=(_CAPPED,),
             find=_with(_CAPPED, lambda text, limits: is_capped(text.content))),
    TextRule("C6", WARNING, "directives left out",
             "Were parts of a summary omitted because they looked like instructions?",
             why="The engine omits text that looks like an instruction to the reader, and marks the "
             "omission.", needs=("summaries",), faults=(_DIRECTIVES,),
             find=_with(_DIRECTIVES, lambda text, limits: _OMISSION in text.content, marked=True)),
    TextRule("C7", ERROR, "empty", "Is a summary empty?",
             why="An empty summary replaces its messages and says nothing about them.", needs=("summaries",),
             unfixed=_BY_MODEL, find=_empty),
    TextRule("C8", WARNING, "no compression", "Is a summary at least as long as its sources?",
             why="A summary should be shorter than its sources; otherwise it only adds to the context.",
             needs=("summaries",), unfixed=_BY_MODEL, find=_no_compression),
    TextRule("C11", WARNING, "quoted marker", "Is a marker in a place where the engine never puts one?",
             why="A marker counts only where the engine puts it. Elsewhere the text quotes it.",
             needs=("summaries",), find=_quoted_marker),
    TextRule("C12", WARNING, "reasoning in the text",
             "Does a summary begin with thoughts or a preamble of the model?",
             why="A summary is text about the messages. Thoughts and preambles of the model are read as "
             "facts.", needs=("summaries",), unfixed=_BY_MODEL, find=_reasoning),
    TextRule("C13", WARNING, "injected context", "Does a summary contain tags of injected memory or context?",
             why="Memory that the host injects belongs to one turn. In a summary it looks like part of the "
             "conversation.", needs=("summaries",), faults=(_SUMMARIES_INJECTED,),
             find=_with(
                 _SUMMARIES_INJECTED, lambda text, limits: _INJECTED.search(text.content) is not None
             )),
    TextRule("C14", WARNING, "binary in the text", "Does a summary contain base64, data URLs or media lines?",
             why="Encoded data in a summary costs tokens and carries no information.", needs=("summaries",),
             faults=(_BINARY,), find=_with(_BINARY, lambda text, limits: has_binary(text.content))),
    TextRule("C15", WARNING, "error or refusal", "Is a summary the error or the refusal of a provider?",
             why="A provider's error or refusal was stored as if it were the summary.", needs=("summaries",),
             unfixed=_BY_MODEL, find=_refusal),
    TextRule("C16", INFO, "over target", "Is a summary more than three times as long as it should be?",
             why="The target for a leaf and for a condensed summary is set in the configuration; three "
             "times that is unusual.", needs=("summaries",),
             unanswered="Which target applied when it was made; the current one is used.", faults=(_LONG,),
             find=_with(_LONG, _over_target)),
    TextRule("C20", WARNING, "instructions to the reader",
             "Does a summary read like an instruction to the model?",
             why="A summary reports what was said. Sentences that instruct the reader may come from an "
             "attacker.", needs=("summaries",), faults=(_SUMMARIES_ORDERS,),
             find=_with(_SUMMARIES_ORDERS, lambda text, limits: gives_orders(text.content))),
    TextRule("D11", WARNING, "file ids malformed", "Is a list of file ids not a JSON array of strings?",
             why="The files of a summary are a JSON array of ids.", needs=("summaries", "summaries.file_ids"),
             faults=(_UNREADABLE,),
             find=_with(
                 _UNREADABLE,
                 lambda text, limits: text.body.file_ids is not None and text.listed is None,
                 marked=True,
             )),
)
# fmt: on


class Summaries:
    """What is known of the summaries of one conversation when all their texts were read."""

    def __init__(self, structure: Structure, limits: Limits, wanted: frozenset[str]) -> None:
        self.structure = structure
        self.bad: set[SummaryId] = set()  #: those that are no summaries
        self.alike: dict[bytes, list[SummaryId]] = {}  #: by digest of the text
        self.copies: dict[SummaryId, Copy] = {}
        self.listed: dict[SummaryId, tuple[str, ...]] = {}  #: file ids that can be read
        self.named: dict[SummaryId, tuple[str, ...]] = {}  #: file ids in texts of summaries
        self.known_files: frozenset[str] = frozenset()  #: ids of the files that the database knows
        self.files_of_messages: Mapping[int, tuple[str, ...]] = {}  #: ids that their texts name
        self._limits, self._wanted = limits, wanted
        self._gathering = Gathering([rule for rule in TEXT_CHECKS if rule.id in wanted], limits)
        self._miscounted = FaultRows(limits)

    def take(self, bodies: Iterable[Body]) -> list[SummaryId]:
        """Look at some texts; the ids returned may be copies and want `compare`."""
        suspects = []
        for body in bodies:
            node = self.structure.nodes.get(body.summary_id)
            if node is None:  # made after the structure was read
                continue
            text = CheckedSummary(self.structure, node, body, classify(body.content, node.model))
            self._gathering.look(text)
            if text.kind is not None or text.is_error:
                self.bad.add(text.id)
            if text.kind is None:
                digest = blake2b(
                    body.content.strip().encode("utf-8", "surrogatepass"), digest_size=16
                ).digest()
                self.alike.setdefault(digest, []).append(text.id)
                if not text.is_error and may_be_copy(body.content, body.opening):
                    suspects.append(text.id)
            if "D1" in self._wanted and node.tokens >= 0:
                estimates = (estimate_weighted(body.content), estimate_utf16(body.content))
                if min(abs(node.tokens - one) for one in estimates) > _TOLERANCE:
                    self._miscounted.add("summaries", text.id)
            if "D12" in self._wanted and body.file_ids is not None:
                self.named[text.id] = tuple(file_ids(body.content))
                if (listed := text.listed) is not None:
                    self.listed[text.id] = listed
        return suspects if "C9" in self._wanted else []

    def compare(self, summary_id: SummaryId, content: str, sources: Iterable[str]) -> None:
        """Note whether a text is its source."""
        copied = copy_of_source(content, sources)
        if copied is not None:
            self.copies[summary_id] = copied
        if copied is Copy.CUT:
            self.bad.add(summary_id)

    def findings(self) -> Iterator[Finding]:
        """What was found."""
        owner = self.structure.id
        yield from self._gathering.findings(owner)
        for rule in CHECKS:
            if rule.id in self._wanted:
                yield from rule.findings(self, self._limits, owner)
        yield from TOKEN_COUNT.findings(Miscounted(owner, "summary", self._miscounted), self._limits)

    def files_of_sources(self, summary_id: SummaryId) -> Iterator[str]:
        """The files that a summary's sources name (docs/spec/format.md, "Identifiers")."""
        links = self.structure.links.get(summary_id)
        for message_id in () if links is None else links.message_ids:
            yield from self.files_of_messages.get(message_id, ())
        for edge in self.structure.edges.get(summary_id, ()):
            yield from self.listed.get(edge.source, ())
            yield from self.named.get(edge.source, ())


def _copies(seen: Summaries, limits: Limits) -> Iterator[Hit]:
    for summary_id, copied in seen.copies.items():
        cut = copied is Copy.CUT
        what = "the beginning of its source; the rest is lost" if cut else "a copy of its source"
        yield hit(BROKEN if cut else SUSPICIOUS, f"Summary {summary_id} is {what}.", summary_row(summary_id))


def _from_bad_ones(seen: Summaries, limits: Limits) -> Iterator[Hit]:
    for consumer, edges in seen.structure.edges.items():
        bad = [edge.source for edge in edges if edge.source in seen.bad]
        if bad and consumer not in seen.bad and consumer in seen.structure.nodes:
            yield hit(
                SUSPICIOUS,
                f"Summary {consumer} was condensed from {counted(len(bad), 'source')} that "
                f"{'is' if len(bad) == 1 else 'are'} no summary: the truncated part is missing in it too.",
                *map(summary_row, (consumer, *bad[: limits.rows])),
            )


def _same_texts(seen: Summaries, limits: Limits) -> Iterator[Hit]:
    for same in seen.alike.values():
        if len(same) > 1:
            what = f"{len(same):,} summaries of conversation {seen.structure.id} have the same text."
            yield hit(SUSPICIOUS, what, *map(summary_row, same[: limits.rows]))


def _wrong_file_ids(seen: Summaries, limits: Limits) -> Iterator[Hit]:
    stray, unknown, lacking, circling = (FaultRows(limits) for _ in range(4))
    known = seen.known_files
    for summary_id, listed in seen.listed.items():
        named = frozenset(seen.files_of_sources(summary_id))
        lost = lacking if summary_id in seen.structure.graph.sources_first else circling
        for rows, applies in (
            (stray, any(one not in known and one not in named for one in listed)),
            (unknown, any(one not in known and one in named for one in listed)),
            (lost, any(one in known and one not in listed for one in named)),
        ):
            if applies:
                rows.add("summaries", summary_id)
    for rows, words, fix in (
        (stray, "list files that are in neither the database nor the sources", FixId.RECOMPUTE_FILE_IDS),
        (unknown, "list files of the sources that are not in the database", None),
        (lacking, "do not list files that the sources name", FixId.RECOMPUTE_FILE_IDS),
        (circling, "do not list files that the sources name, on a cycle", None),
    ):
        yield from rows.hits(SUSPICIOUS, "summary", seen.structure.id, f"{words}.", fix)


#: Asked when all texts were read.
# fmt: off
# fmt: off
CHECKS: Final[tuple[Rule[Summaries], ...]] = (
    Rule("C9", WARNING, "unmarked copy", "Is a summary a copy of its source?",
         why="A summary that repeats its source verbatim is a truncation without a marker.",
         needs=("summaries",), unanswered="A copy whose source was rewritten since.", unfixed=_BY_MODEL,
         find=_copies),
    Rule("C10", WARNING, "made from a broken summary", "Was a summary condensed from a broken one?",
         why="A summary lacks everything that its broken source lacks. Repair the source first (R).",
         needs=("summaries", "summary_parents"), find=_from_bad_ones,
         unfixed="No automatic fix. When its source is repaired, R in the app lists it as stale, and so does "
         "lcm-tui rewrite CONVERSATION --stale."),
    Rule("C17", WARNING, "same text twice", "Do several summaries of a conversation have the same text?",
         why="Two summaries with one text were made from the same messages, or one replaced the other.",
         needs=("summaries",), find=_same_texts),
    Rule("D12", WARNING, "file ids",
         "Does a list of file ids name an unknown file, or omit one of its sources'?",
         why="The files of a summary are those that its text names and those of its sources, each of them "
         "stored.", needs=("summaries", "summaries.file_ids", "large_files"), find=_wrong_file_ids),
)
# fmt: on
# fmt: on


async def read_summaries(
    run: Run, structure: Structure, wanted: frozenset[str], known: frozenset[str] | None
) -> None:
    """Read the texts of a conversation's summaries and ask what is *wanted* of them.

    *known* are the ids of the files that the database knows; None when D12 is not wanted.
    """
    seen = Summaries(structure, run.limits, wanted)
    ids, left_out = list(structure.nodes), 0
    for start in range(0, len(ids), BATCH):
        bodies = await run.read(bodies_of, ids[start : start + BATCH])
        left_out += len(set(ids[start : start + BATCH])) - len(bodies)
        suspects = await run.in_thread(seen.take, bodies)
        run.moved()
        contents = {body.summary_id: body.content for body in bodies}
        for summary_id in suspects:
            sources = await run.read(source_texts, summary_id)
            await run.in_thread(seen.compare, summary_id, contents[summary_id], sources)
            run.moved()
    named: dict[int, tuple[str, ...]] = {}
    after: SqlValue = -(2**63)
    while known and after is not None:
        found, after = await run.read(files_named, structure.id, after)
        run.moved()
        named |= found
    seen.known_files, seen.files_of_messages = known or frozenset(), named
    run.add(await run.in_thread(list, seen.findings()))
    note_left_out(run, wanted, structure, left_out, "summaries")


def note_left_out(run: Run, wanted: frozenset[str], structure: Structure, count: int, what: str) -> None:
    """Say what was not looked into."""
    if count > 0:
        long = f"have more than {MOST_CHARACTERS:,} characters"
        why = f"{long} or an id of another type, or were removed meanwhile"
        where = f"{count:,} {what} of conversation {structure.id}"
        run.stop(wanted, f"it did not read {where}: their texts {why}")


async def files_named(
    reader: Reader, conversation_id: ConversationId, after: SqlValue
) -> tuple[dict[int, tuple[str, ...]], SqlValue]:
    """File ids in the texts of the messages after a seq, and where to go on; None at the end.

    A seq as it is stored: text is behind all numbers.
    """
    rows = await reader.stored(
        f"""SELECT m.message_id, m.seq, CAST(m.content AS TEXT) AS content FROM messages AS m
        WHERE m.conversation_id = ? AND m.seq > ? AND m.content LIKE '%file\\_%' ESCAPE '\\'
        ORDER BY m.seq LIMIT {_PAGE}""",
        conversation_id,
        after,
    )
    named = {row["message_id"]: tuple(file_ids(row["content"])) for row in rows}
    return {key: ids for key, ids in named.items() if ids}, rows[-1]["seq"] if len(rows) == _PAGE else None


async def known_files(reader: Reader) -> frozenset[str]:
    """The ids of all files that the database knows, in lower case."""
    if not reader.schema.has("large_files"):
        return frozenset()
    rows = await reader.rows(
        "SELECT lower(CAST(file_id AS TEXT)) AS id FROM large_files WHERE file_id IS NOT NULL"
    )
    return frozenset(row["id"] for row in rows)
