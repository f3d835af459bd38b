"""The memory as programs ask it: functions over an open `Database` (docs/python.md, "Searching").

*settings* are those of the operator; None: the defaults, with ``lcm-files`` beside the database.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Concatenate, ParamSpec, TypeVar

from lcm_core.base.engine_settings import EngineSettings
from lcm_core.base.errors import UsageError
from lcm_core.base.records import ConversationId, SummaryId
from lcm_core.base.settings import Settings
from lcm_core.store.database import Database, Reader
from lcm_core.store.opening import Rows
from lcm_core.store.schema import Schema
from lcm_core.store.search import Filter
from lcm_core.writers.cost import Model

from lcm_recall.ask import Asked, AskLimits, Inquiry
from lcm_recall.queries import RecallSettings, engine_recall, recall_settings
from lcm_recall.read import Level, Page, Verdict, levels_below, read_below
from lcm_recall.read import verify as look_up
from lcm_recall.search import Found
from lcm_recall.search import search as find
from lcm_recall.terms import parse

P = ParamSpec("P")
T = TypeVar("T")


async def search(
    database: Database,
    query: str,
    *,
    conversations: Collection[ConversationId] | None = None,
    limit: int = 20,
    offset: int = 0,
    settings: Settings | None = None,
) -> Found:
    """Search messages with their tool calls, summaries, focus briefs and large files.

    A hit contains every word of *query* (docs/spec/searching.md, "Queries"); the result says what was
    searched. *conversations*: only these; None: all. A page has *limit* hits and begins with hit *offset*.

    Raises:
        UsageError: the query is empty or too long, *limit* is less than 1, or *offset* less than 0.
    """
    if limit < 1 or offset < 0:
        raise UsageError("A page has at least 1 hit, and begins with number 0 or a later one.")
    asked, recalling = parse(query), _settings(database, settings)
    wanted = Filter(None if conversations is None else tuple(conversations))
    return await _read(database, find, asked, wanted, recalling, limit=limit, offset=offset)


async def expand(
    database: Database,
    name: str,
    *,
    tokens: int = 4_000,
    cursor: str | None = None,
    level: int | None = None,
    conversations: Collection[ConversationId] | None = None,
    settings: Settings | None = None,
) -> Page:
    """Expand a summary, message, brief or file: a page of *tokens*, each passage with a citation.

    *cursor*: from the previous page. *level*: only the texts of this level of a summary, as `levels`
    numbers them; None: all of them. *conversations*: read only these; None: all.

    Raises:
        NotFoundError: the id or the level does not exist.
        UsageError: the cursor is not valid.
    """
    return await _read(
        database,
        read_below,
        name,
        _settings(database, settings),
        tokens=tokens,
        cursor=cursor,
        level=level,
        within=conversations,
    )


async def levels(
    database: Database, summary_id: SummaryId, *, conversations: Collection[ConversationId] | None = None
) -> tuple[Level, ...]:
    """The levels below a summary, without texts (docs/spec/searching.md, "Level by level").

    Level 0 is the summary itself. *conversations*: rows of others count as missing; None: all count.

    Raises:
        NotFoundError: the summary does not exist.
    """
    return await _read(database, levels_below, summary_id, conversations)


async def verify(database: Database, citation: str, *, settings: Settings | None = None) -> Verdict:
    """Check whether the text of a citation is still what was read (docs/spec/searching.md, "Citations").

    Raises:
        UsageError: it is not a citation.
    """
    return (await _read(database, look_up, citation, _settings(database, settings)))[0]


async def ask(
    database: Database,
    question: str,
    model: Model | None = None,
    *,
    conversations: Collection[ConversationId] | None = None,
    limits: AskLimits | None = None,
    settings: Settings | None = None,
) -> Asked:
    """The evidence for a question, and the answer of a *model* from it; None: no model is called.

    The model receives passages of the database and may request more, within *conversations* (None: all)
    and *limits*. Its citations are checked. If it gives no answer, ``failed`` of the result says why, and
    the evidence remains (docs/spec/searching.md, "Asking"). `named_model` makes a model from the settings.
    """
    within = None if conversations is None else tuple(conversations)
    inquiry = Inquiry(database, _settings(database, settings), question, limits or AskLimits(), within)
    await inquiry.gather(for_model=model is not None)
    return inquiry.evidence if model is None else await inquiry.ask(model)


async def _read(
    database: Database, load: Callable[Concatenate[Rows, Schema, P], T], *args: P.args, **kwargs: P.kwargs
) -> T:
    async def loaded(reader: Reader) -> T:
        return await reader.run(load, reader.schema, *args, **kwargs)

    return await database.read(loaded)


def _settings(database: Database, settings: Settings | None) -> RecallSettings:
    if settings is not None:
        return recall_settings(settings)
    folder = database.path.parent
    return engine_recall(EngineSettings(), folder / "lcm-files", folder)
