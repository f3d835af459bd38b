"""``tool``: the engine's four recall tools, called and answered as an agent does and sees it."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer
from lcm_core.errors import UsageError
from lcm_core.javascript import JsonObject, read_json
from lcm_core.recall.answer import ToolAnswer
from lcm_core.recall.grants import Grants
from lcm_core.recall.scope import Caller
from lcm_core.recall.settings import recall_settings
from lcm_core.recall.tools import TOOLS, call_tool
from lcm_core.store.database import Reader

from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.documents import Document
from lcm_tui.cli.options import among, stored_text
from lcm_tui.cli.readable import Prose
from lcm_tui.cli.registry import command

Name: TypeAlias = Annotated[
    str, typer.Argument(metavar="TOOL", help=f"One of {', '.join(TOOLS)}.", autocompletion=among(*TOOLS))
]
Parameters: TypeAlias = Annotated[
    str, typer.Argument(metavar="PARAMS_JSON", help="Its parameters, as one JSON object.")
]
SessionKey: TypeAlias = Annotated[
    str | None, typer.Option("--session-key", metavar="KEY", help="The key of the session that calls.")
]
SessionId: TypeAlias = Annotated[
    str | None, typer.Option("--session-id", metavar="ID", help="The id of the session that calls.")
]


def register(app: typer.Typer) -> None:
    """Add the command to *app*."""
    command(app, "tool")(tool)


def tool(
    run: Run,
    name: Name,
    parameters: Parameters,
    session_key: SessionKey = None,
    session_id: SessionId = None,
) -> Answer:
    """Call a recall tool as an agent does: its text and details, its own errors among them."""
    if name not in TOOLS:
        raise UsageError(
            f"There is no tool {name}; there are {', '.join(TOOLS)}.",
            details={"option": "TOOL", "value": name},
        )
    given = _object(parameters)
    key, identity = (None if one is None else stored_text(one) for one in (session_key, session_id))
    caller = Caller(key, identity, Grants())
    settings = recall_settings(run.settings)

    async def load(reader: Reader) -> ToolAnswer:
        return await call_tool(reader, name, given, caller, settings)

    found = run.read(load)
    data: Document = {"text": found.text, "details": found.details}
    return run.answer(f"tool.{name}", data, [Prose(found.text)])


def _object(text: str) -> JsonObject:
    """The parameters.

    Raises:
        UsageError: they are no JSON object.
    """
    problem = "is no JSON"
    try:
        value = read_json(text.strip())
        problem = "must be one JSON object"
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise UsageError(
            f'PARAMS_JSON {problem}, such as {{"pattern": "retry"}}.', details={"option": "PARAMS_JSON"}
        )
    return value
