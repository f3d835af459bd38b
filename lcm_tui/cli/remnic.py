"""``remnic``: looking into Remnic's database, importing into it, comparing, undoing."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import click
from lcm_core.base.errors import CancelledError, ExitCode, FileMissingError, LcmError, UsageError
from lcm_core.base.text import counted, preview, some
from lcm_core.base.values import replace, to_json
from lcm_core.engine.markers import beginning
from lcm_remnic import write as journal
from lcm_remnic.importing import (
    Looking,
    SessionEntry,
    StoredNode,
    StoredTurn,
    import_into,
    left_behind,
    read_contents,
    read_session,
    session_named,
)
from lcm_remnic.records import Report, Step, What, Why
from lcm_remnic.source import Source
from lcm_remnic.write import Import, Undone, preview_undo, undo_import, writing
from lcm_remnic.write import create as create_remnic

from lcm_tui.cli import options
from lcm_tui.cli.answer import BUSY_SECONDS, Answer, Run
from lcm_tui.cli.command import argument, command, flag, option
from lcm_tui.cli.documents import Document, some_of
from lcm_tui.cli.kinds import FilePath, StoredText, Text, WholeNumber
from lcm_tui.cli.options import ChangeFlags
from lcm_tui.cli.presentation import PROGRAM
from lcm_tui.cli.progress import ProgressLine
from lcm_tui.cli.working import carry_out, interruptible
from lcm_tui.tables.blocks import (
    Cell,
    Facts,
    ListColumn,
    Note,
    OutputColumn,
    Table,
    json_of,
    list_table,
)
from lcm_tui.tables.blocks import OutputBlock as Block

_NOTHING = "Nothing to import: Remnic has all of it."
_STOPPED = "Stopped. Finished conversations stay; run the same command again to continue."
_UNDONE = "Nothing was changed; --apply makes the change."


# -- tables ---------------------------------------------------------------------------------------------

#: How the rows of an import are called, in JSON and for people.
_ROWS: Final = {
    What.TURN: ("messages", "Messages"),
    What.PART: ("parts", "Parts"),
    What.NODE: ("summaries", "Summaries"),
    What.RECORD: ("records", "Records"),
    What.EVENT: ("compactionEvents", "Compaction events"),
    What.SEARCH: ("searchRows", "Search rows"),
}
#: Ids of a list that are named.
_NAMED = 5
_LEFT_BEHIND = {
    "large_files": "large files",
    "focus_briefs": "focus briefs",
    "focus_brief_sources": "sources of focus briefs",
    "conversation_bootstrap_state": "bootstrap states",
    "conversation_compaction_maintenance": "compaction states",
    "conversation_compaction_telemetry": "telemetry rows",
}
#: Reasons that have a sentence of their own.
_TOLD = frozenset({Why.NO_SEQ, Why.NO_TURN, Why.ELSEWHERE})


# fmt: off
SESSIONS: Final[tuple[ListColumn[SessionEntry, None], ...]] = (
    ListColumn("session", heading="Session", grows=True, json="sessionId", value="session"),
    ListColumn("turns", heading="Turns", right=True, json="turns", value="turns"),
    ListColumn("imported", heading="Imported", right=True, spare=2, json="importedTurns", value="imported"),
    ListColumn("parts", heading="Parts", right=True, spare=3, json="parts", value="parts"),
    ListColumn("nodes", heading="Nodes", right=True, json="nodes", value="nodes"),
    ListColumn("depth", heading="Depth", right=True, spare=1, json="maxDepth", value="max_depth"),
    ListColumn("tokens", heading="Tokens", right=True, json="tokens", value="tokens"),
    ListColumn("first", heading="First", spare=4, json="firstAt", value="first_at", time=True),
    ListColumn("last", heading="Last", spare=5, json="lastAt", value="last_at", time=True),
    ListColumn("records", json="recordedConversations", value="records"),
)
IMPORTS: Final[tuple[ListColumn[Import, None], ...]] = (
    ListColumn("import", heading="Import", json="importId", value="id"),
    ListColumn("begun", heading="Begun", json="begunAt", value="begun_at", time=True),
    ListColumn("undone", json="undoneAt", value="undone_at"),
    ListColumn("rows", heading="Rows", right=True, json="rows", value="rows"),
    ListColumn("state", heading="State", json="state", value="state"),
    ListColumn("source", heading="From", grows=True, json="source", value="source"),
)
NODES: Final[tuple[ListColumn[StoredNode, None], ...]] = (
    ListColumn("node", heading="Node", json="nodeId", value="id"),
    ListColumn("depth", heading="Depth", right=True, json="depth", value="depth"),
    ListColumn("below", heading="Below", json="parentId", value="parent_id"),
    ListColumn("first", json="firstTurn", value="start"),
    ListColumn("last", json="lastTurn", value="end"),
    ListColumn("turns", heading="Turns", value=lambda one: f"{one.start}-{one.end}"),
    ListColumn("tokens", heading="Tokens", right=True, spare=1, json="tokenCount", value="tokens"),
    ListColumn("created", json="createdAt", value="created_at", time=True),
    ListColumn("text", heading="Text", grows=True, json="content", value="text",
               text=lambda text: preview(beginning(text))),
)
TURNS: Final[tuple[ListColumn[StoredTurn, None], ...]] = (
    ListColumn("turn", heading="Turn", right=True, json="turnIndex", value="turn_index"),
    ListColumn("role", heading="Role", json="role", value="role"),
    ListColumn("count", heading="Parts", right=True, spare=2, value=lambda one: len(one.parts)),
    ListColumn("tokens", heading="Tokens", right=True, spare=1, json="tokenCount", value="tokens"),
    ListColumn("created", heading="Time", spare=3, json="createdAt", value="created_at", time=True),
    ListColumn("conversation", json="conversationId",
               value=lambda one: None if one.origin is None else one.origin.conversation_id),
    ListColumn("seq", json="seq", value=lambda one: None if one.origin is None else one.origin.seq),
    ListColumn("origin", heading="From", spare=4,
               value=lambda one: None if one.origin is None else one.origin.text),
    ListColumn("text", heading="Text", grows=True, json="content", value="content", text=preview),
    ListColumn("parts", json="parts", value=lambda one: to_json(one.parts)),
)
DIFFERENCES: Final[tuple[ListColumn[Step, None], ...]] = (
    ListColumn("difference", heading="Difference", json="difference", value="kind.value"),
    ListColumn("row", heading="Row", json="row", value="what.value"),
    ListColumn("name", heading="Which", grows=True, json="name", value="name"),
    ListColumn("table", json="table", value="table"),
    ListColumn("columns", heading="Columns", grows=True, json="columns", value="columns",
               text=lambda columns: ", ".join(columns) or None),
    ListColumn("session", heading="Session", spare=1, json="sessionId", value="session"),
)
# fmt: on


def _import_blocks(run: Run, path: Path, report: Report, behind: dict[str, int]) -> list[Block]:
    """What an import did or would do."""
    files = Facts([("From", str(run.settings.database.value)), ("Remnic", str(path))])
    counts = ("Insert", "Change", "Move", "Extra", "Same")
    columns = [OutputColumn("Rows"), *(OutputColumn(name, right=True) for name in counts)]
    rows: list[tuple[Cell, ...]] = [
        (_ROWS[what][1], one.missing, one.changed, one.moved, one.extra, one.same)
        for what, one in report.rows.items()
    ]
    facts: list[tuple[str, Cell]] = [
        ("Conversations scanned", report.conversations),
        ("Sessions with changes", report.sessions),
        ("Multi-parent collapsed", report.collapsed),
    ]
    return [files, Facts(facts), Table(columns, rows), *map(Note, _remarks(report, behind))]


def _remarks(report: Report, behind: dict[str, int]) -> list[str]:
    """What does not come along, in sentences."""
    found = []
    if report.no_messages:
        what = counted(len(report.no_messages), "summary is", "summaries are")
        found.append(f"{what} skipped because no message is below: {some(report.no_messages, _NAMED)}.")
    if report.elsewhere:
        what = counted(len(report.elsewhere), "summary is", "summaries are")
        found.append(
            f"{what} skipped: Remnic has the id in another session: {some(report.elsewhere, _NAMED)}."
        )
    found += [f"Skipped: {one}." for one in report.conflicts[:_NAMED]]
    if len(report.conflicts) > _NAMED:
        what = counted(len(report.conflicts) - _NAMED, "more conversation is", "more conversations are")
        found.append(f"{what} skipped in the same way.")
    if report.unreadable:
        what = counted(report.unreadable, "message has", "messages have")
        which = some(report.unheld["messages", Why.NO_SEQ].rows, _NAMED, report.unreadable)
        found.append(f"{what} no seq of its own and cannot be identified in Remnic: skipped: {which}.")
    for (table, why), rows in sorted(report.unheld.items()):
        if why not in _TOLD:
            what = counted(rows.count, "row")
            found.append(f"{what} of {table} cannot be held ({why}): {some(rows.rows, _NAMED, rows.count)}.")
    kept = [f"{count:,} {_LEFT_BEHIND.get(table, table)}" for table, count in behind.items() if count]
    if kept:
        these = " and ".join([", ".join(kept[:-1]), kept[-1]] if kept[1:] else kept)
        found.append(f"Remnic has no place for {these}; they stay in the source only.")
    return found


def _undone_facts(one: Import, found: Undone, *, done: bool) -> Facts:
    """What an undo did or would do."""
    return Facts(
        [
            ("Import", one.id),
            ("From", one.source),
            ("Removed" if done else "Rows to remove", found.removed),
            ("Restored" if done else "Rows to restore", found.restored),
            ("Already removed or restored", found.gone),
            ("Changed since, not touched", found.left),
        ]
    )


# -- options ---------------------------------------------------------------------------------------------

rows = option(
    "--limit", WholeNumber(1, 100_000), "N", "Maximum rows of each list; 50 by default.", default=50
)


class RemnicDatabase(FilePath):
    """Remnic's database, or its memory folder, which has it in a place of its own."""

    def read(self, name: str, value: str) -> Path:
        """The file."""
        path = super().read(name, value)
        is_folder = path.is_dir() or not (path.suffix or path.exists())
        return path / "state" / "lcm.sqlite" if is_folder else path


def _needed(_: click.Context, __: click.Parameter, path: Path | None) -> Path:
    if path is None:
        raise UsageError(
            "remnic needs Remnic's database: --remnic PATH.",
            code="MISSING_SELECTOR",
            details={"option": "remnic"},
        )
    return path


remnic_database = option(
    "--remnic",
    RemnicDatabase(),
    "PATH",
    "Remnic's memory folder, or its file state/lcm.sqlite.",
    into="path",
    callback=_needed,
)


# -- looking ---------------------------------------------------------------------------------------------


@command(
    "remnic list",
    examples=(
        "remnic list --remnic memory",
        "remnic list 27046938 --remnic lcm.sqlite",
        "remnic list --remnic memory --verify",
    ),
)
@argument(
    "session_id",
    StoredText(),
    "[SESSION_ID]",
    "A session, or a unique prefix of its id: its turns and summaries, and their hierarchy.",
    required=False,
)
@remnic_database
@rows
@flag(
    "--verify",
    "Compare it, or the session of this id, with lossless-claw's database row by row. Exits with code 6 "
    "if they differ.",
)
def list_(run: Run, *, session_id: str | None, path: Path, limit: int, verify: bool) -> Answer:
    """List the sessions of Remnic's database, and the imports that can be undone; or what is in one."""
    if verify:
        return _verified(run, path, () if session_id is None else (session_id,), limit)
    if session_id is not None:
        return _session(run, session_id, path, limit)
    held, imports = read_contents(path), journal.imports(path)
    data: Document = {
        "remnic": str(path),
        "schemaVersion": held.version,
        "sessions": [json_of(SESSIONS, one) for one in held.sessions],
        "imports": [json_of(IMPORTS, one) for one in imports],
    }
    blocks: list[Block] = [list_table(SESSIONS, held.sessions, run.time, empty="No session is recorded.")]
    if imports:
        blocks.append(list_table(IMPORTS, imports, run.time, title="Imports by lcm-tui"))
    return run.answer("remnic.list", data, blocks)


def _session(run: Run, session_id: str, path: Path, limit: int) -> Answer:
    """Turns and nodes of a session, the newest turns, the highest nodes first."""
    name = session_named(path, session_id)
    held = read_session(path, name)
    nodes = sorted(held.nodes, key=lambda one: (-one.depth, one.start, one.id))[:limit]
    turns = held.turns[-limit:]
    data: Document = {
        "remnic": str(path),
        "sessionId": name,
        "turnCount": len(held.turns),
        "nodeCount": len(held.nodes),
        "nodes": [json_of(NODES, one) for one in nodes],
        "turns": [json_of(TURNS, one) for one in turns],
    }
    facts: list[tuple[str, Cell]] = [
        ("Session", held.session),
        ("Turns", len(held.turns)),
        ("Nodes", len(held.nodes)),
        ("Imported conversations", held.records),
    ]
    blocks: list[Block] = [
        Facts(facts),
        list_table(NODES, nodes, run.time, title="Nodes", empty="No node."),
        list_table(TURNS, turns, run.time, title="Turns", empty="No turn."),
    ]
    if len(held.turns) > limit or len(held.nodes) > limit:
        blocks.append(Note(f"At most {limit:,} of each are shown, the newest turns; --limit shows more."))
    return run.answer("remnic.list", data, blocks)


# -- import and verify -----------------------------------------------------------------------------------


@command(
    "remnic import",
    examples=(
        "remnic import --remnic memory",
        "remnic import --db lcm.db --remnic lcm.sqlite --apply",
    ),
)
@argument(
    "session_ids",
    StoredText(),
    "[SESSION_ID...]",
    "Only these sessions, by their ids.",
    nargs=-1,
    required=False,
)
@remnic_database
@flag("--create", "Create the target database if it does not exist.")
@options.change_flags
def import_(
    run: Run,
    *,
    path: Path,
    session_ids: tuple[str, ...],
    create: bool,
    flags: ChangeFlags,
) -> Answer:
    """Import conversations and summaries into Remnic's database (previews unless --apply)."""
    new = create and not path.exists()
    if not new and not path.is_file():
        raise FileMissingError(
            "Remnic database",
            path,
            "Give another path, start Remnic once with lcmEnabled, or create an empty one with --create.",
            code="REMNIC_NOT_FOUND",
        )
    with Source(run.settings.database.value, BUSY_SECONDS) as source:
        behind, blocks = left_behind(source, session_ids), list[Block]()
        if not flags.apply or not flags.yes:
            planned = _looked(source, None if new else path, session_ids)
            blocks = _import_blocks(run, path, planned, behind)
            if not flags.apply or not planned.written:
                note = Note(_UNDONE if planned.written else _NOTHING)
                return _reported(run, "remnic.import", path, planned, behind, [note])

        def work(stopped: Callable[[], bool]) -> Answer:
            if new:
                create_remnic(path)
            return _imported(run, source, path, session_ids, behind, stopped)

        return carry_out(run, f"Import this into {path}?", work, yes=flags.yes, shown=lambda: blocks)


def _looked(
    source: Source, path: Path | None, sessions: Sequence[str], seen: Callable[[Step], None] = lambda _: None
) -> Report:
    meter = ProgressLine(silent=0.5)
    with interruptible(meter) as stopped:
        return import_into(
            source,
            Looking(path),
            sessions,
            seen=seen,
            told=lambda done, of: meter.show("Comparing messages", done, of),
            stopped=stopped,
        )


def _imported(
    run: Run,
    source: Source,
    path: Path,
    sessions: Sequence[str],
    behind: dict[str, int],
    stopped: Callable[[], bool],
) -> Answer:
    meter, report = ProgressLine(silent=0.5), Report()
    failed: LcmError | None = None
    with writing(path, source.path, BUSY_SECONDS, stopped) as writer:
        try:
            import_into(
                source,
                writer,
                sessions,
                report=report,
                told=lambda done, of: meter.show("Importing messages", done, of),
                stopped=stopped,
            )
            writer.end()
        except LcmError as error:
            if not report.written:
                raise
            failed = CancelledError(_STOPPED) if isinstance(error, CancelledError) else error
        finally:
            meter.clear()
        if failed is None and not report.written:
            return _reported(run, "remnic.import", path, report, behind, [Note(_NOTHING)])
        undo = shlex.join([PROGRAM, "remnic", "undo", writer.id, "--remnic", str(path), "--apply"])
        more: Document = {
            "applied": failed is None,
            "importId": writer.id,
            "undo": undo,
            "searchIndex": writer.search_failed or None,
        }
        blocks: list[Block] = [Facts([("Import", writer.id), ("To undo it", undo)])]
        if writer.search_failed:
            blocks.append(Note(f"Some search rows could not be written: {writer.search_failed}."))
    if failed is not None:
        blocks.append(Note(f"The import is incomplete. {failed.message}"))
        if not isinstance(failed, CancelledError):
            blocks.append(Note("What was written stays. Run the same command again to continue."))
    return _reported(run, "remnic.import", path, report, behind, blocks, more).in_part(failed)


def _verified(run: Run, path: Path, sessions: tuple[str, ...], limit: int) -> Answer:
    """Compare the database with lossless-claw's row by row."""
    kept: list[Step] = []
    total = 0

    def seen(step: Step) -> None:
        nonlocal total
        if step.what is not What.EVENT:
            total += 1
            if len(kept) < limit:
                kept.append(step)

    with Source(run.settings.database.value, BUSY_SECONDS) as source:
        report = _looked(source, path, sessions, seen)
        behind = left_behind(source, sessions)
    same = not (total or report.conflicts or report.elsewhere)
    more: Document = {
        "same": same,
        "differenceCount": total,
        "differences": [json_of(DIFFERENCES, one) for one in kept],
    }
    title = counted(total, "difference") + (f", the first {len(kept):,}" if len(kept) < total else "")
    table = list_table(DIFFERENCES, kept, run.time, title=title, empty="Nothing differs.")
    told = _reported(run, "remnic.list", path, report, behind, [table], more)
    return told if same else replace(told, exit_code=ExitCode.FINDINGS)


def _reported(
    run: Run,
    command: str,
    path: Path,
    report: Report,
    behind: dict[str, int],
    blocks: Sequence[Block],
    more: Document | None = None,
) -> Answer:
    """What an import did or would do, and *more*."""
    data: Document = {
        "remnic": str(path),
        "applied": False,
        **some_of(report, "conversations sessions"),
        "rows": {_ROWS[what][0]: to_json(tally) for what, tally in report.rows.items()},
        **some_of(report, "collapsed no_messages elsewhere conflicts unreadable"),
        "leftBehind": dict(behind),
        "notHeld": [
            {"table": table, "reason": why.value, **to_json(one)}
            for (table, why), one in sorted(report.unheld.items())
        ],
        "warnings": list(_remarks(report, behind)),
    }
    blocks = [*_import_blocks(run, path, report, behind), *blocks]
    return run.answer(command, {**data, **(more or {})}, blocks)


# -- undo ---------------------------------------------------------------------------------------------


@command("remnic undo", examples=("remnic undo --remnic memory --apply",))
@argument(
    "import_id",
    Text(),
    "[IMPORT_ID]",
    "The import, or a unique prefix of its id (default: the newest in effect).",
    required=False,
)
@remnic_database
@options.change_flags
def undo(run: Run, *, import_id: str | None, path: Path, flags: ChangeFlags) -> Answer:
    """Undo an import into Remnic's database (previews unless --apply)."""
    one, blocks = journal.find_import(path, import_id), list[Block]()
    data = {"remnic": str(path), "applied": flags.apply, **some_of(one, "id source")}
    if not flags.apply or not flags.yes:
        planned = preview_undo(path, one)
        blocks = [_undone_facts(one, planned, done=False)]
        if not flags.apply:
            return run.answer("remnic.undo", {**data, **to_json(planned)}, [*blocks, Note(_UNDONE)])
    meter = ProgressLine(silent=0.5)

    def work(stopped: Callable[[], bool]) -> Undone:
        try:
            return undo_import(
                path,
                one,
                BUSY_SECONDS,
                told=lambda done, of: meter.show("Undoing", done, of),
                stopped=stopped,
            )
        except CancelledError:
            raise CancelledError(_STOPPED) from None

    found = carry_out(run, "Undo this import?", work, yes=flags.yes, shown=lambda: blocks, meter=meter)
    return run.answer("remnic.undo", {**data, **to_json(found)}, [_undone_facts(one, found, done=True)])
