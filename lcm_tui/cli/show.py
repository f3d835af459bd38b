"""``show``: whatever has an id, by its id; a citation is verified."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

import click
from lcm_core.base.errors import ExitCode, NotFoundError, UsageError
from lcm_core.base.records import ConversationId
from lcm_core.base.text import safe_line
from lcm_core.base.values import replace, to_json
from lcm_core.store.database import Reader
from lcm_core.store.listing import whole_id
from lcm_core.store.search import Document
from lcm_recall.queries import RecallSettings, recall_settings
from lcm_recall.read import Verdict, cite, document_of, text_of, verify
from lcm_recall.results import Described

from lcm_tui.cli import options
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.command import argument, command, flag, option, typed_words
from lcm_tui.cli.kinds import AnyId, StoredText, WholeNumber
from lcm_tui.tables.blocks import Facts, Note, Prose

#: How ids begin, and what they are of; all else is a session, or a conversation by another name.
_KINDS: Final = (
    ("message", r"m(sg#)?[0-9]+|.*@.*"),
    ("summary", r"sum_.*"),
    ("file", r"file_.*"),
    ("brief", r"focus_.*"),
    ("operation", r"op_.*"),
    ("batch", r"batch_.*"),
    ("snapshot", r"asm_.*"),
    ("conversation", r"[0-9]+"),
)
#: The options that only some of them have.
_OF: Final = {
    "include_content": "file",
    **dict.fromkeys(("previous", "rules"), "summary"),
    **dict.fromkeys(("agent", "limit", "cursor"), "session"),
}


@command(
    "show",
    examples=(
        "show m826",
        "show sum_4c4bd5292abfa225",
        "show sum_6c18661f50d6fc7f --previous",
        "show file_b7b54f0887584669 --include-content",
        "show 2b8481de --limit 20",
    ),
)
@argument(
    "name",
    AnyId(empty=False),
    "ID",
    "m12, sum_..., file_..., focus_..., op_..., batch_..., asm_... (a context that an engine sent), a "
    "session of the host, a conversation (its number, session key or a unique part of its title), or a "
    "citation, which is verified. A unique prefix of an id is enough.",
)
@flag("--include-content", "Of a file: print it too, if it exists and is text.")
@flag(
    "--previous",
    "Of a summary: the previous context it was made with, reconstructed, and the one for a rewrite.",
)
@options.rule_set
@option("--agent", StoredText(), "AGENT", "Of a session: only of this agent.")
@option("--limit", WholeNumber(1), "N", "Of a session: the newest N entries (default: all).")
@options.cursor
def show(
    run: Run,
    *,
    name: str,
    include_content: bool,
    previous: bool,
    rules: str | None,
    agent: str | None,
    limit: int | None,
    cursor: str | None,
) -> Answer:
    """Show whatever has an id.

    That is a message, a summary, a large file, a focus brief, an operation of the history, a snapshot, a
    conversation or a session of the host.
    """
    ctx = click.get_current_context()
    as_engine = typed_words(ctx) == "summaries show"
    kind = next((kind for kind, form in _KINDS if re.fullmatch(form, name, re.DOTALL)), "session")
    kind = "summary" if as_engine else kind
    given = {one.replace("_", "-"): of for one, of in _OF.items() if ctx.params[one]}
    if kind == "conversation" and "session" in given.values():
        kind = "session"  # the beginning of its id may be a number
    for given_option, of in given.items():
        if of != kind:
            problem = f"--{given_option} is only for the kind {of}; {safe_line(name)} is of the kind {kind}."
            raise UsageError(problem, details={"option": given_option})
    if rules is not None and not previous:
        raise UsageError("--rules requires --previous.", details={"option": "rules"})
    if previous:
        from lcm_tui.cli.summaries import show_previous

        told = show_previous(run, name, rules)
    else:
        told = _shown(run, kind, name, include_content, (agent, limit, cursor))
    if as_engine:
        return told
    told = replace(told, command="show")
    if previous or kind not in ("summary", "file", "brief"):
        return told
    citation = run.read(_citation, name, recall_settings(run.settings))
    blocks = [*told.blocks, Facts([("Citation", citation)])]
    return replace(told, data={**told.data, "citation": citation}, blocks=blocks)


async def _citation(reader: Reader, name: str, settings: RecallSettings) -> str | None:
    whole = await whole_id(reader, name)
    found = await reader.run(lambda rows: document_of(rows, reader.schema, whole, settings))
    return None if found is None else cite(found)


#: Which entries of a session: the agent that it is of, how many of the newest, the cursor of a page.
Entries: TypeAlias = tuple[str | None, int | None, str | None]


def _shown(run: Run, kind: str, name: str, include_content: bool, entries: Entries) -> Answer:
    if kind == "message":
        return _document(run, name)
    if kind == "conversation":
        from lcm_tui.cli.conversations import show_conversation

        number = ConversationId(options.CONVERSATION.read("ID", name))
        try:
            return show_conversation(run, number)
        except NotFoundError as error:
            raise NotFoundError(
                f"{error.message} A message is shown by m{number}.", code=error.code, details=error.details
            ) from error
    if kind == "file":
        from lcm_tui.cli.files import show_file

        return show_file(run, name, content=include_content)
    if kind == "brief":
        from lcm_tui.cli.focus import show_brief

        return show_brief(run, name)
    if kind == "operation":
        from lcm_tui.cli.history import show_operation

        return show_operation(run, name)
    if kind == "batch":
        from lcm_tui.cli.history import show_batch

        return show_batch(run, name)
    if kind == "snapshot":
        from lcm_tui.cli.context import show_snapshot

        return show_snapshot(run, name)
    if kind == "summary":
        from lcm_tui.cli.summaries import show_summary

        return show_summary(run, name)
    return _session(run, name, entries)


def _session(run: Run, name: str, entries: Entries) -> Answer:
    """A session of the host, else the conversation of a session key or a title."""
    from lcm_tui.cli.conversations import show_conversation
    from lcm_tui.cli.sessions import show_session

    try:
        return show_session(run, name, *entries)
    except NotFoundError as error:
        if error.code != "SESSION_NOT_FOUND":
            raise
        unknown = NotFoundError(
            f"Nothing has the id {safe_line(name)}: ids are m12, sum_..., file_..., focus_..., op_..., "
            "batch_..., asm_..., and those of conversations and sessions; `conversations list`, `sessions`, "
            "`summaries`, `files` and `history list` show them.",
            code=error.code,
            details=error.details,
        )
    if entries != (None, None, None):
        raise unknown
    try:
        return show_conversation(run, name)
    except NotFoundError as error:
        raise (unknown if error.code == "CONVERSATION_NOT_FOUND" else error) from None


def _document(run: Run, name: str) -> Answer:
    """A message, or what a citation is of."""
    settings = recall_settings(run.settings)

    async def load(reader: Reader) -> tuple[Verdict, Document | None]:
        return await reader.run(verify, reader.schema, name, settings)

    verdict, document = run.read(load)
    data = to_json(Described.of(name, verdict, document))
    if document is None:
        gone = run.answer("show", data, [Note(f"{name} is missing: this id is not in the database.")])
        return replace(gone, exit_code=ExitCode.NOT_FOUND)
    facts: list[tuple[str, str | int | None]] = [
        ("Citation", cite(document)),
        ("Kind", f"{document.kind}, {document.label}"),
        ("Conversation", str(document.conversation_id)),
        ("Time", run.time(document.at)),
    ]
    if "@" in name:
        facts.insert(1, ("The citation", str(verdict)))
    return run.answer("show", data, [Facts(facts), Prose(text_of(document), title="Text")])
