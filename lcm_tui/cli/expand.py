"""``expand``: from a summary down to what was said."""

from __future__ import annotations

from lcm_core.base.javascript import JsonObject
from lcm_core.base.records import SummaryId
from lcm_core.base.values import to_json
from lcm_core.store.database import Reader
from lcm_core.store.listing import whole_id
from lcm_core.store.search import RecalledRows
from lcm_recall.engine_tools import Expansions, expand_all, expansion_text
from lcm_recall.queries import recall_settings
from lcm_recall.read import DEFAULT_TOKENS, Level, Page, levels_below, read_below
from lcm_recall.results import ReadPage

from lcm_tui.cli import options
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.command import command, flag, option
from lcm_tui.cli.documents import some_of
from lcm_tui.cli.kinds import Tokens, WholeNumber, invalid
from lcm_tui.cli.recall import id_argument, passage_title
from lcm_tui.tables.blocks import Facts, Note, Prose, list_table
from lcm_tui.tables.blocks import OutputBlock as Block
from lcm_tui.tables.search import LEVEL_COLUMNS

_MAX_TOKENS = 1_000_000
#: No summary is so far above its messages.
_MAX_LEVEL = 1_000_000
_ALL = -1


@command(
    "expand",
    examples=(
        "expand sum_4c4bd5292abfa225 --budget 2k",
        "expand sum_4c4bd5292abfa225 --level all",
        "expand sum_4c4bd5292abfa225 --level 1",
    ),
)
@id_argument
@option(
    "--budget",
    Tokens(1, _MAX_TOKENS),
    "TOKENS",
    f"Tokens of a page; {DEFAULT_TOKENS:,} by default.",
    into="tokens",
    default=DEFAULT_TOKENS,
)
@options.cursor
@flag("--no-messages", "Only summaries, without the messages below.")
@option(
    "--level",
    WholeNumber(0, _MAX_LEVEL, all=_ALL),
    "N|all",
    "Only the texts of this level: 0 is the summary itself. all: what each level has and its tokens, no "
    "texts.",
)
@flag("--as-engine", "Answer as the engine's own tool does to a sub-agent.")
def expand(
    run: Run,
    *,
    name: str,
    tokens: int,
    cursor: str | None,
    no_messages: bool,
    level: int | None,
    as_engine: bool,
) -> Answer:
    """Read down from a summary to its messages with their tool calls, page by page, with citations."""
    named = {"--level": level is not None, "--as-engine": as_engine}
    chosen = [option for option, given in named.items() if given]
    if len(chosen) > 1:
        raise invalid(chosen[0].removeprefix("--"), f"cannot be combined with {chosen[1]}")
    if as_engine and cursor:
        raise invalid("cursor", "cannot be combined with --as-engine: its tool has no pages")
    if chosen and no_messages and not as_engine:
        raise invalid("no-messages", f"cannot be combined with {chosen[0]}")
    if level == _ALL:
        return _levels(run, name)
    if as_engine:
        return _as_engine(run, name, tokens, with_messages=not no_messages)
    settings = recall_settings(run.settings)

    async def load(reader: Reader) -> tuple[str, Page]:
        whole = await whole_id(reader, name)
        return whole, await reader.run(
            read_below,
            reader.schema,
            whole,
            settings,
            tokens=tokens,
            cursor=cursor,
            with_messages=not no_messages,
            level=level,
        )

    name, page = run.read(load)
    data = to_json(ReadPage(name, page.tokens, page.passages, page.next))
    blocks: list[Block] = [Prose(one.text, title=passage_title(run, one)) for one in page.passages]
    if not page.passages:
        blocks.append(Note("Nothing fits: give a larger --budget."))
    blocks.append(Facts([("Tokens", f"~{page.tokens:,} of {tokens:,}")]))
    if page.next is not None:
        blocks.append(Note(f"More follows: --cursor {page.next}"))
    return run.answer("expand", data, blocks)


def _levels(run: Run, name: str) -> Answer:
    """What is below a summary level by level, and what each level costs."""

    async def load(reader: Reader) -> tuple[str, tuple[Level, ...]]:
        whole = await whole_id(reader, name)
        return whole, await reader.run(levels_below, reader.schema, whole)

    whole, levels = run.read(load)
    names = "number summaries messages missing tokens tokens_to_here"
    data: JsonObject = {"id": whole.partition("@")[0], "levels": [some_of(one, names) for one in levels]}
    return run.answer("expand", data, [list_table(LEVEL_COLUMNS, levels, run.time)])


def _as_engine(run: Run, name: str, tokens: int, *, with_messages: bool) -> Answer:
    """What the engine gives a sub-agent that may read *tokens* of it: ids and sizes, no texts of messages."""

    async def load(reader: Reader) -> Expansions:
        return await reader.run(
            lambda rows: expand_all(
                RecalledRows(rows, reader.schema),
                [SummaryId(name)],
                include_messages=with_messages,
                cap=tokens,
            )
        )

    found = run.read(load)
    text = expansion_text(found)
    return run.answer("expand", {"text": text, "details": found.document}, [Prose(text)])
