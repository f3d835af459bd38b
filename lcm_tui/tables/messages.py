"""Messages and large files for people: a message's name, parts and lines, and what is known of a file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Final

from lcm_core.base.paths import StoredFile
from lcm_core.base.records import LargeFile, SummaryId
from lcm_core.base.text import clip, safe_line, safe_text, wrap
from lcm_core.base.times import format_clock
from lcm_core.base.values import Record
from lcm_core.engine.content import ContentPart, PartKind, row_parts
from lcm_core.store.messages import FileReferences, MessageEntry

from lcm_tui.kit.session import Session
from lcm_tui.kit.spans import MEASURE, Block, Document, Line, Span, StyleName, heading, role_style, text_field
from lcm_tui.tables.blocks import moment_text

# -- large files -----------------------------------------------------------------------------------------
# What the database says of one, what became of it here, and what names it.

#: So many of the messages, and of the summaries, that name a file are listed.
NAMED: Final = 5


def file_facts(file: LargeFile, stored: StoredFile | None, session: Session) -> Document:
    """What the database says of a file, and what became of it here."""
    schema = session.database.schema
    lines = "–" if schema.has("large_files", "line_count") else "not recorded by this version"
    return (
        text_field("file", file.file_id, "key"),
        *_place_facts(file, stored),
        text_field("name", file.file_name or "–"),
        text_field("type", file.mime_type or "–"),
        text_field("size", "–" if file.byte_size is None else f"{file.byte_size:,} bytes"),
        text_field("lines", lines if file.line_count is None else f"{file.line_count:,}"),
        text_field("created", moment_text(file.created_at, session.zone)),
        text_field("conversation", str(file.conversation_id)),
    )


def exploration(file: LargeFile) -> Document:
    """What the engine wrote about a file, under its heading."""
    said = file.exploration_summary
    summary = Block(said) if said else Block("No exploration summary.", "dim")
    return Block(), heading("Exploration summary"), summary


def _place_facts(file: LargeFile, stored: StoredFile | None) -> Document:
    """Where a file is and where it was stored, as far as it is known by now."""
    stored_as = Block(f"stored as {file.storage_uri or '(no path)'}", "dim")
    if stored is None:
        return (text_field("on disk", "…", "dim"), stored_as)
    if stored.path is None:
        return (text_field("on disk", str(stored.state), "warn"), Block(stored.message, "warn"), stored_as)
    blocks = [text_field("on disk", str(stored.state), "ok"), Block(below_home(stored.path))]
    if file.byte_size is not None and stored.size != file.byte_size:
        blocks.append(Block(f"The file has {stored.size:,} bytes, which is not the recorded size.", "warn"))
    return tuple(blocks) if str(stored.path) == file.storage_uri else (*blocks, stored_as)


def below_home(path: Path) -> str:
    """A path as people write it: what lies in their home begins with ``~``."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def reference_facts(references: FileReferences | None) -> Document:
    """What refers to a file, as far as it is known by now."""
    if references is None:
        return (Block("named in …", "dim"),)
    named = [f"message m{message_id}" for message_id in references.messages[:NAMED]]
    named += [str(summary_id) for summary_id in references.summaries[:NAMED]]
    left = max(len(references.messages) - NAMED, 0) + max(len(references.summaries) - NAMED, 0)
    named += [f"{left} more"] if left else []
    said = ", ".join(named) if named else "neither the context nor a summary"
    return (Block(f"named in {said}", "dim"),)


# -- a message -------------------------------------------------------------------------------------------
# How it is named, and what it holds, part by part.


def message_name(message_id: object, seq: object = None) -> str:
    """A message as every screen names it: ``m47``, with its place in the conversation ``m47 #12``."""
    return f"m{message_id}" if seq is None else f"m{message_id} #{seq}"


#: JSON longer than this is shown as it is stored: laying it out would be felt.
_PRETTY: Final = 200_000


def parts_of(entry: MessageEntry) -> Sequence[ContentPart]:
    """What the message holds: its parts, else its text (bulk imports wrote no parts)."""
    found = [part for row in entry.parts for part in row_parts(row, entry.message.role)]
    if any(part.text or part.arguments or part.byte_size or part.name for part in found):
        return found
    return [ContentPart(PartKind.TEXT, "", entry.message.content), *found]


def part_blocks(entry: MessageEntry) -> Document:
    """What the message holds, under each other; what is no text has a heading."""
    blocks: list[Block] = []
    for part in parts_of(entry):
        if part.kind is not PartKind.TEXT:
            named = (part.tool_name or part.name, part.call_id, part.mime, part.url)
            blocks.append(heading(" ".join(filter(None, (part.raw_type or part.kind.value, *named)))))
        texts = (laid_out(part.arguments or ""), part.text)
        blocks += [Block(text, "error" if part.is_error else "text") for text in texts if text]
    return tuple(blocks)


def laid_out(written: str) -> str:
    """JSON laid out for reading, or the text as it is when it is none or very long."""
    if not written or len(written) > _PRETTY:
        return written
    try:
        return json.dumps(json.loads(written), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return written


def columns_text(entry: MessageEntry) -> str:
    """The columns of a message besides its text, and the types of its parts."""
    message = entry.message
    columns = {
        "message_id": message.message_id,
        "seq": message.seq,
        "role": message.role,
        "token_count": message.tokens,
        "created_at": message.created_at,
        "large_content": message.large_content,
        "sender": message.sender,
        "parts": ", ".join(row.part_type for row in entry.parts),
    }
    return " · ".join(f"{name} {value}" for name, value in columns.items() if value not in (None, ""))


# -- a message as lines ----------------------------------------------------------------------------------
# Folded to what one reads in passing, or open with everything it holds.

#: Lines of a text that a folded message shows.
FOLDED_LINES = 3
INDENT = "      "


class MessageView(Record, frozen=True):
    """A message of a database or of a transcript, as the list shows it."""

    number: int  #: seq in a database, line in a transcript
    role: str
    moment: datetime | None
    said_at: str  #: the time as stored, for when it cannot be parsed
    tokens: int | None  #: stored estimate; None: a transcript has none
    parts: tuple[ContentPart, ...]
    title: str = ""  #: what an entry is that is no message
    covered_by: tuple[SummaryId, ...] = ()
    in_context: bool = False
    complete: bool = True  #: whether the texts are whole
    note: str = ""  #: what is wrong with it
    columns: str = ""  #: what else is recorded of it, for when it is open


class Pairing(Record, frozen=True):
    """Tool calls and results within what is loaded, by call id; a host may use an id more than once."""

    calls: Mapping[str, tuple[int, ...]]  #: numbers of the messages that made a call, in order
    results: Mapping[str, tuple[MessageView, ...]]  #: the messages that hold a result, in order

    def result_of(self, call_id: str | None, number: int) -> MessageView | None:
        """The first result of the call that stands in the message *number*, from there on."""
        found = self.results.get(call_id or "", ())
        return next((view for view in found if view.number >= number), None)

    def call_of(self, call_id: str | None, number: int) -> int | None:
        """The message with the last call, up to *number*, whose result stands there."""
        found = self.calls.get(call_id or "", ())
        return next((call for call in reversed(found) if call <= number), None)


def pair(views: Sequence[MessageView]) -> Pairing:
    """Find where calls and results stand; *views* are in order of their numbers."""
    calls: dict[str, tuple[int, ...]] = {}
    results: dict[str, tuple[MessageView, ...]] = {}
    for view in views:
        for part in view.parts:
            if part.call_id and part.kind is PartKind.TOOL_CALL:
                calls[part.call_id] = (*calls.get(part.call_id, ()), view.number)
            elif part.call_id and part.kind is PartKind.TOOL_RESULT:
                results[part.call_id] = (*results.get(part.call_id, ()), view)
    return Pairing(calls, results)


def message_lines(
    view: MessageView, width: int, *, opened: bool, pairing: Pairing, zone: tzinfo | None
) -> list[Line]:
    """The lines of a message: a header, then its parts."""
    lines = [_header(view, zone)]
    if view.note:
        lines.append((Span(INDENT), Span(view.note, "warn")))
    if opened:
        lines += _text(view.columns, max(width - len(INDENT), 8), "dim", opened)
    for part in view.parts:
        lines += _part_lines(part, view.number, width, opened, pairing)
    if opened and not view.complete:
        lines.append((Span(INDENT), Span("reading the rest …", "dim")))
    return lines


def _header(view: MessageView, zone: tzinfo | None) -> Line:
    said = format_clock(view.moment, zone) if view.moment else view.said_at
    tokens = f"{view.tokens:>7,} tok" if view.tokens is not None else ""
    spans = [
        Span(f"{view.number:>5} ", "dim"),
        Span(f"{view.role:<10}", role_style(view.role)),
        Span(f"{said:<19} ", "dim"),
        Span(f"{tokens} "),
    ]
    if view.title:
        spans.append(Span(view.title, "dim"))
    if view.in_context:
        spans.append(Span(" in context", "ok"))
    if view.covered_by:
        more = f" +{len(view.covered_by) - 1}" if len(view.covered_by) > 1 else ""
        spans.append(Span(f" leaf {view.covered_by[0]}{more}", "leaf"))
    return tuple(spans)


def _part_lines(part: ContentPart, number: int, width: int, opened: bool, pairing: Pairing) -> list[Line]:
    room = max(width - len(INDENT), 8)
    match part.kind:
        case PartKind.TEXT:
            return _text(part.text, room, "text", opened)
        case PartKind.REASONING:
            return _labelled("reasoning", part.text or "(no text)", room, "dim", opened)
        case PartKind.TOOL_CALL:
            return _call(part, room, opened, pairing.result_of(part.call_id, number))
        case PartKind.TOOL_RESULT:
            return _result(part, room, opened, pairing.call_of(part.call_id, number))
        case PartKind.IMAGE | PartKind.FILE:
            head = (Span(INDENT), Span(clip(f"▣ {_payload(part)}", room), "role-system"))
            return [head, *_text(part.text, room, "text", opened)]
        case _:
            return _labelled(part.raw_type or "block", part.text, room, "dim", opened)


def _text(text: str, room: int, style: StyleName, opened: bool) -> list[Line]:
    if not text.strip():
        return []
    room = min(room, MEASURE - len(INDENT))
    # A folded message needs no more of a text than could fill its lines.
    taken = text if opened else text.lstrip()[: room * (FOLDED_LINES + 1)]
    wrapped = wrap(safe_text(taken), room)
    if not opened and (len(wrapped) > FOLDED_LINES or len(taken) < len(text.strip())):
        *wrapped, last = wrapped[:FOLDED_LINES]
        wrapped.append(f"{clip(last, room - 2)} …")
    return [(Span(INDENT), Span(line, style)) for line in wrapped]


def _labelled(label: str, text: str, room: int, style: StyleName, opened: bool) -> list[Line]:
    """A part that is one line until it is opened."""
    mark = "▾" if opened else "▸"
    head = f"{mark} {safe_line(label)}"
    if not opened:
        return [(Span(INDENT), Span(clip(f"{head}: {safe_line(text[: 2 * room])}", room), style))]
    return [(Span(INDENT), Span(head, "heading")), *_text(text, room, style, opened=True)]


def _call(part: ContentPart, room: int, opened: bool, result: MessageView | None) -> list[Line]:
    arguments = part.arguments or ""
    answered = f"→ #{result.number}" if result else "→ no result found"
    mark = "▾" if opened else "▸"
    name = part.tool_name or "tool"
    if not opened:
        left = clip(f"{mark} {safe_line(name)} {safe_line(arguments[: 2 * room])}", room - len(answered) - 1)
        return [(Span(INDENT), Span(left, "role-tool"), Span(f" {answered}", "dim"))]
    head: Line = (
        Span(INDENT),
        Span(f"{mark} {name} ", "heading"),
        Span(f"{part.call_id or ''} {answered}", "dim"),
    )
    lines = [head, *_text(laid_out(arguments), room, "role-tool", opened=True)]
    if result is not None:
        said = " ".join(found.text for found in result.parts if found.call_id == part.call_id)
        lines += [(Span(INDENT), Span(f"result (#{result.number})", "heading"))]
        lines += _text(said, room, "text", opened=True)
        if not result.complete:
            lines.append((Span(INDENT), Span(f"… the rest is in #{result.number}", "dim")))
    return lines


def _result(part: ContentPart, room: int, opened: bool, call: int | None) -> list[Line]:
    origin = f"← #{call}" if call is not None else "← no call found"
    failed = " failed" if part.is_error else ""
    label = f"{part.tool_name or 'result'}{failed} {origin}"
    return _labelled(label, part.text, room, "error" if part.is_error else "role-tool", opened)


def _payload(part: ContentPart) -> str:
    said = [part.name or part.kind.value, part.mime or ""]
    said.append(f"{part.byte_size:,} bytes" if part.byte_size is not None else "")
    said.append(part.url or "")
    return safe_line(" · ".join(word for word in said if word))
