"""``tool``: the engine's four recall tools, called and answered as an agent does and sees it."""

from __future__ import annotations

from lcm_core.base.errors import UsageError
from lcm_core.base.javascript import JsonObject, read_json
from lcm_core.store.database import Database
from lcm_recall.answer import ToolAnswer
from lcm_recall.queries import recall_settings
from lcm_recall.tools import TOOLS, RecallTools

from lcm_tui.cli import options
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.command import argument, command, option
from lcm_tui.cli.kinds import Completed, Raw, StoredText
from lcm_tui.tables.blocks import Prose


@command(
    "tool",
    examples=("""tool lcm_grep '{"pattern": "retry"}' --session-key agent:main:main""",),
)
@argument("name", Completed(*TOOLS), "TOOL", f"One of {', '.join(TOOLS)}.")
@argument("parameters", Raw(), "PARAMS_JSON", "Its parameters, as one JSON object.")
@option("--session-key", StoredText(), "KEY", "The key of the calling session.")
@option("--session-id", StoredText(), "ID", "The id of the calling session.")
@options.model_options
@options.yes
def tool(
    run: Run,
    *,
    name: str,
    parameters: str,
    session_key: str | None,
    session_id: str | None,
    model: options.ModelOptions,
    yes: bool,
) -> Answer:
    """Call a recall tool as an agent does; print its text, details and errors.

    lcm_expand_query calls the model that you name, after you confirm; without one, it returns the evidence.
    """
    if name not in TOOLS:
        raise UsageError(
            f"There is no tool {name}; there are {', '.join(TOOLS)}.",
            details={"option": "TOOL", "value": name},
        )
    given = _object(parameters)
    settings = recall_settings(run.settings)

    if name != "lcm_expand_query" and (model.provider or model.model or model.base_url):
        raise UsageError(f"{name} calls no model; only lcm_expand_query does.", details={"option": "model"})
    asking = None
    if name == "lcm_expand_query":
        from lcm_tui.cli.asking import agreed_model  # with all that writes, 90 ms that reading need not take

        asking = agreed_model(run, model, given, settings, yes=yes)

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
