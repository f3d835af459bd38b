"""``mcp``: the memory as a server for other agents."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys

from lcm_core.base.errors import ConfigurationError, ExitCode, UsageError
from lcm_core.base.records import ConversationId

from lcm_tui.cli import options
from lcm_tui.cli.answer import Outcome, Run
from lcm_tui.cli.command import command, option
from lcm_tui.cli.kinds import StoredText
from lcm_tui.cli.presentation import exit_code
from lcm_tui.mcp.scope import Allowed


@command("mcp", examples=("mcp --db ~/.openclaw/lcm.db", "mcp --session-key agent:main:main"))
@option(
    "--conversation-id",
    options.CONVERSATION,
    "ID",
    "Only this conversation; may be given several times.",
    multiple=True,
)
@option(
    "--session-key",
    StoredText(empty=False),
    "KEY",
    "Only the conversations of this session; may be given several times.",
    multiple=True,
)
@options.model_options
@options.yes
def mcp(
    run: Run,
    *,
    conversation_id: tuple[ConversationId, ...],
    session_key: tuple[str, ...],
    model: options.ModelOptions,
    yes: bool,
) -> Outcome:
    """Serve the memory, read only, to agents over the Model Context Protocol (stdio).

    With a model that is named here, and --yes, it may be asked too: passages are sent to that model then.
    """
    gc.disable()  # what an import makes lives on: to look through it for garbage takes a tenth of the start
    try:
        from lcm_tui.mcp.server import serve
    except ImportError:
        raise ConfigurationError(
            "lcm-tui mcp requires the package mcp: install lcm-tui with the extra [mcp].",
            code="EXTRA_MISSING",
        ) from None
    finally:
        gc.freeze()
        gc.enable()
    asking = None
    if any((model.provider, model.model, model.base_url)):
        from lcm_tui.cli.asking import flagged_model, opened

        named = flagged_model(run, model, by_flags=True)
        if named is not None and not yes:
            raise UsageError(
                f"Every client could have {named.words} asked, and pay for it: confirm with --yes, and set "
                "--max-calls or --max-cost.",
                details={"option": "yes"},
            )
        asking = None if named is None else opened(named)
    allowed = Allowed(tuple(dict.fromkeys(conversation_id)), tuple(dict.fromkeys(session_key)))
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # As the other signals: asyncio's own handler would wait for the reader of the input.
        signal.signal(signal.SIGINT, lambda number, frame: signal.default_int_handler(number, frame))

    async def served() -> None:
        try:
            await serve(run.settings.database.value, run.settings, allowed, asking)
        finally:
            if asking is not None:
                await asking.aclose()

    try:
        asyncio.run(served())
    except* KeyboardInterrupt:  # by SIGTERM and SIGHUP, too; in a group when it came into a task
        # The database is closed. A thread of the SDK still waits for a line, and the interpreter for it.
        sys.stderr.write("Cancelled; nothing was changed.\n")
        sys.stderr.flush()
        os._exit(exit_code(ExitCode.CANCELLED))
    return 0
