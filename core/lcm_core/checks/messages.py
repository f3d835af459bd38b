"""The checks of messages (E1 to E12, E14, E15, E20 to E22, E24, E25, C19, G19).

Some need no texts. For the others a conversation's messages are read in batches, in order of seq, and not
kept; they are asked of one message after the other, or when all were read.
"""

from __future__ import annotations

import asyncio
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from itertools import islice, pairwise
from operator import attrgetter, le
from typing import Any, Final, NamedTuple

from lcm_core.base.findings import Finding, FixId, KeyPart, Proof, Repeat, RowRef, VerifiedMessages
from lcm_core.base.records import Conversation, ConversationId, Message, MessageId, MessagePart
from lcm_core.base.text import counted, phrase
from lcm_core.base.tokens import (
    Estimator,
    Verdict,
    check_message_tokens,
    counted_text,
    estimate_utf16,
    quarters,
    utf16_length,
)
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
    conversation_row,
    hit,
    tool_part,
)
from lcm_core.checks.metadata import TOKEN_COUNT, Miscounted
from lcm_core.checks.repetitions import (
    SHORT_TEXT,
    Keys,
    Repetition,
    describe_repetition,
    in_sight,
    repeats_in,
)
from lcm_core.checks.structure import ROLES, SECOND, MessageColumns, Structure, load_structure
from lcm_core.checks.summaries import are_twins, note_left_out
from lcm_core.checks.verified import digest_of, digest_of_batches
from lcm_core.engine.blocks import tokens_as_sent
from lcm_core.engine.pairing import MISSING_RESULT
from lcm_core.store.database import Database, Reader
from lcm_core.store.messages import whole_messages
from lcm_core.store.opening import SqlValue
from lcm_core.store.schema import NO_MESSAGE, number_key
from lcm_core.store.summaries import MOST_CHARACTERS

# -- numbers, times and roles ----------------------------------------------------------------------------
# The checks that need no texts (E1, E2, E14, E24, E25).

#: Times that go back by no more than this come from coarse stamps (docs/spec/format.md, "Times").
_COARSE: Final = 300 * SECOND
#: So many messages in one second were stamped when they were imported.
_STAMPED: Final = 20
#: An agent works alone for long, but hardly that long.
_ONE_SIDED: Final = 300
_WITHOUT_USER: Final = 10


def _seq_gaps(structure: Structure, limits: Limits) -> Iterator[Hit]:
    seqs, ids = structure.messages.seqs, structure.messages.ids
    pruned, odd, unnumbered = FaultRows(limits), FaultRows(limits), FaultRows(limits)
    of_pruned = of_odd = last = 0
    where: list[str] = []
    for place in range(1, len(seqs)):
        if seqs[place] == -1 and seqs[last] >= -1:  # what is no number is read as -1 (store/schema.py)
            unnumbered.add("messages", ids[place])
            continue
        missing = seqs[place] - seqs[last] - 1
        before, last = last, place
        if missing <= 0:
            continue
        # A deleted row leaves its id behind as well: more missing numbers than ids are none of deleted rows.
        if missing <= ids[place] - ids[before] - 1:
            pruned.add("messages", ids[place])
            of_pruned += missing
        else:
            odd.add("messages", ids[place])
            of_odd += missing
            if len(where) < 3:
                where.append(f"{seqs[before]} and {seqs[place]}")
    if unnumbered:
        what = phrase(unnumbered.count, "message", structure.id, "have a seq that is no whole number.")
        yield unnumbered.hit(BROKEN, what)
    between = f"between the messages of conversation {structure.id}"
    if odd:
        yield odd.hit(
            SUSPICIOUS,
            f"{phrase(of_odd, 'number', None, 'are missing')} {between} (between {', '.join(where)}), and "
            "no messages were deleted there: they were moved.",
        )
    if pruned:
        what = f"{phrase(of_pruned, 'number', None, 'are missing')} {between}"
        yield pruned.hit(BY_DESIGN, f"{what}: rows were deleted, as pruning of heartbeats does.")
    if len(seqs) and seqs[0] not in (0, 1):
        what = f"The first message of conversation {structure.id} has seq {seqs[0]}."
        yield hit(BY_DESIGN, what, RowRef("messages", (ids[0],)))


def _times_back(structure: Structure, limits: Limits) -> Iterator[Hit]:
    coarse, far, copied = FaultRows(limits), FaultRows(limits), FaultRows(limits)
    days = structure.messages.days
    if all(map(le, days, islice(days, 1, None))):
        return
    newest = 0.0
    for place, day in enumerate(days):
        if not day:
            continue
        if day < newest - SECOND and day < days[place - 1]:
            back = copied if place <= structure.copied else coarse if newest - day <= _COARSE else far
            back.add("messages", structure.messages.ids[place])
        newest = day if place == structure.copied else max(newest, day)
    for rows, confidence, why in (
        (far, SUSPICIOUS, "times and order contradict each other"),
        (coarse, BY_DESIGN, "by so little that coarse timestamps explain it"),
        (copied, BY_DESIGN, "the earlier ones are copies from another conversation, as after a transplant"),
    ):
        if rows:
            where = f"{counted(rows.count, 'message')} of conversation {structure.id}"
            yield rows.hit(confidence, f"Time goes back at {where}; {why}.")


def _events(structure: Structure, limits: Limits) -> Iterator[Hit]:
    messages = structure.messages
    rows = FaultRows(
        limits, "messages", (messages.ids[at] for at, event in enumerate(messages.events) if event)
    )
    words = "were recorded as a message, as 0.1 to 0.6.0 did; the model never sees it."
    return rows.hits(BY_DESIGN, "compaction", structure.id, words)


def _stamped_at_import(structure: Structure, limits: Limits) -> Iterator[Hit]:
    days, start = structure.messages.days, 0
    for place in range(1, len(days) + 1):
        if place < len(days) and abs(days[place] - days[start]) < SECOND / 2:
            continue
        if place - start >= _STAMPED and days[start]:
            rows = FaultRows(limits, "messages", structure.messages.ids[start:place])
            words = (
                f"have the same second ({structure.span_text(start, place - 1)}): they "
                "were stamped when they were imported."
            )
            confidence = BY_DESIGN if start <= structure.copied else SUSPICIOUS
            yield from rows.hits(confidence, "message", structure.id, words)
        start = place


def _one_sided(structure: Structure, limits: Limits) -> Iterator[Hit]:
    messages = structure.messages
    code = ROLES.index("user")
    users = [place for place, role in enumerate(messages.roles) if role == code]
    for before, after in pairwise([-1, *users, len(messages)]):
        alone = messages.events.count(0, before + 1, after)
        if alone < (_ONE_SIDED if users else _WITHOUT_USER):
            continue
        words = (
            f"come in a row without a user message ({structure.span_text(before + 1, after - 1)}): "
            "some may never have been stored."
        )
        rows = FaultRows(limits, "messages", messages.ids[before + 1 : after])
        yield rows.hit(SUSPICIOUS, phrase(alone, "message", structure.id, words))


# fmt: off
ROW_CHECKS: Final[tuple[Rule[Structure], ...]] = (
    Rule("E1", WARNING, "gaps in seq", "Are numbers missing between messages, or is the first not 0 or 1?",
         why="seq counts from 0 or 1 without gaps, except where the host deleted heartbeats. A gap without "
         "a reason means that messages were renumbered or removed.", find=_seq_gaps),
    Rule("E2", WARNING, "times out of order", "Do times go back while seq increases?",
         why="Messages are stored in the order of their times; an import, or a clock set back, breaks that "
         "order.", find=_times_back),
    Rule("E14", INFO, "compaction events", "Did 0.1 to 0.6.0 record compactions as messages?",
         why="0.1 to 0.6.0 stored each compaction as a system message. They are not part of the "
         "conversation.", find=_events),
    Rule("E24", WARNING, "stamped at import", "Does a long run of messages have the same second?",
         why="Messages have the time at which they were said. A long run with the same second got its time "
         "at import.", find=_stamped_at_import),
    Rule("E25", WARNING, "one-sided turns", "Is there a long run of messages without a user message?",
         why="People and the model take turns. In a long run of one side, messages of the other side may be "
         "missing.",
         unanswered="Entries of the transcript that were never stored: compare the session on disk with it.",
         find=_one_sided),
)
# fmt: on


# -- the checks ------------------------------------------------------------------------------------------

_FILE_ID: Final = re.compile(r"\bfile_[0-9a-f]{16}\b")
_REFERENCE: Final = re.compile(r"\[LCM (?:File|Tool Output|Raw Payload): file_|\| LCM file: file_")
_HEARTBEAT: Final = re.compile(
    r"\s*(?:HEARTBEAT_OK\b.{0,40}\Z|Read HEARTBEAT\.md\b|NO_REPLY\s*\Z"
    r"|\[?heartbeat(?: poll| check)?\]?\s*\Z)",
    re.DOTALL,
)
_RAW: Final = '"raw":'
_RUNTIME: Final = re.compile(r"\s*(?:<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>|OpenClaw runtime context\b)")
_MOST_MESSAGES: Final = 1_000
#: Stored tokens of one batch: about four bytes each, twice (text and raw block).
_MOST_TOKENS: Final = 500_000
_SHORT: Final = f"ifnull(length(m.content), 0) <= {MOST_CHARACTERS}"
#: SQL: whether the metadata of a part can be read; every version has the columns of ``message_parts``.
_VALID: Final = "(p.metadata IS NULL OR json_valid(p.metadata))"


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
    parts: Sequence[PartBody]


class MessageText(NamedTuple):
    """A message with its text and parts, in its conversation."""

    body: MessageBody
    role: str
    tokens: int  #: as stored
    digest: str | None  #: the hash of role and text; None when nobody asks for it
    heartbeat: bool  #: it says that nothing happened
    again: bool  #: it says what the one before says, in the same role
    before: str | None  #: what the one before says, in the same role; None when this one says little


Found = Sequence[tuple[Fault, KeyPart]]

_TWIN: Final = Fault(SUSPICIOUS, "message", "differ from the one before only in form")
_OTHER_HASH: Final = Fault(SUSPICIOUS, "message", "have the identity hash of a different text")
_NO_HASH: Final = Fault(SUSPICIOUS, "message", "have no identity hash: copies are not recognised")
_HASH_OF_USER: Final = Fault(BY_DESIGN, "user message", "have an identity hash of an undecorated text")
_UNREADABLE: Final = Fault(BROKEN, "part", "have metadata that cannot be read", table="message_parts")
_PARTS_LACKING: Final = Fault(SUSPICIOUS, "message", "lack parts: ordinals are missing")
_OTHER_TEXT: Final = Fault(SUSPICIOUS, "message", "have a different text than their parts")
_NOISE: Final = Fault(
    BY_DESIGN, "message", "are noise: heartbeats, mirrored or empty replies, runtime context"
)
_PAYLOAD: Final = Fault(SUSPICIOUS, "message", "contain a payload that the engine would have moved to a file")
_STAND_IN: Final = Fault(SUSPICIOUS, "message", "contain the placeholder of a missing tool result")
_UNCOUNTED: Final = Fault(
    SUSPICIOUS, "message", "count 0 tokens although they have content", FixId.RECOMPUTE_TOKENS
)
_COUNT_LOST: Final = Fault(SUSPICIOUS, "message", "count 0 tokens, and what was counted is lost")


def _twins(message: MessageText, limits: Limits) -> Found:
    if message.before is None or message.again or not are_twins(message.before, message.body.content):
        return ()
    return ((_TWIN, message.body.message_id),)


def _identity_hash(message: MessageText, limits: Limits) -> Found:
    stored = message.body.identity_hash
    if stored is None:
        return ((_NO_HASH, message.body.message_id),)
    if message.digest in (None, stored):
        return ()
    return ((_HASH_OF_USER if message.role == "user" else _OTHER_HASH, message.body.message_id),)


def _wrong_parts(message: MessageText, limits: Limits) -> Found:
    parts = message.body.parts
    found: list[tuple[Fault, KeyPart]] = []
    lacking = False
    for index, part in enumerate(parts):
        if part.unreadable is not None:
            found.append((_UNREADABLE, part.unreadable))
        lacking |= part.ordinal != index
    if lacking:
        found.append((_PARTS_LACKING, message.body.message_id))
    if parts and _text_differs(message.body):
        found.append((_OTHER_TEXT, message.body.message_id))
    return found


def _text_differs(body: MessageBody) -> bool:
    """Whether a message's text cannot have come from its parts (the engine joins their texts by newlines)."""
    for part in body.parts:  # most often the first is
        if part.same:
            return False
    texts = [part.text for part in body.parts if part.text and part.part_type in ("text", "compaction")]
    if "\n".join(texts) == body.content:
        return False
    if not body.content.strip():
        return any(text.strip() for text in texts)
    return (
        bool(texts)
        and not body.has_file
        and not any(text in body.content or body.content in text for text in texts)
    )


def _noise(message: MessageText, limits: Limits) -> Found:
    body, of_assistant = message.body, message.role == "assistant"
    empty = of_assistant and not body.parts and not body.content.strip()
    noisy = message.heartbeat or empty or _RUNTIME.match(body.content) is not None
    mirrored = of_assistant and message.again
    return ((_NOISE, body.message_id),) * (noisy + mirrored) if noisy or mirrored else ()


def _payload(message: MessageText, limits: Limits) -> Found:
    body = message.body
    if message.tokens < limits.large_payload or body.has_file or _REFERENCE.search(body.content):
        return ()
    return ((_PAYLOAD, body.message_id),)


def _stand_in(message: MessageText, limits: Limits) -> Found:
    return ((_STAND_IN, message.body.message_id),) if message.body.content.strip() == MISSING_RESULT else ()


def _uncounted(message: MessageText, limits: Limits) -> Found:
    body = message.body
    if message.tokens or not (body.content.strip() or any(part.text for part in body.parts)):
        return ()
    text = counted_text(message.role, body.content, [part.metadata for part in body.parts])
    return ((_UNCOUNTED if text is not None else _COUNT_LOST, body.message_id),)


#: Asked of one message after the other.
# fmt: off
TEXT_CHECKS: Final[tuple[TextRule[MessageText], ...]] = (
    TextRule("E5", WARNING, "twins",
             "Do two neighbouring messages differ only in white space, redaction or decoration?",
             why="Twins are one message in two forms: decorated by the host and bare, or with and without "
             "redaction.", unanswered="Redactions of other forms than [REDACTED] and ***.", faults=(_TWIN,),
             find=_twins),
    TextRule("E6", WARNING, "identity hash", "Is an identity hash missing or not the hash of the text?",
             why="From 0.9 on a hash of role and text tells messages apart. Without it, replays are not "
             "detected.", needs=("messages.identity_hash",),
             unanswered="The hash of user messages that the host decorated.",
             faults=(_OTHER_HASH, _NO_HASH, _HASH_OF_USER), find=_identity_hash),
    TextRule("E12", WARNING, "parts that do not fit",
             "Do parts have unreadable metadata, gaps, or another text?",
             why="Parts are numbered from 0, with readable metadata, and match the text of the message.",
             needs=("message_parts",), faults=(_UNREADABLE, _PARTS_LACKING, _OTHER_TEXT), find=_wrong_parts),
    TextRule("E15", INFO, "noise",
             "Are there heartbeats, mirrored replies, empty replies or runtime context?",
             why="Heartbeats, empty answers and mirrored replies are stored as they came; they cost tokens.",
             faults=(_NOISE,), find=_noise),
    TextRule("E20", WARNING, "payload not externalised",
             "Does a message contain a payload that should be a file?",
             why="Payloads from a set size on are moved to a file; up to 0.9.3 an import left them in the "
             "message.", faults=(_PAYLOAD,), find=_payload),
    TextRule("E21", WARNING, "repair text stored", "Was the placeholder of a missing tool result stored?",
             why="For a missing tool result the engine sends a placeholder, which must not be stored.",
             faults=(_STAND_IN,), find=_stand_in),
    TextRule("E22", WARNING, "no tokens counted", "Does a message with text or parts count 0 tokens?",
             why="A message with text has tokens; with 0 it is not counted against the budget.",
             faults=(_UNCOUNTED, _COUNT_LOST), find=_uncounted),
)
# fmt: on


class Messages:
    """What is known of the messages of one conversation when all their texts were read."""

    def __init__(
        self,
        structure: Structure,
        limits: Limits,
        wanted: frozenset[str],
        *,
        backfilled: bool,
        verified: VerifiedMessages | None = None,
    ) -> None:
        """*verified*: what an earlier run found in the same texts, of which none is taken then."""
        size = len(structure.messages)
        self.structure = structure
        self.backfilled = backfilled  #: the migration ran that fills the tool columns of parts
        self.heartbeats = bytearray(size)
        self.parts = bytearray(b"\2" * size)  #: 1 where a message has parts, 2 where it was not read
        self.sessions: set[str | None] = set()
        self.calls: dict[str, list[int]] = {}  #: places by tool call id
        self.results: dict[str, list[int]] = {}
        self.unfilled = FaultRows(limits)  #: parts whose call id only the metadata holds
        self._limits, self._wanted = limits, wanted
        self._gathering = Gathering([rule for rule in TEXT_CHECKS if rule.id in wanted], limits)
        self._miscounted = FaultRows(limits)
        self._texts = array("Q", bytes(8 * size))
        self._call_keys = array("Q", bytes(8 * size))
        self._weights = bytearray(size)
        self._before: tuple[int, MessageBody] | None = None
        self._doubtful: list[int] = []  #: messages
        self._repeats: Sequence[Repeat] | None = None
        self._repetitions: list[Repetition] | None = None
        self._verified = verified
        if verified is not None:
            self._repeats = verified.repeats
            self._doubtful = list(verified.doubtful) if "D1" in wanted else []
            for place in verified.heartbeats:
                self.heartbeats[place] = 1

    def take(self, bodies: Iterable[MessageBody]) -> None:
        """Look at some messages, in order of seq."""
        messages = self.structure.messages
        for body in bodies:
            place = messages.position.get(body.message_id)
            if place is None:  # stored after the structure was read
                continue
            role = messages.role(place)
            digest = self._identify(place, role, body)
            heartbeat = self.heartbeats[place] = _HEARTBEAT.match(body.content) is not None
            before, again = None, False
            if (
                self._weights[place] == 2
                and self._before is not None
                and self._before[0] == place - 1
                and messages.roles[place] == messages.roles[place - 1]
            ):
                before, again = self._before[1].content, self._texts[place] == self._texts[place - 1]
            tokens = messages.tokens[place]
            self._gathering.look(MessageText(body, role, tokens, digest, heartbeat, again, before))
            self._take_parts(place, role, body)
            if "D1" in self._wanted and tokens > 0 and not _counts_easily(tokens, body):
                check = check_message_tokens(tokens, body.content, [part.metadata for part in body.parts])
                near = check.weighted is not None and abs(check.weighted - tokens) <= 1
                if check.verdict is Verdict.DIFFERS and not near:
                    self._doubtful.append(body.message_id)
            self._before = (place, body)

    def _identify(self, place: int, role: str, body: MessageBody) -> str | None:
        """Note what identifies a message; its digest, where that was made."""
        stored, digest = body.identity_hash, None
        if stored is None or "E6" in self._wanted:
            digest = sha256(f"{role}\0{body.content}".encode("utf-8", "surrogatepass")).hexdigest()
        key = _without_file_ids(role, body.content) or stored or digest or ""
        try:
            self._texts[place] = int(key[:16], 16) & 0xFFFF_FFFF_FFFF_FFFF
        except ValueError:
            self._texts[place] = hash(key) & 0xFFFF_FFFF_FFFF_FFFF
        if len(body.content) > 10_000 or len(body.content.strip()) > SHORT_TEXT:
            self._weights[place] = 2
        else:
            self._weights[place] = 1 if body.content.strip() else 0
        return digest

    def _take_parts(self, place: int, role: str, body: MessageBody) -> None:
        self.parts[place] = bool(body.parts)
        ids = []
        for part in body.parts:
            self.sessions.add(part.session_id)
            if not part.tool_call_id and role != "tool" and part.part_type not in ("tool", "agent"):
                continue  # as `tool_part` would say: most parts are no tool's
            tool = tool_part(role, part.part_type, part.tool_call_id, part.metadata)
            if tool is None:
                continue
            ids.append(tool.call_id)
            places = (self.calls if tool.is_call else self.results).setdefault(tool.call_id, [])
            if not places or places[-1] != place:
                places.append(place)
            if tool.from_metadata:
                self.unfilled.add("message_parts", part.part_id)
        if ids:
            self._call_keys[place] = hash(tuple(sorted(ids))) & 0xFFFF_FFFF_FFFF_FFFF or 1

    def doubtful(self) -> list[int]:
        """The messages, since this was asked last, whose count only their whole parts can explain."""
        found, self._doubtful = self._doubtful, []
        return found

    def weigh(self, messages: Iterable[tuple[Message, Sequence[MessagePart]]]) -> None:
        """Judge doubtful counts: the present engine counts what it would send, rebuilt from the parts."""
        known = self.structure.messages
        for message, parts in messages:
            place = known.position.get(message.message_id)
            if place is not None and abs(tokens_as_sent(message, parts) - known.tokens[place]) > 1:
                self._miscounted.add("messages", message.message_id)

    @property
    def keys(self) -> Keys:
        """What distinguishes the messages."""
        return Keys(self._texts, self._call_keys, bytes(self._weights))

    def repetitions(self) -> list[Repetition]:
        """Replayed blocks, floods and duplicates of the whole conversation, once all messages were taken."""
        if self._repetitions is None:
            seen = in_sight(self.structure, self.repeats())
            self._repetitions = [describe_repetition(self.structure, one, seen) for one in self.repeats()]
        return self._repetitions

    def repeats(self) -> Sequence[Repeat]:
        """The same by place, whatever the context holds of it."""
        if self._repeats is None:
            self._repeats = repeats_in(self.structure, self.keys)
        return self._repeats

    def copies(self) -> frozenset[int]:
        """The places of all proven copies of something that the context reaches without them."""
        return frozenset(in_sight(self.structure, self.repeats()))

    def of_texts(self) -> Iterator[Finding]:
        """What was found that depends on the messages alone, not on what contexts and summaries hold."""
        owner = self.structure.id
        if self._verified is not None:
            yield from self._verified.findings
            return
        yield from self._gathering.findings(owner)
        for rule in CHECKS:
            if rule.id in self._wanted - _BY_CONTEXT:
                yield from rule.findings(self, self._limits, owner)

    def as_verified(self, about: str, texts: str, left_out: int, doubtful: Iterable[int]) -> VerifiedMessages:
        """What a later run need not find again, if the messages are the same then."""
        return VerifiedMessages(
            self.structure.id,
            about,
            texts,
            self._wanted,
            len(self.structure.messages),
            left_out,
            tuple(self.of_texts()),
            tuple(self.repeats()),
            tuple(place for place, heartbeat in enumerate(self.heartbeats) if heartbeat),
            tuple(doubtful),
        )

    def findings(self) -> Iterator[Finding]:
        """What was found."""
        owner = self.structure.id
        yield from self.of_texts()
        for rule in CHECKS:
            if rule.id in self._wanted & _BY_CONTEXT:
                yield from rule.findings(self, self._limits, owner)
        yield from TOKEN_COUNT.findings(Miscounted(owner, "message", self._miscounted), self._limits)


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
        size += utf16_length(metadata) - start - len(_RAW) - 1  # what precedes it is ASCII
    if abs(-(-size // 4) - stored) > 1:
        texts = [part.metadata for part in body.parts if part.metadata]
        size += sum(quarters(text, Estimator.WEIGHTED) - utf16_length(text) for text in texts)
    return abs(-(-size // 4) - stored) <= 1


def _without_file_ids(role: str, content: str) -> str | None:
    """What identifies a message that names a stored file; None when it names none.

    Each time a payload is stored its file gets a new id, so the ids may differ between copies of a message.
    """
    if "file_" not in content or not _REFERENCE.search(content):  # to look for a word first is quicker
        return None
    same = _FILE_ID.sub("file_", content)
    return sha256(f"{role}\0{same}".encode("utf-8", "surrogatepass")).hexdigest()


def _replays(seen: Messages, limits: Limits) -> Iterator[Hit]:
    for one in seen.repetitions():
        if one.proof is not None or one.flood:
            yield _stored_again(seen, limits, one)


def _duplicates(seen: Messages, limits: Limits) -> Iterator[Hit]:
    for one in seen.repetitions():
        if one.proof is None and not one.flood:
            yield _stored_again(seen, limits, one)


def _stored_again(seen: Messages, limits: Limits, one: Repetition) -> Hit:
    owner = seen.structure.id
    rows = FaultRows(limits, "messages", one.copy_ids)
    held = f"{len(one.in_context):,} of them" if one.in_context else "none of them"
    cost = f"{one.tokens:,} tokens too many, {held} in the context"
    if one.proof is not None:
        block = f"{_seqs(one.original_seqs)} = {_seqs(one.copy_seqs).removeprefix('seq ')}"
        number = counted(rows.count, "message")
        what = f"{block} in conversation {owner}: {number} stored again, {one.proof}; {cost}."
    else:
        what = (
            f"The message at {_seqs(one.original_seqs)} of conversation {owner} was stored "
            f"{rows.count + 1:,} times in one second; {cost}."
        )
    confidence = BROKEN if one.certain else SUSPICIOUS
    if not one.in_context and not one.summarised:
        confidence = BY_DESIGN  # the rows are kept, and the model reads none of them
    proven = one.proof is not Proof.LENGTH
    return rows.hit(confidence, what, FixId.DROP_REPEATED_MESSAGES if proven and one.spare else None)


def _seqs(ends: tuple[int, int]) -> str:
    return f"seq {ends[0]}" if ends[0] == ends[1] else f"seq {ends[0]}-{ends[1]}"


def _unpaired_tools(seen: Messages, limits: Limits) -> Iterator[Hit]:
    """A call of the last turn may still run; the first results may answer calls that are not here."""
    structure = seen.structure
    messages = structure.messages
    users = (place for place in range(len(messages) - 1, -1, -1) if messages.role(place) == "user")
    open_from = next(users, 0)
    first_call = min((places[0] for places in seen.calls.values()), default=len(messages))
    for own, other, words, repair in (
        (
            seen.calls,
            seen.results,
            "call a tool without getting a result",
            "sends a synthetic error as result",
        ),
        (seen.results, seen.calls, "are tool results without a call", "leaves them out"),
    ):
        rows, cut_off = FaultRows(limits), FaultRows(limits)
        for call_id, places in own.items():
            if call_id in other or (own is seen.calls and places[-1] >= open_from):
                continue
            # A transplant copies what its summaries cover, and half a pair may lie behind that.
            early = places[-1] < (first_call if own is seen.results else structure.copied)
            for place in places:
                (cut_off if early else rows).add("messages", messages.ids[place])
        words = f"{words}; the engine {repair} on sending."
        yield from rows.hits(SUSPICIOUS, "message", structure.id, words)
        yield from cut_off.hits(BY_DESIGN, "message", structure.id, words)


def _repeated_call_ids(seen: Messages, limits: Limits) -> Iterator[Hit]:
    """Models use ids again, so this alone is no damage."""
    several = [one for known in (seen.calls, seen.results) for one in known.values() if len(one) > 1]
    ids = seen.structure.messages.ids
    rows = FaultRows(limits, "messages", (ids[place] for places in several for place in places[1:]))
    if rows:
        words = "are used by several messages: the model reused ids, or messages were copied."
        yield rows.hit(BY_DESIGN, phrase(len(several), "tool call id", seen.structure.id, words))


def _unfilled_columns(seen: Messages, limits: Limits) -> Iterator[Hit]:
    if seen.backfilled:
        confidence, fix, why = SUSPICIOUS, FixId.FILL_TOOL_COLUMNS, "the migration should have filled it."
    else:  # the migration of a later version does it, and an earlier one reads the metadata
        confidence, fix, why = BY_DESIGN, None, "as before 0.5.1."
    words = f"have the tool call id only in the metadata; {why}"
    return seen.unfilled.hits(confidence, "part", seen.structure.id, words, fix)


def _without_parts(seen: Messages, limits: Limits, *, tools: bool) -> tuple[FaultRows, FaultRows]:
    """The messages without parts, of tools or of others; those before the first that has some apart.

    These are an old import, or copies.
    """
    messages = seen.structure.messages
    first = seen.parts.find(1, seen.structure.copied)
    bare, imported = FaultRows(limits), FaultRows(limits)
    for place, parts in enumerate(seen.parts):
        if not parts and (messages.role(place) == "tool") is tools:
            (imported if first < 0 or place < first else bare).add("messages", messages.ids[place])
    return bare, imported


def _bare_tool_messages(seen: Messages, limits: Limits) -> Iterator[Hit]:
    bare, imported = _without_parts(seen, limits, tools=True)
    words = "have no parts: what the tool returned cannot be paired."
    yield from bare.hits(SUSPICIOUS, "tool message", seen.structure.id, words)
    words = "have no parts, as imports up to 0.9.3 stored them."
    yield from imported.hits(BY_DESIGN, "tool message", seen.structure.id, words)


def _bare_messages(seen: Messages, limits: Limits) -> Iterator[Hit]:
    bare, _ = _without_parts(seen, limits, tools=False)
    return bare.hits(SUSPICIOUS, "message", seen.structure.id, "have no parts although messages before have.")


def _heartbeat_leaves(seen: Messages, limits: Limits) -> Iterator[Hit]:
    rows = FaultRows(limits)
    for summary_id, node in seen.structure.nodes.items():
        places = seen.structure.places(summary_id) if node.is_leaf else ()
        if places and all(seen.heartbeats[place] for place in places):
            rows.add("summaries", summary_id)
    words = "were made only from heartbeats."
    return rows.hits(SUSPICIOUS, "leaf", seen.structure.id, words)


def _several_sessions(seen: Messages, limits: Limits) -> Iterator[Hit]:
    if len(seen.sessions) > 1:
        owner = seen.structure.id
        what = f"The parts of conversation {owner} name {len(seen.sessions):,} sessions."
        yield hit(BY_DESIGN, what, conversation_row(owner))


#: Asked when all messages were read.
# fmt: off
CHECKS: Final[tuple[Rule[Messages], ...]] = (
    Rule("E3", ERROR, "replayed messages",
         "Was a block of messages, or a flood of one message, stored again?",
         why="A host that replays its transcript stores the same block again. Repeated timers and answers "
         "are not a replay; a replay has the same times, the same tool calls, or comes in a burst.",
         find=_replays),
    Rule("E4", WARNING, "duplicate messages", "Was the same message stored twice with the same time?",
         why="The same text by the same role at the same time was stored twice.", find=_duplicates),
    Rule("E7", WARNING, "unpaired tool calls",
         "Is there a tool result without its call, or a call without result?",
         why="A tool call and its result name the same id. Providers refuse half a pair; the engine adds "
         "the missing half.", needs=("message_parts",), find=_unpaired_tools),
    Rule("E8", WARNING, "tool call id used twice", "Do several calls or results use one tool call id?",
         why="An id belongs to one call and one result. Some models reuse ids, so this may be intended.",
         needs=("message_parts",), find=_repeated_call_ids),
    Rule("E9", WARNING, "tool message without parts", "Is there a tool message without parts?",
         why="A tool message stores its result in parts. Imports up to 0.9.3 stored none.",
         needs=("message_parts",), find=_bare_tool_messages),
    Rule("E10", WARNING, "message without parts",
         "Is there a message without parts between messages with parts?",
         why="The parts store a message as it was sent; without them the model receives its plain text.",
         needs=("message_parts",), find=_bare_messages),
    Rule("E11", WARNING, "tool columns not filled",
         "Is a tool call id in a part's metadata but not in its column?",
         why="Before 0.5.1 the tool call id was only in the metadata of a part; results are paired by the "
         "column.", needs=("message_parts",),
         unfixed="This version reads the metadata itself, and the migration of a later one fills the column.",
         find=_unfilled_columns),
    Rule("C19", WARNING, "heartbeats only", "Was a leaf made only from heartbeat polls?",
         why="Heartbeats have no content; a summary of them only costs tokens.",
         needs=("summaries", "summary_messages"), find=_heartbeat_leaves),
    Rule("G19", INFO, "several sessions in one", "Do the parts of a conversation name several sessions?",
         why="Parts name the session that they came from; several in one conversation mean that sessions "
         "were joined or mixed up.", needs=("message_parts",), find=_several_sessions),
)
# fmt: on


#: Those that ask what the context or a summary has of the messages, too.
_BY_CONTEXT: Final = frozenset({"E3", "E4", "C19"})


async def read_message_texts(
    run: Run,
    structure: Structure,
    wanted: frozenset[str],
    done: int,
    total: int,
    *,
    backfilled: bool,
) -> Messages:
    """Read the messages of a conversation; of all that are looked at, *done* of *total* were before."""
    about, known = "", None
    if run.verified is not None:
        about = _all_but_texts(structure, run.limits, backfilled=backfilled)
        known = run.verified.of_conversation(structure.id, about, wanted)
        if known is not None and not (
            run.verified.holds(known) or await _digest_of(run, structure) == known.texts
        ):
            known = None
    seen = Messages(structure, run.limits, wanted, backfilled=backfilled, verified=known)
    if known is not None and run.verified is not None:
        await _weigh_doubtful(run, seen)
        run.verified.take(known)
        note_left_out(run, wanted, structure, known.left_out, "messages")
        return seen
    read, digests, doubtful = 0, list[bytes](), list[int]()
    for batch in _batches(structure.messages):
        count, digest = await run.read(_take_batch, structure, batch, seen, digested=bool(about))
        read += count
        digests.append(digest)
        doubtful += await _weigh_doubtful(run, seen)
        run.progress(done + read, total)
    left_out = len(structure.messages) - read
    if run.verified is not None:
        texts = digest_of_batches(digests)
        run.verified.note(await run.in_thread(seen.as_verified, about, texts, left_out, doubtful))
    note_left_out(run, wanted, structure, left_out, "messages")
    return seen


async def _weigh_doubtful(run: Run, seen: Messages) -> list[int]:
    """Judge the counts that are in doubt so far; of which messages they are."""
    doubtful = seen.doubtful()
    if doubtful:
        whole = await run.read(whole_messages, [MessageId(one) for one in doubtful])
        await run.in_thread(seen.weigh, whole)
    return doubtful


def _all_but_texts(structure: Structure, limits: Limits, *, backfilled: bool) -> str:
    """A digest of what the checks of messages go by beside texts and parts."""
    messages = structure.messages
    columns = (messages.ids, messages.seqs, messages.tokens, messages.days)
    known = [column.tobytes() for column in columns]
    settings = (limits.rows, limits.findings, limits.large_payload, backfilled)
    session = str(structure.conversation.session_id)
    return digest_of((known, messages.roles, messages.events, session, settings)).hex()


async def _digest_of(run: Run, structure: Structure) -> str:
    """A digest of the texts and parts of a conversation."""
    digests = list[bytes]()
    for batch in _batches(structure.messages):
        _, digest = await run.read(_take_batch, structure, batch, None, digested=True)
        digests.append(digest)
        run.moved()
    return digest_of_batches(digests)


async def repetitions_of(database: Database, conversation_id: ConversationId) -> list[Repetition]:
    """The replayed blocks, floods and duplicates of a conversation (E3, E4), none left out."""
    structure = await database.read(load_structure, conversation_id)
    if structure is None:
        return []
    seen = _for_repetitions(structure)
    for batch in _batches(structure.messages):
        await database.read(_take_batch, structure, batch, seen)
    return await asyncio.to_thread(seen.repetitions)


async def load_messages(reader: Reader, structure: Structure) -> Messages:
    """What shows the repetitions of a conversation and its copies, all in one transaction."""
    seen = _for_repetitions(structure)
    for batch in _batches(structure.messages):
        await _take_batch(reader, structure, batch, seen)
    return seen


async def _take_batch(
    reader: Reader, structure: Structure, batch: _Batch, seen: Messages | None, *, digested: bool = False
) -> tuple[int, bytes]:
    """Look at the messages of a batch where they are read: two threads would wait for each other.

    Return their number, and their digest if the caller wants one. Without *seen* they are only digested.
    """

    async def work(reader: Reader) -> tuple[int, bytes]:
        rows = await _rows_in(reader, structure.conversation, batch)
        digest = digest_of((rows.messages, rows.parts)) if digested else b""
        if seen is not None:
            seen.take(rows.bodies())
        return len(rows.messages), digest

    return await reader.at_once(work)


def _for_repetitions(structure: Structure) -> Messages:
    return Messages(structure, Limits(datetime.now(UTC)), frozenset({"E3", "E4"}), backfilled=False)


class _Batch(Record, frozen=True):
    """Messages that fit into memory; one without bounds holds those, too, whose seq is no whole number."""

    first: int | None  #: their least seq
    end: int | None  #: the least of the next batch

    def condition(self) -> tuple[str, tuple[int, ...]]:
        """The same in SQL, and its parameters."""
        if self.first is None:
            return ("1", ()) if self.end is None else ("ifnull(m.seq, -1) < ?", (self.end,))
        if self.end is None:
            return "m.seq >= ?", (self.first,)
        return "m.seq >= ? AND m.seq < ?", (self.first, self.end)


def _batches(messages: MessageColumns) -> Iterator[_Batch]:
    """All messages, in batches by the stored token counts."""
    first, count, tokens = None, 0, 0
    for place in range(len(messages)):
        full = count >= _MOST_MESSAGES or tokens >= _MOST_TOKENS
        if full and messages.seqs[place] >= 0:  # else it is no number that bounds the others
            yield _Batch(first, messages.seqs[place])
            first, count, tokens = messages.seqs[place], 0, 0
        count, tokens = count + 1, tokens + max(messages.tokens[place], 1)
    if count:
        yield _Batch(first, None)


class MessageRows(NamedTuple):
    """Messages as they are stored, and their parts; what the checks do not look at is not among them."""

    messages: list[tuple[Any, ...]]
    parts: list[tuple[Any, ...]]

    def bodies(self) -> Iterator[MessageBody]:
        """Each message with its parts, in order."""
        parts: dict[SqlValue, list[PartBody]] = {}
        for row in self.parts:
            parts.setdefault(row[0], []).append(PartBody._make(row[1:]))
        for of_message in parts.values():  # not by SQLite, which would carry every text through its sorter
            if len(of_message) > 1:
                of_message.sort(key=attrgetter("ordinal"))
        for key, content, identity, large in self.messages:
            yield MessageBody(_own_id(key), content or "", identity, bool(large), parts.get(key, ()))


async def _rows_in(reader: Reader, conversation: Conversation, batch: _Batch) -> MessageRows:
    """The messages of a batch, with texts and parts; texts too long leave it out."""
    condition, bounds = batch.condition()
    columns = ", ".join(
        f"CAST(m.{name} AS TEXT) AS {name}" if reader.schema.has("messages", name) else f"NULL AS {name}"
        for name in ("content", "identity_hash", "large_content")
    )
    rows = await reader.tuples(
        f"""SELECT m.message_id, {columns} FROM messages AS m
        WHERE m.conversation_id = ? AND {condition} AND {_SHORT} ORDER BY m.seq""",
        conversation.conversation_id,
        *bounds,
    )
    return MessageRows(rows, await _parts_in(reader, conversation, batch))


def _own_id(key: SqlValue) -> int:
    return key if isinstance(key, int) else number_key(key) or NO_MESSAGE


async def _parts_in(reader: Reader, conversation: Conversation, batch: _Batch) -> list[tuple[Any, ...]]:
    """The parts of a batch. What would only be thrown away is not fetched: that takes most of the time."""
    condition, bounds = batch.condition()
    if not reader.schema.has("message_parts"):
        return []
    return await reader.tuples(
        f"""SELECT m.message_id,
        CASE WHEN p.tool_call_id IS NULL AND (p.part_type IN ('tool', 'agent') OR m.role = 'tool')
            THEN ifnull(CAST(p.part_id AS TEXT), '') END,
        CASE typeof(p.ordinal) WHEN 'integer' THEN p.ordinal ELSE -1 END,
        ifnull(CAST(p.part_type AS TEXT), ''),
        CASE WHEN p.text_content IS NOT m.content
            THEN CAST(substr(p.text_content, 1, {MOST_CHARACTERS}) AS TEXT) END,
        p.text_content IS m.content, CAST(p.tool_call_id AS TEXT),
        CASE WHEN p.session_id IS NOT ? THEN CAST(p.session_id AS TEXT) END,
        CASE WHEN length(p.metadata) <= {MOST_CHARACTERS} THEN CAST(p.metadata AS TEXT) END,
        CASE WHEN NOT {_VALID} THEN ifnull(CAST(p.part_id AS TEXT), '') END
        FROM messages AS m CROSS JOIN message_parts AS p ON p.message_id = m.message_id
        WHERE m.conversation_id = ? AND {condition} AND {_SHORT}""",
        conversation.session_id,
        conversation.conversation_id,
        *bounds,
    )
