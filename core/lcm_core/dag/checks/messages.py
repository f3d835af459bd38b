"""Family E, what needs the texts and parts of messages, and their token counts (D1).

A scan takes the messages of one conversation in order of seq, in batches, and answers at the end.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Final, NamedTuple

from lcm_core.assemble.counted import tokens_as_sent
from lcm_core.dag.checks.duplicates import SHORT_TEXT, Keys, Proof, Repetition
from lcm_core.dag.checks.facts import Limits, Structure, Tally, counted, told
from lcm_core.dag.checks.repeats import repetitions, spare_copies
from lcm_core.dag.checks.tools import ToolScan, tool_part
from lcm_core.dag.checks.twins import are_twins
from lcm_core.findings import Confidence, Finding, FixId
from lcm_core.records import Message, MessagePart
from lcm_core.tokens import Verdict, check_message_tokens, counted_text, estimate_utf16

_BROKEN, _SUSPICIOUS, _BY_DESIGN = Confidence.BROKEN, Confidence.SUSPICIOUS, Confidence.BY_DESIGN

#: What the assembler puts in place of a missing tool result (docs/engine/assembly.md, "Tool pairing").
SYNTHETIC_RESULT: Final = (
    "[lossless-claw] missing tool result in session history; "
    "inserted synthetic error result for transcript repair."
)
_FILE_ID: Final = re.compile(r"\bfile_[0-9a-f]{16}\b")
_REFERENCE: Final = re.compile(r"\[LCM (?:File|Tool Output|Raw Payload): file_|\| LCM file: file_")
_HEARTBEAT: Final = re.compile(
    r"\s*(?:HEARTBEAT_OK\b.{0,40}\Z|Read HEARTBEAT\.md\b|NO_REPLY\s*\Z"
    r"|\[?heartbeat(?: poll| check)?\]?\s*\Z)",
    re.DOTALL,
)
_RAW: Final = '"raw":'
_RUNTIME: Final = re.compile(r"\s*(?:<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>|OpenClaw runtime context\b)")


class PartBody(NamedTuple):  # of which there are millions: a frozen dataclass takes three times as long
    """A part of a message, as far as the checks look at it."""

    part_id: str | None  #: only of parts that may be about a tool and have no call id
    ordinal: int
    part_type: str
    text: str | None  #: None as well when it is `same`
    same: bool  #: its text is the whole text of the message
    tool_call_id: str | None
    session_id: str | None  #: None: the conversation's own
    metadata: str | None
    unreadable: str | None  #: the part's id when its metadata is no JSON


class MessageBody(NamedTuple):
    """A message with its text and parts."""

    message_id: int
    content: str
    identity_hash: str | None
    has_file: bool  #: ``large_content`` names a file
    parts: tuple[PartBody, ...]


#: Checks that tell one finding per conversation: the rows, how sure it is, what is said, and the fix.
_GROUPED: Final[Mapping[str, tuple[str, str, Confidence, str, FixId | None]]] = {
    "D1": (
        "D1",
        "message",
        _SUSPICIOUS,
        "have a token count that no estimator gives",
        FixId.RECOMPUTE_TOKENS,
    ),
    "E6": ("E6", "message", _SUSPICIOUS, "have the identity hash of another text", None),
    "E6 null": (
        "E6",
        "message",
        _SUSPICIOUS,
        "have no identity hash: copies are not recognised",
        None,
    ),
    "E6 user": ("E6", "user message", _BY_DESIGN, "have an identity hash of an undecorated text", None),
    "E9": ("E9", "tool message", _SUSPICIOUS, "have no parts: what the tool returned cannot be paired", None),
    "E9 bulk": ("E9", "tool message", _BY_DESIGN, "have no parts, as imports up to 0.9.3 stored them", None),
    "E10": ("E10", "message", _SUSPICIOUS, "have no parts although messages before have", None),
    "E12": ("E12", "part", _BROKEN, "have metadata that cannot be read", None),
    "E12 gap": ("E12", "message", _SUSPICIOUS, "lack parts: ordinals are missing", None),
    "E12 text": ("E12", "message", _SUSPICIOUS, "have another text than the parts", None),
    "E15": (
        "E15",
        "message",
        _BY_DESIGN,
        "are noise: heartbeats, mirrored or empty replies, runtime context",
        None,
    ),
    "E20": ("E20", "message", _SUSPICIOUS, "hold a payload that the engine would have made a file", None),
    "E21": ("E21", "message", _SUSPICIOUS, "hold the text that stands in for a missing tool result", None),
    "E22": (
        "E22",
        "message",
        _SUSPICIOUS,
        "count 0 tokens although something is there",
        FixId.RECOMPUTE_TOKENS,
    ),
    "E22 lost": ("E22", "message", _SUSPICIOUS, "count 0 tokens, and what was counted is lost", None),
    "E5": ("E5", "message", _SUSPICIOUS, "differ from the one before only in form", None),
}


class MessageScan:
    """Judges the messages of one conversation."""

    def __init__(
        self, structure: Structure, limits: Limits, wanted: frozenset[str], *, backfilled: bool
    ) -> None:
        size = len(structure.messages)
        self._structure, self._limits, self._wanted = structure, limits, wanted
        self._backfilled = backfilled
        self._rows: dict[str, Tally] = {}
        self._texts = array("Q", bytes(8 * size))
        self._calls = array("Q", bytes(8 * size))
        self._weights = bytearray(size)
        self._parts = bytearray(size)  #: 1 where a message has parts, 2 where it was not read
        self._parts[:] = b"\2" * size
        self._heartbeats = bytearray(size)
        self._tools = ToolScan(structure, limits)
        self._sessions: set[str | None] = set()
        self._before: tuple[int, MessageBody] | None = None
        self._doubtful: list[int] = []  #: messages

    def take(self, bodies: Iterable[MessageBody]) -> None:
        """Look at some messages, in order of seq."""
        for body in bodies:
            place = self._structure.messages.position.get(body.message_id)
            if place is None:  # stored after the structure was read
                continue
            role = self._structure.messages.role(place)
            self._identify(place, role, body)
            self._look(place, role, body)
            self._look_at_parts(place, role, body)
            if "D1" in self._wanted:
                self._count(place, body)
            if self._before is not None and self._before[0] == place - 1:
                self._compare(place, self._before[1], body)
            self._before = (place, body)

    def _add(self, check: str, place: int) -> None:
        if check.split()[0] in self._wanted:
            self._rows.setdefault(check, Tally(self._limits)).add(
                "messages", self._structure.messages.ids[place]
            )

    def _identify(self, place: int, role: str, body: MessageBody) -> None:
        stored = body.identity_hash
        digest = None
        if stored is None or "E6" in self._wanted:
            digest = sha256(f"{role}\0{body.content}".encode("utf-8", "surrogatepass")).hexdigest()
        if stored is None:
            self._add("E6 null", place)
        elif digest is not None and digest != stored:
            self._add("E6 user" if role == "user" else "E6", place)
        key = _without_file_ids(role, body.content) or stored or digest or ""
        try:
            self._texts[place] = int(key[:16], 16) & 0xFFFF_FFFF_FFFF_FFFF
        except ValueError:
            self._texts[place] = hash(key) & 0xFFFF_FFFF_FFFF_FFFF
        length = len(body.content)
        if length > 10_000 or len(body.content.strip()) > SHORT_TEXT:
            self._weights[place] = 2
        else:
            self._weights[place] = 1 if body.content.strip() else 0

    def _look(self, place: int, role: str, body: MessageBody) -> None:
        content = body.content
        if _HEARTBEAT.match(content):
            self._heartbeats[place] = 1
            self._add("E15", place)
        elif _RUNTIME.match(content) or (role == "assistant" and not body.parts and not content.strip()):
            self._add("E15", place)
        if content.strip() == SYNTHETIC_RESULT:
            self._add("E21", place)
        tokens = self._structure.messages.tokens[place]
        if tokens == 0 and (content.strip() or any(part.text for part in body.parts)):
            counted = counted_text(role, content, [part.metadata for part in body.parts])
            self._add("E22" if counted is not None else "E22 lost", place)
        if tokens >= self._limits.large_payload and not body.has_file and not _REFERENCE.search(content):
            self._add("E20", place)

    def _look_at_parts(self, place: int, role: str, body: MessageBody) -> None:
        self._parts[place] = bool(body.parts)
        ids = []
        for part in body.parts:
            if part.unreadable is not None and "E12" in self._wanted:
                self._rows.setdefault("E12", Tally(self._limits)).add("message_parts", part.unreadable)
            self._sessions.add(part.session_id)
            tool = tool_part(role, part.part_type, part.tool_call_id, part.metadata)
            if tool is not None:
                ids.append(tool.call_id)
                self._tools.take(place, part.part_id, tool)
        if ids:
            self._calls[place] = hash(tuple(sorted(ids))) & 0xFFFF_FFFF_FFFF_FFFF or 1
        if not body.parts:
            return
        if any(part.ordinal != index for index, part in enumerate(body.parts)):
            self._add("E12 gap", place)
        if _text_differs(body):
            self._add("E12 text", place)

    def _count(self, place: int, body: MessageBody) -> None:
        stored = self._structure.messages.tokens[place]
        if stored <= 0 or _counts_easily(stored, body):
            return
        check = check_message_tokens(stored, body.content, [part.metadata for part in body.parts])
        near = check.weighted is not None and abs(check.weighted - stored) <= 1
        if check.verdict is Verdict.DIFFERS and not near:
            self._doubtful.append(body.message_id)

    def doubtful(self) -> list[int]:
        """The messages, since this was asked last, whose count only their whole parts can explain."""
        found, self._doubtful = self._doubtful, []
        return found

    def weigh(self, messages: Iterable[tuple[Message, Sequence[MessagePart]]]) -> None:
        """Judge doubtful counts: the present engine counts what it would send, rebuilt from the parts."""
        for message, parts in messages:
            place = self._structure.messages.position.get(message.message_id)
            if place is None:
                continue
            if abs(tokens_as_sent(message, parts) - self._structure.messages.tokens[place]) > 1:
                self._add("D1", place)

    def _compare(self, place: int, before: MessageBody, body: MessageBody) -> None:
        """E5 and mirrored replies, between neighbours."""
        messages = self._structure.messages
        if messages.roles[place] != messages.roles[place - 1]:
            return
        if self._weights[place] == 2 and self._texts[place] == self._texts[place - 1]:
            if messages.role(place) == "assistant":
                self._add("E15", place)
        elif "E5" in self._wanted and self._weights[place] == 2 and are_twins(before.content, body.content):
            self._add("E5", place)

    @property
    def keys(self) -> Keys:
        """What tells the messages apart."""
        return Keys(self._texts, self._calls, bytes(self._weights))

    def repetitions(self) -> list[Repetition]:
        """Replayed blocks, floods and duplicates of the whole conversation, once all messages were taken."""
        return repetitions(self._structure, self.keys)

    def copies(self) -> frozenset[int]:
        """The places of all proven copies of something that the context reaches without them."""
        return spare_copies(self._structure, self.keys)

    def findings(self) -> Iterator[Finding]:
        """What was found."""
        if self._wanted & {"E3", "E4"}:
            yield from (one for one in self._repeated() if one.check in self._wanted)
        if "E7" in self._wanted:
            yield from self._tools.unpaired()
        if "E8" in self._wanted:
            yield from self._tools.repeated()
        if "E11" in self._wanted:
            yield from self._tools.unfilled(backfilled=self._backfilled)
        self._find_bare()
        for name, rows in sorted(self._rows.items()):
            check, what, confidence, words, fix = _GROUPED[name]
            sentence = told(rows.count, what, self._structure.id, f"{words}.")
            yield rows.finding(check, confidence, self._structure.id, sentence, fix)
        if "C19" in self._wanted:
            yield from self._heartbeat_leaves()
        if "G19" in self._wanted and len(self._sessions) > 1:
            rows = Tally(self._limits)
            rows.add("conversations", self._structure.id)
            sentence = (
                f"The parts of conversation {self._structure.id} name {len(self._sessions):,} sessions."
            )
            yield rows.finding("G19", _BY_DESIGN, self._structure.id, sentence)

    def _find_bare(self) -> None:
        """E9 and E10: messages without parts before the first that has some are an old import, or copies."""
        first = self._parts.find(1, self._structure.copied)
        for place, parts in enumerate(self._parts):
            if parts:
                continue
            imported = first < 0 or place < first
            if self._structure.messages.role(place) == "tool":
                self._add("E9 bulk" if imported else "E9", place)
            elif not imported:
                self._add("E10", place)

    def _heartbeat_leaves(self) -> Iterator[Finding]:
        rows = Tally(self._limits)
        for summary_id, node in self._structure.nodes.items():
            places = list(self._structure.places(summary_id)) if node.is_leaf else []
            if places and all(self._heartbeats[place] for place in places):
                rows.add("summaries", summary_id)
        if rows:
            sentence = told(rows.count, "leaf", self._structure.id, "were made from nothing but heartbeats.")
            yield rows.finding("C19", _SUSPICIOUS, self._structure.id, sentence)

    def _repeated(self) -> Iterator[Finding]:
        """E3 and E4."""
        structure = self._structure
        for one in self.repetitions():
            rows = Tally(self._limits)
            for message_id in one.copy_ids:
                rows.add("messages", message_id)
            held = f"{len(one.in_context):,} of them" if one.in_context else "none of them"
            cost = f"{one.tokens:,} tokens too many, {held} in the context"
            if one.proof is not None:
                block = f"{_seqs(one.original_seqs)} = {_seqs(one.copy_seqs).removeprefix('seq ')}"
                what = (
                    f"{block} in conversation {structure.id}: {counted(rows.count, 'message')} stored again, "
                    f"{one.proof}; {cost}."
                )
            else:
                what = (
                    f"The message at {_seqs(one.original_seqs)} of conversation {structure.id} was stored "
                    f"{rows.count + 1:,} times in one second; {cost}."
                )
            confidence = _BROKEN if one.certain else _SUSPICIOUS
            if not one.in_context and not one.summarised:
                confidence = _BY_DESIGN  # the rows are kept, and the model reads none of them
            proven = one.proof is not Proof.LENGTH
            yield rows.finding(
                "E3" if one.proof is not None or one.flood else "E4",
                confidence,
                structure.id,
                what,
                FixId.DROP_REPEATED_MESSAGES if proven and one.spare else None,
            )


def _seqs(ends: tuple[int, int]) -> str:
    return f"seq {ends[0]}" if ends[0] == ends[1] else f"seq {ends[0]}-{ends[1]}"


def _counts_easily(stored: int, body: MessageBody) -> bool:
    """Whether a count fits that needs no JSON: of the text, or of raw blocks at the end of metadata."""
    if abs(estimate_utf16(body.content) - stored) <= 1:
        return True
    size = 1 + max(len(body.parts), 1)  # brackets and commas
    for part in body.parts:
        metadata = part.metadata or ""
        start = metadata.find(_RAW)
        if start < 0:
            return False
        size += _utf16_length(metadata) - start - len(_RAW) - 1  # what precedes it is ASCII
    return abs(-(-size // 4) - stored) <= 1


def _utf16_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _without_file_ids(role: str, content: str) -> str | None:
    """What identifies a message that names a stored file; None when it names none.

    Each time a payload is stored its file gets a new id, so the ids may differ between copies of a message.
    """
    if not _REFERENCE.search(content):
        return None
    same = _FILE_ID.sub("file_", content)
    return sha256(f"{role}\0{same}".encode("utf-8", "surrogatepass")).hexdigest()


def _text_differs(body: MessageBody) -> bool:
    """Whether a message's text cannot have come from its parts (the engine joins their texts by newlines)."""
    texts = [part.text for part in body.parts if part.text and part.part_type in ("text", "compaction")]
    if any(part.same for part in body.parts) or "\n".join(texts) == body.content:
        return False
    if not body.content.strip():
        return any(text.strip() for text in texts)
    return (
        bool(texts)
        and not body.has_file
        and not any(text in body.content or body.content in text for text in texts)
    )
