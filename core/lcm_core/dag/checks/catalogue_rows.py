"""The checks of families E to G: messages and files, search tables, state (docs/engine/doctor.md)."""

from __future__ import annotations

from typing import Final

from lcm_core.findings import Check, CheckScope, Severity

_E, _W, _I = Severity.ERROR, Severity.WARNING, Severity.INFO


def _check(
    check_id: str, severity: Severity, title: str, question: str, *needs: str, untold: str = ""
) -> Check:
    return Check(check_id, severity, title, question, needs=needs, untold=untold)


def _parts(check_id: str, severity: Severity, title: str, question: str) -> Check:
    return _check(check_id, severity, title, question, "message_parts")


def _file(
    check_id: str, severity: Severity, title: str, question: str, *needs: str, untold: str = ""
) -> Check:
    return Check(check_id, severity, title, question, CheckScope.FILE, needs, untold)


_BOOTSTRAP = "conversation_bootstrap_state"
_MAINTENANCE = "conversation_compaction_maintenance"
_TELEMETRY = "conversation_compaction_telemetry"

MESSAGES: Final = (
    _check(
        "E1", _W, "gaps in seq", "Are numbers missing between messages, or does the first not have 0 or 1?"
    ),
    _check("E2", _W, "times out of order", "Do times go back while seq goes on?"),
    _check(
        "E3", _E, "replayed messages", "Was a block of messages, or a flood of one message, stored again?"
    ),
    _check("E4", _W, "duplicate messages", "Was the same message stored twice with the same time?"),
    _check(
        "E5",
        _W,
        "twins",
        "Do two neighbouring messages differ only in white space, redaction or decoration?",
        untold="Redactions of other forms than [REDACTED] and ***.",
    ),
    _check(
        "E6",
        _W,
        "identity hash",
        "Is an identity hash missing or other than the hash of the text?",
        "messages.identity_hash",
        untold="The hash of user messages that the host decorated.",
    ),
    _parts(
        "E7", _W, "unpaired tool calls", "Is there a tool result without its call, or a call without result?"
    ),
    _parts("E8", _W, "tool call id used twice", "Does a tool call id stand on several calls or results?"),
    _parts("E9", _W, "tool message without parts", "Has a tool message no parts?"),
    _parts("E10", _W, "message without parts", "Has a message no parts although those around it have?"),
    _parts(
        "E11", _W, "tool columns not filled", "Is a tool call id in a part's metadata but not in its column?"
    ),
    _parts("E12", _W, "parts that do not fit", "Do parts have unreadable metadata, gaps, or another text?"),
    _parts("E13", _E, "orphan parts", "Are there parts whose message does not exist?"),
    _check("E14", _I, "compaction events", "Did 0.1 to 0.6.0 record compactions as messages?"),
    _check("E15", _I, "noise", "Are there heartbeats, mirrored replies, empty replies or runtime context?"),
    _check("E16", _E, "large file missing", "Is a stored file not where it should be?", "large_files"),
    _check(
        "E17",
        _W,
        "large file of another size",
        "Has a stored file another size or line count?",
        "large_files",
    ),
    _check(
        "E18",
        _W,
        "reference to an unknown file",
        "Does a message refer to a file that is unknown?",
        "large_files",
    ),
    _check(
        "E19",
        _I,
        "file that nothing refers to",
        "Is there a stored file that nothing refers to?",
        "large_files",
    ),
    _check("E20", _W, "payload not externalised", "Does a message hold a payload that should be a file?"),
    _check("E21", _W, "repair text stored", "Was the text that stands in for a missing tool result stored?"),
    _check("E22", _W, "no tokens counted", "Does a message with text or parts count 0 tokens?"),
    _check(
        "E23",
        _W,
        "transcript entry stored twice",
        "Does an entry of a transcript stand for several messages?",
        "messages.transcript_entry_id",
    ),
    _check("E24", _W, "stamped at import", "Does a long run of messages have one and the same second?"),
    _check(
        "E25",
        _W,
        "one-sided turns",
        "Is there a long run of messages without any of the user's?",
        untold="Entries of the transcript that were never stored: compare the session on disk with it.",
    ),
)

SEARCH: Final = (
    _check("F1", _W, "messages not found", "Are messages missing from the search table?", "messages_fts"),
    _file(
        "F2",
        _W,
        "search rows without message",
        "Does the search table hold messages that do not exist?",
        "messages_fts",
    ),
    _check(
        "F3",
        _W,
        "summaries in search",
        "Are summaries missing from the search table, twice in it, or in it and gone?",
        "summaries_fts",
        "summaries",
    ),
    _check("F4", _W, "stale search rows", "Does the search table hold another text than the row has?"),
    _check(
        "F5",
        _W,
        "summaries in CJK search",
        "Is the search table for Chinese, Japanese and Korean out of step?",
        "summaries_fts_cjk",
        "summaries",
    ),
    _file(
        "F6",
        _E,
        "broken search table",
        "Can a search table not be read or searched?",
        untold="The full self-check of the index, which writes.",
    ),
)

STATE: Final = (
    _check(
        "G1",
        _E,
        "session active twice",
        "Are several conversations of one session key active?",
        "conversations.session_key",
        "conversations.active",
    ),
    _check(
        "G2",
        _W,
        "session without key active twice",
        "Are several conversations of one session without a key active?",
        "conversations.session_key",
        "conversations.active",
    ),
    _check(
        "G3",
        _W,
        "archived or not",
        "Do the flag and the time of archiving contradict each other?",
        "conversations.active",
        "conversations.archived_at",
    ),
    _check(
        "G4",
        _E,
        "rollover split",
        "Was a session split, so that the model lost what came before?",
        "conversations.session_key",
        "conversations.active",
    ),
    _check("G5", _I, "empty conversation", "Is there a conversation without messages?"),
    _check(
        "G6",
        _I,
        "transcript gone",
        "Is the transcript of an active sub-agent or cron session gone?",
        _BOOTSTRAP,
    ),
    _check("G7", _E, "frozen conversation", "Has the transcript grown past what was read of it?", _BOOTSTRAP),
    _check("G8", _W, "bad checkpoint", "Does the checkpoint of the transcript make no sense?", _BOOTSTRAP),
    _check(
        "G9",
        _W,
        "stuck maintenance",
        "Is compaction debt stuck?",
        _MAINTENANCE,
        untold="Whether recorded token counts are stale: they include what the host adds.",
    ),
    _check("G10", _I, "impossible telemetry", "Is telemetry negative or from the future?", _TELEMETRY),
    _check(
        "G11",
        _W,
        "focus briefs",
        "Are several briefs active, or do briefs cover what does not exist?",
        "focus_briefs",
        "focus_brief_sources",
        untold="Whether a brief is stale: how its hash is made is not recorded.",
    ),
    _file(
        "G12", _W, "migration incomplete", "Does the schema fit no version, or lack steps of its migration?"
    ),
    _file(
        "G13",
        _E,
        "damaged file",
        "Does SQLite find damaged pages, or rows that refer to nothing?",
        untold="What integrity_check adds to quick_check: whether every index entry is right.",
    ),
    _file("G14", _I, "space not used", "Is the WAL large, or much of the file free?"),
    _file("G15", _W, "ids may be used again", "Is an id counter behind the largest id?", "sqlite_sequence"),
    _file(
        "G16",
        _W,
        "pending work stuck",
        "Is background compaction of 1.0-beta stuck?",
        "pending_compaction_batches",
        "pending_summary_nodes",
    ),
    _file(
        "G17",
        _I,
        "transcript anchors not trusted",
        "Are anchors suspect or unproven, or epochs corrupt?",
        "message_transcript_anchor_trust",
        "conversation_transcript_epochs",
    ),
    _check(
        "G18",
        _I,
        "conversations alike",
        "Do two conversations share most of their messages?",
        "messages.identity_hash",
    ),
    _parts("G19", _I, "several sessions in one", "Do the parts of a conversation name several sessions?"),
)

ROW_CHECKS: Final = (*MESSAGES, *SEARCH, *STATE)
