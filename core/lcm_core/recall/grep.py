"""``lcm_grep``: what a pattern or words are found in (docs/engine/recall.md, "lcm_grep")."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from lcm_core.javascript import Json, JsonObject, first_units, trimmed
from lcm_core.recall.answer import ToolAnswer, ToolError
from lcm_core.recall.parameters import Parameters, grouped
from lcm_core.recall.patterns import units
from lcm_core.recall.queries import syntax_in
from lcm_core.recall.scope import Caller, Scope, resolve_scope
from lcm_core.recall.searching import FILE_BYTES, Clock, FileHit, Hit, Search, search_files, search_rows
from lcm_core.recall.settings import RecallSettings
from lcm_core.store.recalled import RecalledRows
from lcm_core.store.search import Kind, Order
from lcm_core.times import engine_label, engine_moment

DEFAULT_LIMIT: Final = 50
MAX_CHARACTERS: Final = 40_000
_SNIPPET: Final = 200
_MODES: Final = ("regex", "full_text")
_SCOPES: Final = ("both", "messages", "summaries", "files")


def grep(
    rows: RecalledRows,
    given: JsonObject,
    caller: Caller,
    settings: RecallSettings,
    now: datetime | None = None,
) -> ToolAnswer:
    """The answer of ``lcm_grep``; a call that makes no sense is answered with its error."""
    try:
        return _grep(rows, Parameters(given), caller, settings, now or datetime.now(UTC))
    except ToolError as error:
        return error.answer


def _grep(
    rows: RecalledRows, parameters: Parameters, caller: Caller, settings: RecallSettings, now: datetime
) -> ToolAnswer:
    pattern = parameters.text("pattern")
    if not pattern:
        raise ToolError("pattern is required.")
    mode = _one_of(parameters, "mode", _MODES)
    scope_name = _one_of(parameters, "scope", _SCOPES)
    full_text = mode == "full_text"
    order = Order(_one_of(parameters, "sort", tuple(Order))) if full_text else Order.RECENCY
    since = parameters.moment("since", settings.local)
    before = parameters.moment("before", settings.local)
    if since is not None and before is not None and since >= before:
        raise ToolError("`since` must be earlier than `before`.")
    scope = resolve_scope(rows, parameters, caller)
    syntax = syntax_in(pattern) if full_text else None
    if syntax is not None:
        raise ToolError(
            f'full_text mode does not support regex syntax ({syntax}). Use mode: "regex" for `{pattern}`, '
            "or rewrite the full_text query as 1-3 literal terms or one quoted phrase."
        )
    limit = parameters.number("limit")
    search = Search(
        pattern,
        full_text,
        scope.conversations,
        since,
        before,
        DEFAULT_LIMIT if limit is None else limit,
        order,
        now,
    )
    clock = Clock()
    kinds = {"both": (Kind.MESSAGES, Kind.SUMMARIES), "files": ()}.get(scope_name) or (
        () if scope_name == "files" else (Kind(scope_name),)
    )
    found = {kind: search_rows(rows, search, kind, clock) for kind in kinds}
    files: list[FileHit] = []
    if scope_name == "files":
        files = search_files(rows, search, parameters.texts("fileIds"), settings, clock)
    return _answer(search, mode, scope_name, scope, found, files, settings)


def _one_of(parameters: Parameters, name: str, known: Sequence[str]) -> str:
    """One of some words; the first stands for what was not given."""
    given = parameters.text(name)
    return given if given in known else known[0]


def _answer(
    search: Search,
    mode: str,
    scope_name: str,
    scope: Scope,
    found: dict[Kind, list[Hit]],
    files: list[FileHit],
    settings: RecallSettings,
) -> ToolAnswer:
    messages, summaries = found.get(Kind.MESSAGES, []), found.get(Kind.SUMMARIES, [])
    total = len(messages) + len(summaries) + len(files)
    lines = [
        "## LCM Grep Results",
        f"**Pattern:** `{search.pattern}`",
        f"**Mode:** {mode} | **Scope:** {scope_name} | **Sort:** {search.order}",
        f"**Conversation scope:** {scope.label}",
    ]
    if search.since is not None or search.before is not None:
        since = "-∞" if search.since is None else engine_label(search.since, settings.zone)
        before = "+∞" if search.before is None else engine_label(search.before, settings.zone)
        lines.append(f"**Time filter:** since {since} | before {before}")
    if scope_name == "files":
        lines.append(
            f"**File scan:** first {grouped(FILE_BYTES)} bytes per file; "
            "matches beyond that prefix are not searched."
        )
    lines += [f"**Total matches:** {total}", ""]
    sections = (
        ("Messages", [_message_line(hit, settings) for hit in messages]),
        ("Summaries", [_summary_line(hit, settings) for hit in summaries]),
        ("Files", [_file_line(hit) for hit in files]),
    )
    _add_sections(lines, sections)
    if total == 0:
        lines.append("No matches found.")
    details: dict[str, Json] = {
        "messageCount": len(messages),
        "summaryCount": len(summaries),
        "fileCount": len(files),
    }
    if scope_name == "files":
        details["fileScanByteLimit"] = FILE_BYTES
    return ToolAnswer("\n".join(lines), {**details, "totalMatches": total})


def _add_sections(lines: list[str], sections: Sequence[tuple[str, list[str]]]) -> None:
    """Add the sections that hold something, as far as there is room."""
    length = len(units("\n".join(lines)))
    for title, found in sections:
        if not found:
            continue
        lines += [f"### {title}", ""]
        for line in found:
            if length + len(units(line)) > MAX_CHARACTERS:
                lines.append("*(truncated — more results available)*")
                break
            lines.append(line)
            length += len(units(line))
        lines.append("")


def _message_line(hit: Hit, settings: RecallSettings) -> str:
    where = f"[conv={hit.conversation_id} msg#{hit.message_id}]"
    return f"- {where} ({hit.label}, {_time(hit, settings)}): {_snippet(hit.snippet)}"


def _summary_line(hit: Hit, settings: RecallSettings) -> str:
    where = f"[conv={hit.conversation_id} {hit.summary_id}]"
    return f"- {where} ({hit.label}, {_time(hit, settings)}): {_snippet(hit.snippet)}"


def _file_line(hit: FileHit) -> str:
    name = f" ({hit.name})" if hit.name else ""
    cut = " (file scan truncated)" if hit.cut else ""
    where = f"[conv={hit.conversation_id} {hit.file_id}{name}]"
    return f"- {where} line {hit.line}, offset {hit.offset}: `{hit.match}` {_snippet(hit.snippet)}{cut}"


def _time(hit: Hit, settings: RecallSettings) -> str:
    moment = engine_moment(hit.at)
    return "-" if moment is None else engine_label(moment, settings.zone)


def _snippet(text: str) -> str:
    """A snippet in one line, cut after 200 units."""
    line = trimmed(text.replace("\n", " "))
    return line if len(units(line)) <= _SNIPPET else first_units(line, _SNIPPET - 3) + "..."
