"""``mcp``: the memory as a server for other agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

from lcm_core.records import ConversationId

from lcm_tui.cli import options
from lcm_tui.cli.declaring import Option, Outcome, command
from lcm_tui.cli.kinds import StoredText

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Run

Conversations: TypeAlias = Annotated[
    tuple[ConversationId, ...],
    Option(
        "--conversation-id",
        "Only this conversation; may be given several times.",
        options.CONVERSATION,
        "ID",
        several=True,
    ),
]
SessionKeys: TypeAlias = Annotated[
    tuple[str, ...],
    Option(
        "--session-key",
        "Only the conversations of this session; may be given several times.",
        StoredText(empty=False),
        "KEY",
        several=True,
    ),
]


@command("mcp", examples=("mcp --db ~/.openclaw/lcm.db", "mcp --session-key agent:main:main"))
def mcp(
    run: Run,
    *,
    conversation_id: Conversations = (),
    session_key: SessionKeys = (),
    model: options.ModelOptions,
    yes: options.Yes = False,
) -> Outcome:
    """Serve the memory, read only, to agents over the Model Context Protocol (stdio).

    With a model that is named here, and --yes, it may be asked too: passages are sent to that model then.
    """
    import asyncio
    import os
    import signal
    import sys

    from lcm_core.errors import ConfigurationError, ExitCode, UsageError
    from lcm_core.recall.settings import recall_settings

    from lcm_tui.cli.failures import exit_code
    from lcm_tui.mcp.scope import Allowed

    try:
        from lcm_tui.mcp.server import serve
    except ImportError:
        raise ConfigurationError(
            "lcm-tui mcp requires the package mcp: install lcm-tui with the extra [mcp].",
            code="EXTRA_MISSING",
        ) from None
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
            await serve(
                run.settings.database.value,
                recall_settings(run.settings),
                allowed,
                asking,
                by_index=run.settings.search_cache.value,
            )
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
