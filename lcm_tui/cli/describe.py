"""``describe``: one thing by its id, or a citation of it."""

from __future__ import annotations

from lcm_core.base.errors import ExitCode
from lcm_core.base.values import replace, to_json
from lcm_core.store.database import Reader
from lcm_core.store.listing import whole_id
from lcm_core.store.search import Document
from lcm_recall.queries import recall_settings
from lcm_recall.read import Verdict, cite, text_of, verify
from lcm_recall.results import Described

from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.command import command
from lcm_tui.cli.recall import as_engine, engine_answer, id_argument
from lcm_tui.tables.blocks import Facts, Note, Prose


@command("describe", examples=("describe m826", "describe sum_4c4bd5292abfa225 --as-engine"))
@id_argument
@as_engine
def describe(run: Run, *, name: str, as_engine: bool) -> Answer:
    """Show one message, summary, focus brief or large file; for a citation, whether it is valid."""
    if as_engine:
        return engine_answer(run, "describe", "lcm_describe", {"id": name, "allConversations": True}, None)
    settings = recall_settings(run.settings)

    async def load(reader: Reader) -> tuple[str, Verdict, Document | None]:
        whole = await whole_id(reader, name)
        verdict, document = await reader.run(lambda rows: verify(rows, reader.schema, whole, settings))
        return whole, verdict, document

    name, verdict, document = run.read(load)
    data = to_json(Described.of(name, verdict, document))
    if document is None:
        gone = run.answer("describe", data, [Note(f"{name} is missing: this id is not in the database.")])
        return replace(gone, exit_code=ExitCode.NOT_FOUND)
    facts: list[tuple[str, str | int | None]] = [
        ("Citation", cite(document)),
        ("Kind", f"{document.kind}, {document.label}"),
        ("Conversation", str(document.conversation_id)),
        ("Time", run.time(document.at)),
    ]
    if "@" in name:
        facts.insert(1, ("The citation", str(verdict)))
    return run.answer("describe", data, [Facts(facts), Prose(text_of(document), title="Text")])
