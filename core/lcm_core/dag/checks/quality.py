"""Family C: the texts of summaries, and what is counted and listed from them (D1, D11, D12).

A scan takes the texts of a conversation in batches, in any order, and answers at the end: whether a summary
was made from a bad one shows only when all are known.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from lcm_core.dag.checks import texts
from lcm_core.dag.checks.facts import Limits, Node, Structure, Tally, counted, found, summary_row, told
from lcm_core.dag.markers import (
    FALLBACK_MARKER,
    MARKER_LIKE,
    TRUNCATED_MARKER,
    BrokenKind,
    classify,
    is_capped,
)
from lcm_core.findings import Confidence, Finding, FixId
from lcm_core.javascript import BLANKS
from lcm_core.records import SummaryId
from lcm_core.tokens import estimate_utf16, estimate_weighted

_BROKEN, _SUSPICIOUS, _BY_DESIGN = Confidence.BROKEN, Confidence.SUSPICIOUS, Confidence.BY_DESIGN

OMISSION: Final = "[LCM fallback summary omitted directive-shaped untrusted content]"
NOTHING_TRUNCATED: Final = "[Truncated from 0 tokens]"
#: Stored counts may be this far from an estimate: another tool rounds down.
_TOLERANCE: Final = 1

_BROKEN_AS: Final[Mapping[BrokenKind, tuple[str, str]]] = {
    BrokenKind.OLD: ("C3", "is the stand-in of a summariser that gave nothing: its source, cut off"),
    BrokenKind.FALLBACK: ("C3", "is the stand-in of a summariser that gave nothing: its source, cut off"),
    BrokenKind.TRUNCATED: ("C1", "is no summary but its source, cut off"),
    BrokenKind.EMERGENCY: ("C4", "was cut off because no model could be found"),
    BrokenKind.EMPTY: ("C7", "has no text"),
}
#: Checks that tell one finding per conversation: what is said of its summaries, and how sure it is.
_GROUPED: Final[Mapping[str, tuple[Confidence, str]]] = {
    "C5": (_SUSPICIOUS, "were cut off at the hard cap"),
    "C6": (_SUSPICIOUS, "lack parts that looked like orders"),
    "C13": (_SUSPICIOUS, "hold tags of injected memory or context"),
    "C14": (_SUSPICIOUS, "hold base64, data URLs or media lines"),
    "C16": (_SUSPICIOUS, "are more than three times as long as the target"),
    "C18": (_BY_DESIGN, "do not say what can be expanded"),
    "C20": (_SUSPICIOUS, "hold what a model could take for instructions"),
    "D1": (_SUSPICIOUS, "have a token count that no estimator gives"),
    "D11": (_BROKEN, "have a list of file ids that cannot be read"),
}
_FIXES: Final[Mapping[str, FixId]] = {"D1": FixId.RECOMPUTE_TOKENS, "D11": FixId.RECOMPUTE_FILE_IDS}


@dataclass(frozen=True, slots=True)
class Body:
    """The text of a summary, and the beginning of what it was made from."""

    summary_id: SummaryId
    content: str
    file_ids: str | None  #: as stored
    opening: str  #: the beginning of the first source that is not blank


class TextScan:
    """Judges the summaries of one conversation."""

    def __init__(self, structure: Structure, limits: Limits, wanted: frozenset[str]) -> None:
        self._structure, self._limits, self._wanted = structure, limits, wanted
        self._findings: list[Finding] = []
        self._grouped: dict[str, Tally] = {}
        self._bad: dict[SummaryId, str] = {}  #: bad summaries and the check that says so
        self._seen: dict[bytes, list[SummaryId]] = {}
        self._listed: dict[SummaryId, tuple[str, ...]] = {}  #: file ids that can be read
        self._named: dict[SummaryId, tuple[str, ...]] = {}  #: file ids in texts of summaries

    def take(self, bodies: Iterable[Body]) -> list[SummaryId]:
        """Look at some texts; the ids returned may be copies and want `compare`."""
        suspects = []
        for body in bodies:
            node = self._structure.nodes.get(body.summary_id)
            if node is None:  # made after the structure was read
                continue
            kind = classify(body.content, node.model)
            if kind is not None:
                self._mark(node, body.content, kind)
            else:
                self._look(node, body)
                if texts.may_be_copy(body.content, body.opening):
                    suspects.append(node.summary_id)
            self._count(node, body)
            self._list(node, body)
        return suspects if "C9" in self._wanted else []

    def compare(self, summary_id: SummaryId, content: str, sources: Iterable[str]) -> None:
        """C9: whether a text is its source."""
        copied = texts.copied(content, sources)
        if copied is not None:
            cut = copied is texts.Copy.CUT
            self._say(
                "C9",
                _BROKEN if cut else _SUSPICIOUS,
                summary_id,
                f"Summary {summary_id} is "
                + ("the beginning of its source, and the rest is lost." if cut else "a copy of its source."),
            )

    def _say(self, check: str, confidence: Confidence, summary_id: SummaryId, sentence: str) -> None:
        if check in self._wanted:
            rows = [summary_row(summary_id)]
            self._findings.append(found(check, confidence, self._structure.id, rows, sentence))

    def _add(self, check: str, summary_id: SummaryId) -> None:
        if check in self._wanted:
            self._grouped.setdefault(check, Tally(self._limits)).add("summaries", summary_id)

    def _mark(self, node: Node, content: str, kind: BrokenKind) -> None:
        check, words = _BROKEN_AS[kind]
        if kind is BrokenKind.TRUNCATED and content.strip(BLANKS) == NOTHING_TRUNCATED:
            check, words = "C2", "holds nothing: its source was empty"
        self._bad[node.summary_id] = check
        self._say(check, _BROKEN, node.summary_id, f"Summary {node.summary_id} {words}.")
        if OMISSION in content:
            self._add("C6", node.summary_id)

    def _look(self, node: Node, body: Body) -> None:
        """A text that no marker rule calls bad."""
        name, content = node.summary_id, body.content
        self._look_for_markers(name, content)
        if not texts.says_something(content):
            self._say("C7", _SUSPICIOUS, name, f"The text of summary {name} holds no word.")
        elif node.tokens == 0:
            self._say("C7", _SUSPICIOUS, name, f"Summary {name} has a text, but counts 0 tokens.")
        if texts.is_error(content):
            self._bad[name] = "C15"
            self._say("C15", _BROKEN, name, f"Summary {name} is the error of a provider.")
        elif texts.is_refusal(content):
            self._say("C15", _SUSPICIOUS, name, f"Summary {name} reads like a refusal or an error.")
        if texts.has_reasoning(content):
            self._say(
                "C12", _SUSPICIOUS, name, f"Summary {name} holds what the model thought or said before it."
            )
        source = self._source_tokens(node)
        if source and node.tokens >= source:
            self._say(
                "C8",
                _SUSPICIOUS,
                name,
                f"Summary {name} has {node.tokens:,} tokens, what it was made from {source:,}.",
            )
        for check, applies in (
            ("C5", is_capped(content)),
            ("C6", OMISSION in content),
            ("C13", texts.has_injected_context(content)),
            ("C14", texts.has_binary(content)),
            ("C16", node.tokens > self._most_tokens(node)),
            ("C18", not texts.has_expansion_hint(content)),
            ("C20", texts.gives_orders(content)),
        ):
            if applies:
                self._add(check, name)
        digest = blake2b(content.strip().encode("utf-8", "surrogatepass"), digest_size=16).digest()
        self._seen.setdefault(digest, []).append(name)

    def _look_for_markers(self, name: SummaryId, content: str) -> None:
        """C11: a marker that stands where the engine does not look for it."""
        if not any(marker in content for marker in MARKER_LIKE):
            return
        at_end = content.rstrip(BLANKS).endswith(FALLBACK_MARKER) or (
            content.rstrip(BLANKS).endswith(" tokens]") and TRUNCATED_MARKER in content[-40:]
        )
        if at_end:
            why = (
                "and again at its end, where it means that the text was cut off; the engine's doctor "
                "misses it"
            )
            self._say("C11", _SUSPICIOUS, name, f"Summary {name} holds a marker early {why}.")
        else:
            self._say(
                "C11",
                _BY_DESIGN,
                name,
                f"Summary {name} quotes a marker of the engine, or had a model although it holds one.",
            )

    def _source_tokens(self, node: Node) -> int | None:
        """Tokens of what a summary was made from; None when some of it is gone."""
        structure = self._structure
        if node.is_leaf:
            links = structure.links.get(node.summary_id)
            places = list(structure.places(node.summary_id))
            if links is None or len(places) < len(links.message_ids):
                return None
            return sum(structure.messages.tokens[place] for place in places)
        edges = structure.edges.get(node.summary_id, ())
        sources = [structure.nodes.get(edge.source) for edge in edges]
        if not all(sources) or any(source is not None and source.tokens < 0 for source in sources):
            return None
        return sum(source.tokens for source in sources if source is not None)

    def _most_tokens(self, node: Node) -> float:
        limits = self._limits
        return (limits.leaf_target if node.is_leaf else limits.condensed_target) * limits.overage

    def _count(self, node: Node, body: Body) -> None:
        if "D1" in self._wanted and node.tokens >= 0:
            estimates = (estimate_weighted(body.content), estimate_utf16(body.content))
            if min(abs(node.tokens - one) for one in estimates) > _TOLERANCE:
                self._add("D1", node.summary_id)

    def _list(self, node: Node, body: Body) -> None:
        if body.file_ids is None or not self._wanted & {"D11", "D12"}:
            return
        self._named[node.summary_id] = tuple(texts.file_ids(body.content))
        try:
            value = json.loads(body.file_ids)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, list) and all(isinstance(one, str) for one in value):
            self._listed[node.summary_id] = tuple(value)
        else:
            self._add("D11", node.summary_id)

    def findings(
        self,
        known_files: frozenset[str] | None = None,
        message_files: Mapping[int, tuple[str, ...]] | None = None,
    ) -> Iterator[Finding]:
        """What was found; D12 needs the files that exist and those that the messages name."""
        yield from self._findings
        if "C10" in self._wanted:
            yield from self._contaminated()
        if "C17" in self._wanted:
            yield from self._same_texts()
        for check, rows in sorted(self._grouped.items()):
            confidence, words = _GROUPED[check]
            sentence = told(rows.count, "summary", self._structure.id, f"{words}.")
            yield rows.finding(check, confidence, self._structure.id, sentence, _FIXES.get(check))
        if "D12" in self._wanted and known_files is not None:
            yield from self._wrong_file_ids(known_files, message_files or {})

    def _contaminated(self) -> Iterator[Finding]:
        for consumer, edges in self._structure.edges.items():
            bad = [edge.source for edge in edges if edge.source in self._bad]
            if bad and consumer not in self._bad and consumer in self._structure.nodes:
                yield found(
                    "C10",
                    _SUSPICIOUS,
                    self._structure.id,
                    [summary_row(consumer), *map(summary_row, bad[: self._limits.rows])],
                    f"Summary {consumer} was condensed from {counted(len(bad), 'source')} that "
                    f"{'is' if len(bad) == 1 else 'are'} no summary: what was cut off is missing in it too.",
                )

    def _same_texts(self) -> Iterator[Finding]:
        for same in self._seen.values():
            if len(same) > 1:
                yield found(
                    "C17",
                    _SUSPICIOUS,
                    self._structure.id,
                    [summary_row(one) for one in same[: self._limits.rows]],
                    f"{len(same):,} summaries of conversation {self._structure.id} hold the same text.",
                )

    def _wrong_file_ids(
        self, known_files: frozenset[str], message_files: Mapping[int, tuple[str, ...]]
    ) -> Iterator[Finding]:
        stray, unknown, lacking, circling = (Tally(self._limits) for _ in range(4))
        for summary_id, listed in self._listed.items():
            named = frozenset(self._inherited(summary_id, message_files))
            lost = lacking if summary_id in self._structure.sources_first else circling
            for rows, applies in (
                (stray, any(one not in known_files and one not in named for one in listed)),
                (unknown, any(one not in known_files and one in named for one in listed)),
                (lost, any(one in known_files and one not in listed for one in named)),
            ):
                if applies:
                    rows.add("summaries", summary_id)
        for rows, words, fix in (
            (stray, "list files that neither the database nor the sources know", FixId.RECOMPUTE_FILE_IDS),
            (unknown, "list files of the sources that the database does not know", None),
            (lacking, "do not list files that the sources name", FixId.RECOMPUTE_FILE_IDS),
            (circling, "do not list files that the sources name, on a circle", None),
        ):
            if rows:
                sentence = told(rows.count, "summary", self._structure.id, f"{words}.")
                yield rows.finding("D12", _SUSPICIOUS, self._structure.id, sentence, fix)

    def _inherited(
        self, summary_id: SummaryId, message_files: Mapping[int, tuple[str, ...]]
    ) -> Iterator[str]:
        """The files that a summary's sources name (docs/format.md, "Identifiers")."""
        links = self._structure.links.get(summary_id)
        for message_id in () if links is None else links.message_ids:
            yield from message_files.get(message_id, ())
        for edge in self._structure.edges.get(summary_id, ()):
            yield from self._listed.get(edge.source, ())
            yield from self._named.get(edge.source, ())
