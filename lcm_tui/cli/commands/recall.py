"""``grep``: everything that was said, searched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import click
from lcm_core.base.errors import UsageError
from lcm_core.base.records import ConversationId
from lcm_core.base.values import Record

from lcm_tui.cli import options
from lcm_tui.cli.command import Sectioned, command, gather
from lcm_tui.cli.kinds import Choice, Completed, Raw, StoredText, WholeNumber, invalid

if TYPE_CHECKING:
    from lcm_core.base.javascript import JsonObject
    from lcm_core.store.database import Database
    from lcm_recall.answer import ToolAnswer

    from lcm_tui.cli.answer import Answer, Outcome, Run


#: Those of `store.searched.DocumentKind`, and of summaries.
KINDS = Choice("message", "summary", "brief", "file", "leaf", "condensed")
DEFAULT_LIMIT, _MAX_OFFSET = 20, 10**9
#: What the engine's own tool can be narrowed to, one at a time.
_ENGINE_KINDS = frozenset({"message", "summary", "file"})

as_engine = click.option("--as-engine", is_flag=True, help="Search and answer like the engine's own tool.")
agent = click.option(
    "--agent",
    cls=Sectioned,
    section=options.FILTERS,
    type=StoredText(empty=False),
    metavar="NAME",
    help="Only sessions of this agent.",
)


class ScopeOptions(Record, frozen=True):
    """Which conversations, and what in them."""

    conversation_id: ConversationId | None = None
    session_key: str | None = None
    agent: str | None = None
    role: tuple[str, ...] = ()
    tool: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    depth: int | None = None
    context: str | None = None


scope_options = gather(
    "scope",
    ScopeOptions,
    options.by_conversation_id(),
    options.whole_session,
    agent,
    options.roles,
    click.option(
        "--tool",
        cls=Sectioned,
        section=options.FILTERS,
        type=StoredText(),
        metavar="NAME",
        multiple=True,
        help="Only messages that call this tool; may be given several times.",
    ),
    click.option(
        "--kind",
        cls=Sectioned,
        section=options.FILTERS,
        type=KINDS,
        metavar="KIND",
        multiple=True,
        help=f"Only of this kind ({', '.join(KINDS.words)}); may be given several times.",
    ),
    options.depth,
    click.option(
        "--context",
        cls=Sectioned,
        section=options.FILTERS,
        type=Choice("in", "out"),
        metavar="in|out",
        help="Only texts that are in a context (in), or that are not (out).",
    ),
)


@command("grep", examples=('grep "lease table" --limit 5', "grep 'OPS-[0-9]+' --regex --kind message"))
@click.argument(
    "query",
    type=Raw(),
    required=False,
    metavar="[QUERY]",
    default="",
    help='Words, "a phrase", the start of a word*; all must match.',
)
@scope_options
@options.time_options
@click.option("--regex", is_flag=True, help="The query is a regular expression; case does not matter.")
@click.option("--substring", is_flag=True, help="Search for the query literally, also inside words.")
@click.option(
    "--limit",
    type=WholeNumber(1, options.MAX_LIMIT),
    metavar="1..500",
    default=DEFAULT_LIMIT,
    help=f"Maximum number of hits; {DEFAULT_LIMIT} by default.",
)
@click.option(
    "--cursor",
    type=WholeNumber(0, _MAX_OFFSET),
    metavar="CURSOR",
    default=0,
    help="The next page: the cursor printed by the previous page.",
)
@click.option("--index", is_flag=True, help="First create or update the private index of the messages.")
@click.option("--no-index", is_flag=True, help="Use no private index, and keep no recent search.")
@click.option(
    "--forget", is_flag=True, help="Remove the private index and the recent searches; nothing is searched."
)
@click.option("--fail-empty", is_flag=True, help="Exit with code 3 if nothing is found.")
@as_engine
def grep(
    run: Run,
    *,
    query: str,
    scope: ScopeOptions,
    times: options.TimeOptions,
    regex: bool,
    substring: bool,
    limit: int,
    cursor: int,
    index: bool,
    no_index: bool,
    forget: bool,
    fail_empty: bool,
    as_engine: bool,
) -> Answer:
    """Search messages, tool calls, summaries, focus briefs and large files of all conversations."""
    from lcm_recall.terms import Mode, parse

    from lcm_tui.cli import recall

    if forget:
        return recall.forget_searches(run)
    if index and no_index:
        raise invalid("index", "cannot be combined with --no-index")
    if regex and substring:
        raise invalid("regex", "cannot be combined with --substring")
    asked = recall.Asked(
        scope.conversation_id,
        scope.session_key,
        scope.agent,
        tuple(dict.fromkeys(scope.role)),
        tuple(dict.fromkeys(scope.tool)),
        tuple(dict.fromkeys(scope.kind)),
        scope.depth,
        *times.span(run.clock),
        limit,
        cursor,
        None if scope.context is None else scope.context == "in",
        not no_index and (index or run.settings.search_cache.value),
    )
    if as_engine:
        _check_for_the_engine(
            scope, {"--substring": substring, "--index": index, "--cursor": cursor, "--forget": forget}
        )
        return recall.engine_grep(run, query, asked, regex=regex, fail_empty=fail_empty)
    mode = Mode.REGEX if regex else Mode.SUBSTRING if substring else Mode.WORDS
    parsed = parse(query, mode)
    if index:
        recall.bring_up_index(run)
    return recall.grep(run, parsed, asked, fail_empty=fail_empty)


def _check_for_the_engine(scope: ScopeOptions, ours: Mapping[str, object]) -> None:
    """Refuse what the engine's own tool does not know: it must not look as if it had been taken into account.

    Raises:
        UsageError: such an option was given.
    """
    given = {
        **ours,
        "--agent": scope.agent,
        "--role": scope.role,
        "--tool": scope.tool,
        "--depth": scope.depth is not None,
        "--context": scope.context,
        "--kind": len(scope.kind) > 1 or not _ENGINE_KINDS.issuperset(scope.kind),
    }
    for option, value in given.items():
        if value:
            raise invalid(
                option.removeprefix("--"), "cannot be combined with --as-engine: its tool has no such choice"
            )


# -- expand ---------------------------------------------------------------------------------------------
# ``expand``: from a summary down to what was said.

#: That of `recall.read.DEFAULT_TOKENS`.
DEFAULT_TOKENS, _MAX_TOKENS = 4_000, 1_000_000
#: No summary is so far above its messages.
_MAX_LEVEL = 1_000_000

id_argument = click.argument(
    "name",
    type=StoredText(),
    metavar="ID",
    help="m12, sum_..., file_..., a brief (or a unique prefix of a summary or brief), or a citation.",
)


@command(
    "expand",
    examples=(
        "expand sum_4c4bd5292abfa225 --tokens 2000",
        "expand sum_4c4bd5292abfa225 --by-level",
        "expand sum_4c4bd5292abfa225 --level 1",
    ),
)
@id_argument
@click.option(
    "--tokens",
    type=WholeNumber(1, _MAX_TOKENS),
    metavar="N",
    default=DEFAULT_TOKENS,
    help=f"Tokens of a page; {DEFAULT_TOKENS:,} by default.",
)
@options.cursor
@click.option("--no-messages", is_flag=True, help="Only summaries, without the messages below.")
@click.option(
    "--by-level",
    is_flag=True,
    help="What is below the summary level by level, and the tokens of each; no texts.",
)
@click.option(
    "--level",
    type=WholeNumber(0, _MAX_LEVEL),
    metavar="N",
    help="Only the texts of this level: 0 is the summary itself.",
)
@as_engine
def expand(
    run: Run,
    *,
    name: str,
    tokens: int,
    cursor: str | None,
    no_messages: bool,
    by_level: bool,
    level: int | None,
    as_engine: bool,
) -> Answer:
    """Read down from a summary to its messages with their tool calls, page by page, with citations."""
    from lcm_tui.cli import recall

    named = {"--by-level": by_level, "--level": level is not None, "--as-engine": as_engine}
    chosen = [option for option, given in named.items() if given]
    if len(chosen) > 1:
        raise invalid(chosen[0].removeprefix("--"), f"cannot be combined with {chosen[1]}")
    if as_engine and cursor:
        raise invalid("cursor", "cannot be combined with --as-engine: its tool has no pages")
    if chosen and no_messages and not as_engine:
        raise invalid("no-messages", f"cannot be combined with {chosen[0]}")
    if by_level:
        return recall.expand_levels(run, name)
    if as_engine:
        return recall.engine_expand(run, name, tokens, with_messages=not no_messages)
    return recall.expand(run, name, tokens, cursor, with_messages=not no_messages, level=level)


# -- describe -------------------------------------------------------------------------------------------
# ``describe``: one thing by its id, or a citation of it.


@command("describe", examples=("describe m826", "describe sum_4c4bd5292abfa225 --as-engine"))
@id_argument
@as_engine
def describe(run: Run, *, name: str, as_engine: bool) -> Answer:
    """Show one message, summary, focus brief or large file; for a citation, whether it is valid."""
    from lcm_tui.cli import recall

    return recall.engine_describe(run, name) if as_engine else recall.describe(run, name)


# -- ask ------------------------------------------------------------------------------------------------
# ``ask``: a question to the memory.

#: Those of `recall.asking.AskLimits`.
_TOKENS, _SECONDS, _CALLS, _ANSWER = 8_000, 120, 4, 1_000
_MAX_QUESTION = 4_000


@command(
    "ask",
    examples=('ask "Why is the lease 45 s?"', 'ask "Which port?" --model claude-haiku-4-5 --max-cost 0.05'),
)
@click.argument("question", type=Raw(), metavar="QUESTION", help="Your question.")
@options.by_conversation_id()
@options.whole_session
@agent
@click.option(
    "--tokens",
    type=WholeNumber(100, 200_000),
    metavar="N",
    default=_TOKENS,
    help=f"Maximum tokens of evidence; {_TOKENS:,} by default.",
)
@click.option(
    "--answer-tokens",
    type=WholeNumber(50, 16_000),
    metavar="N",
    default=_ANSWER,
    help=f"Maximum tokens of the answer; {_ANSWER:,} by default.",
)
@click.option(
    "--steps",
    type=WholeNumber(1, 20),
    metavar="N",
    default=_CALLS,
    help=f"Maximum model calls, the last one for the answer; {_CALLS} by default.",
)
@click.option(
    "--timeout",
    type=WholeNumber(1, 3_600),
    metavar="SECONDS",
    default=_SECONDS,
    help=f"Time limit for the model in seconds; {_SECONDS} by default.",
)
@click.option("--fail-empty", is_flag=True, help="Exit with code 3 if there is no evidence.")
@options.model_options
@options.yes
def ask(
    run: Run,
    *,
    question: str,
    conversation_id: ConversationId | None,
    session_key: str | None,
    agent: str | None,
    tokens: int,
    answer_tokens: int,
    steps: int,
    timeout: int,
    fail_empty: bool,
    model: options.ModelOptions,
    yes: bool,
) -> Answer:
    """Answer a question from the memory, with citations; a model is called only if you name one and
    confirm."""
    from lcm_core.base.errors import UsageError
    from lcm_recall.ask import AskLimits

    from lcm_tui.cli.asking import AskWork, flagged_model

    if not question.strip() or len(question) > _MAX_QUESTION:
        raise UsageError(
            f"A question has from 1 to {_MAX_QUESTION:,} characters, not {len(question.strip()):,}.",
            details={"option": "QUESTION"},
        )
    limits = AskLimits(tokens, steps, answer_tokens=answer_tokens, seconds=float(timeout))
    work = AskWork(
        run, question.strip(), (conversation_id, session_key, agent), limits, flagged_model(run, model), yes
    )
    return work.do(fail_empty=fail_empty)


# -- tool -----------------------------------------------------------------------------------------------
# ``tool``: the engine's four recall tools, called and answered as an agent does and sees it.

#: Those of `recall.tools.TOOLS`.
TOOLS: Final = Completed("lcm_grep", "lcm_describe", "lcm_expand", "lcm_expand_query")


@command(
    "tool",
    examples=(
        """tool lcm_grep '{"pattern": "retry"}'""",
        """tool lcm_expand_query '{"query": "lease", "prompt": "Why?"}'""",
    ),
)
@click.argument("name", type=TOOLS, metavar="TOOL", help=f"One of {', '.join(TOOLS.words)}.")
@click.argument("parameters", type=Raw(), metavar="PARAMS_JSON", help="Its parameters, as one JSON object.")
@click.option("--session-key", type=StoredText(), metavar="KEY", help="The key of the calling session.")
@click.option("--session-id", type=StoredText(), metavar="ID", help="The id of the calling session.")
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
    from lcm_recall.queries import recall_settings
    from lcm_recall.tools import RecallTools

    from lcm_tui.cli.asking import agreed_model
    from lcm_tui.tables.blocks import Prose

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
    from lcm_core.base.javascript import read_json

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


# -- mcp ------------------------------------------------------------------------------------------------
# ``mcp``: the memory as a server for other agents.


@command("mcp", examples=("mcp --db ~/.openclaw/lcm.db", "mcp --session-key agent:main:main"))
@click.option(
    "--conversation-id",
    type=options.CONVERSATION,
    metavar="ID",
    multiple=True,
    help="Only this conversation; may be given several times.",
)
@click.option(
    "--session-key",
    type=StoredText(empty=False),
    metavar="KEY",
    multiple=True,
    help="Only the conversations of this session; may be given several times.",
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
    import asyncio
    import gc
    import os
    import signal
    import sys

    from lcm_core.base.errors import ConfigurationError, ExitCode, UsageError

    from lcm_tui.cli.presentation import exit_code
    from lcm_tui.mcp.scope import Allowed

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
