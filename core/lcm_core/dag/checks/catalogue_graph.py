"""The checks of families A to D: context, DAG, text and metadata of summaries (docs/engine/doctor.md)."""

from __future__ import annotations

from typing import Final

from lcm_core.findings import Check, Severity

_E, _W, _I = Severity.ERROR, Severity.WARNING, Severity.INFO


def _check(
    check_id: str, severity: Severity, title: str, question: str, *needs: str, untold: str = ""
) -> Check:
    return Check(check_id, severity, title, question, needs=needs, untold=untold)


def _context(check_id: str, severity: Severity, title: str, question: str, *needs: str) -> Check:
    return _check(check_id, severity, title, question, "context_items", *needs)


def _node(
    check_id: str, severity: Severity, title: str, question: str, *needs: str, untold: str = ""
) -> Check:
    return _check(check_id, severity, title, question, "summaries", *needs, untold=untold)


_LEAVES = "summary_messages"
_EDGES = "summary_parents"

CONTEXT: Final = (
    _context("A1", _E, "dangling message", "Does the context name a message that does not exist?"),
    _context(
        "A2", _E, "dangling summary", "Does the context name a summary that does not exist?", "summaries"
    ),
    _context("A3", _E, "summary twice in context", "Does a summary stand in the context more than once?"),
    _context("A4", _E, "message twice in context", "Does a message stand in the context more than once?"),
    _context(
        "A5",
        _E,
        "row of another conversation",
        "Does the context name a row of another conversation?",
        "summaries",
    ),
    _context(
        "A6",
        _E,
        "message raw and summarised",
        "Does a raw message stand beside a summary in the same context that covers it?",
        "summaries",
        _LEAVES,
    ),
    _context(
        "A7",
        _E,
        "summary and its consumer",
        "Does a summary stand in the context beside one that was made from it?",
        "summaries",
        _EDGES,
    ),
    _context(
        "A8", _W, "gap in ordinals", "Are ordinals missing between the first and the last context item?"
    ),
    _context("A9", _E, "abnormal ordinals", "Are there ordinals below 0, or from 10,000,000 on?"),
    _context(
        "A10", _W, "context out of order", "Does something older stand behind something newer in the context?"
    ),
    _context(
        "A11",
        _E,
        "message hole",
        "Is there a message that neither the context nor any summary holds?",
        "summaries",
        _LEAVES,
    ),
    _context(
        "A12",
        _W,
        "old message behind a newer summary",
        "Does a raw message stand behind a summary that covers only later messages?",
        "summaries",
        _LEAVES,
    ),
    _context("A13", _I, "empty context", "Does an active conversation with messages have no context at all?"),
    _context(
        "A14",
        _W,
        "context stays over budget",
        "Is the context over its token budget with nothing left to compact and no debt recorded?",
        "conversation_compaction_maintenance.token_budget",
    ),
    _context(
        "A15", _I, "item of the wrong type", "Does a context item refer to something else than its type says?"
    ),
)

STRUCTURE: Final = (
    _node("B1", _E, "leaf without sources", "Is there a leaf that is linked to no message?", _LEAVES),
    _node("B2", _E, "condensed without sources", "Is there a condensed summary without any source?", _EDGES),
    _node("B3", _E, "link to a missing message", "Does a link name a message that does not exist?", _LEAVES),
    _node(
        "B4", _E, "link of a missing summary", "Does a link or an edge name a summary that does not exist?"
    ),
    _node("B5", _E, "self edge", "Is a summary recorded as its own source?", _EDGES),
    _node("B6", _E, "cycle", "Does a walk from a summary toward its sources come back to it?", _EDGES),
    _node("B7", _E, "edge across conversations", "Was a summary made from rows of another conversation?"),
    _node(
        "B8",
        _W,
        "wrong kind of source",
        "Has a leaf summaries as sources, or a condensed summary messages?",
        _EDGES,
    ),
    _node(
        "B9", _W, "depth does not fit the kind", "Is there a leaf above depth 0 or a condensed summary at 0?"
    ),
    _node("B10", _W, "wrong depth", "Is a depth other than one more than the deepest source's?", _EDGES),
    _node(
        "B11",
        _I,
        "sources of several depths",
        "Was a summary made from summaries of different depths?",
        _EDGES,
    ),
    _node(
        "B12",
        _E,
        "inverted edge",
        "Is a source as deep as what was made from it, or was it made later than that?",
        _EDGES,
    ),
    _node(
        "B13",
        _W,
        "orphan summary",
        "Is there a summary in an active conversation that neither the context nor another summary uses?",
        "context_items",
        _EDGES,
    ),
    _node("B14", _E, "summary consumed twice", "Were two live summaries made from the same summary?", _EDGES),
    _node("B15", _E, "message summarised twice", "Is a message linked from more than one leaf?", _LEAVES),
    _node(
        "B16",
        _W,
        "leaf with a gap",
        "Does a message lie between the sources of a leaf that is none of them?",
        _LEAVES,
    ),
    _node("B17", _W, "source order", "Are the ordinals of a summary's sources out of order or not 0 to n-1?"),
    _node("B18", _W, "interleaved leaves", "Do two leaves cover overlapping runs of messages?", _LEAVES),
    _node("B19", _W, "single source", "Was a summary condensed from one summary only?", _EDGES),
    _node("B20", _E, "abnormal summary id", "Is an id NULL or of another form than the engine's?"),
    _node(
        "B21",
        _W,
        "half a swap",
        "Do a summary and all that it was condensed from stand in the same context?",
        "context_items",
        _EDGES,
    ),
    _node(
        "B22",
        _I,
        "very deep or very wide",
        "Is a depth above 6, or has a summary more than 64 sources?",
        _EDGES,
    ),
    _node(
        "B23",
        _W,
        "unused summary in an archived conversation",
        "Does an archived conversation hold summaries that nothing uses?",
        "context_items",
        _EDGES,
        "conversations.active",
    ),
)

QUALITY: Final = (
    _node("C1", _E, "truncated", "Is a summary a cut of its source, marked as truncated?"),
    _node("C2", _E, "truncated from nothing", "Is a summary nothing but the mark of an empty source?"),
    _node("C3", _E, "summariser fallback", "Is a summary the stand-in of a summariser that gave nothing?"),
    _node("C4", _E, "emergency cut", "Is a summary a cut that was made because no model could be found?"),
    _node("C5", _W, "capped", "Was a summary cut off at the hard cap?"),
    _node(
        "C6", _W, "directives left out", "Were parts of a summary left out because they looked like orders?"
    ),
    _node("C7", _E, "empty", "Has a summary no text?"),
    _node("C8", _W, "no compression", "Is a summary at least as long as what it was made from?"),
    _node(
        "C9",
        _W,
        "unmarked copy",
        "Is a summary a copy of its source?",
        untold="A copy whose source was rewritten since.",
    ),
    _node(
        "C10", _W, "made from a bad summary", "Was a summary condensed from one that is no summary?", _EDGES
    ),
    _node("C11", _W, "quoted marker", "Does a marker stand where the engine would not have put it?"),
    _node(
        "C12", _W, "reasoning in the text", "Does a summary begin with thoughts or a preamble of the model?"
    ),
    _node("C13", _W, "injected context", "Does a summary hold tags of injected memory or context?"),
    _node("C14", _W, "binary in the text", "Does a summary hold base64, data URLs or media lines?"),
    _node("C15", _W, "error or refusal", "Is a summary the error or the refusal of a provider?"),
    _node(
        "C16",
        _I,
        "over target",
        "Is a summary more than three times as long as it should be?",
        untold="Which target held when it was made; the present one is used.",
    ),
    _node("C17", _W, "same text twice", "Do several summaries of a conversation hold the same text?"),
    _node("C18", _I, "no hint for expansion", "Does a summary end without saying what can be expanded?"),
    _node("C19", _W, "heartbeats only", "Was a leaf made from nothing but heartbeat polls?", _LEAVES),
    _node("C20", _W, "orders to the reader", "Does a summary speak to the model as an instruction would?"),
)

METADATA: Final = (
    _check(
        "D1",
        _W,
        "token count",
        "Does a stored token count differ from what either estimator gives?",
        untold="Messages whose raw blocks are not stored, or were signed.",
    ),
    _node(
        "D2",
        _W,
        "descendant count",
        "Is the count of summaries below one wrong?",
        "summaries.descendant_count",
    ),
    _node(
        "D3",
        _W,
        "descendant tokens",
        "Is the token sum of the summaries below one wrong?",
        "summaries.descendant_token_count",
    ),
    _node(
        "D4",
        _W,
        "source tokens",
        "Is the token sum of the messages below a summary wrong?",
        "summaries.source_message_token_count",
    ),
    _node("D5", _W, "no time range", "Has a summary no time range?", "summaries.earliest_at"),
    _node(
        "D6", _W, "time range inverted", "Does a time range end before it begins?", "summaries.earliest_at"
    ),
    _node(
        "D7", _W, "time range", "Does a time range differ from that of the sources?", "summaries.earliest_at"
    ),
    _node(
        "D8",
        _W,
        "time zone skew",
        "Is a time range off by a time zone, as 0.1 to 0.5 left it?",
        "summaries.earliest_at",
    ),
    _check(
        "D9",
        _W,
        "time out of place",
        "Does a message or summary lie in the future, or a summary cover what came after it?",
    ),
    _check("D10", _W, "unreadable time", "Is there a time in neither of the two formats?"),
    _node(
        "D11",
        _W,
        "file ids malformed",
        "Is a list of file ids no JSON array of strings?",
        "summaries.file_ids",
    ),
    _node(
        "D12",
        _W,
        "file ids",
        "Does a list of file ids name an unknown file or lack one of its sources'?",
        "summaries.file_ids",
        "large_files",
    ),
    _node("D13", _I, "model unknown", "Is it unknown which model made a summary?", "summaries.model"),
    _check("D14", _I, "negative counter", "Is a counter below zero?"),
)

GRAPH_CHECKS: Final = (*CONTEXT, *STRUCTURE, *QUALITY, *METADATA)
