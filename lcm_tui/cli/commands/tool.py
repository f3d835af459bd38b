"""``tool``: the engine's four recall tools, called and answered as an agent does and sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

from lcm_core.errors import UsageError

from lcm_tui.cli import options
from lcm_tui.cli.declaring import Argument, Option, command
from lcm_tui.cli.kinds import Completed, Raw, StoredText

if TYPE_CHECKING:
    from lcm_core.javascript import JsonObject
    from lcm_core.recall.answer import ToolAnswer
    from lcm_core.store.database import Database

    from lcm_tui.cli.answer import Answer, Run

#: Those of `recall.tools.TOOLS`.
TOOLS: Final = Completed("lcm_grep", "lcm_describe", "lcm_expand", "lcm_expand_query")

Name: TypeAlias = Annotated[str, Argument("TOOL", f"One of {', '.join(TOOLS.words)}.", TOOLS)]
Parameters: TypeAlias = Annotated[str, Argument("PARAMS_JSON", "Its parameters, as one JSON object.", Raw())]
SessionKey: TypeAlias = Annotated[
    str | None, Option("--session-key", "The key of the calling session.", StoredText(), "KEY")
]
SessionId: TypeAlias = Annotated[
    str | None, Option("--session-id", "The id of the calling session.", StoredText(), "ID")
]


@command(
    "tool",
    examples=(
        """tool lcm_grep '{"pattern": "retry"}'""",
        """tool lcm_expand_query '{"query": "lease", "prompt": "Why?"}'""",
    ),
)
def tool(
    run: Run,
    *,
    name: Name,
    parameters: Parameters,
    session_key: SessionKey = None,
    session_id: SessionId = None,
    model: options.ModelOptions,
    yes: options.Yes = False,
) -> Answer:
    """Call a recall tool as an agent does; print its text, details and errors.

    lcm_expand_query calls the model that you name, after you confirm; without one, it returns the evidence.
    """
    from lcm_core.recall.settings import recall_settings
    from lcm_core.recall.tools import RecallTools

    from lcm_tui.cli.asking import agreed_model
    from lcm_tui.views.blocks import Prose

    if name not in TOOLS.words:
        raise UsageError(
            f"There is no tool {name}; there are {', '.join(TOOLS.words)}.",
            details={"option": "TOOL", "value": name},
        )
    given = _object(parameters)
    settings = recall_settings(run.settings)

    if name != "lcm_expand_query" and (model.provider or model.model or model.base_url):
        raise UsageError(f"{name} calls no model; only lcm_expand_query does.", details={"option": "model"})
    asking = agreed_model(run, model, given, settings, yes=yes) if name == "lcm_expand_query" else None

    async def call(database: Database) -> ToolAnswer:
        tools = RecallTools(database, settings, model=asking)
        try:
            return await tools.call(name, given, session_key, session_id)
        finally:
            if asking is not None:
                await asking.aclose()

    found = run.work(call)
    return run.answer(f"tool.{name}", {"text": found.text, "details": found.details}, [Prose(found.text)])


def _object(text: str) -> JsonObject:
    """The parameters.

    Raises:
        UsageError: they are no JSON object.
    """
    from lcm_core.javascript import read_json

    problem = "is not JSON"
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
