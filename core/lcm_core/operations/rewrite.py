"""Another text for a summary: the row itself, and what follows from it for every consumer above.

The text comes from a draft (`lcm_core.operations.drafting`) that was made without any lock. It is committed
only over the text, and from the sources, that the draft was made from.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence

from lcm_core.base.errors import RefusedError
from lcm_core.base.records import ConversationId, SummaryId
from lcm_core.base.text import BLANKS, counted, phrase
from lcm_core.base.tokens import estimate
from lcm_core.base.values import Record, field, replace
from lcm_core.change.journal import edits_of, get
from lcm_core.change.plan import Moved, Plan, StalePlanError, Symbol, shown_apart
from lcm_core.checks.summaries import file_ids as ids_in
from lcm_core.checks.summaries import known_files
from lcm_core.engine.graph import SummaryGraph
from lcm_core.engine.rules import SourceRules
from lcm_core.operations.compact_pass import files_of_source
from lcm_core.operations.drafting import DraftBase, Material, read_material
from lcm_core.operations.rows import no_such_summary, recorded_files, sources_of, updates
from lcm_core.operations.stale import rewritten
from lcm_core.store import summaries as summary_store
from lcm_core.store.database import Reader
from lcm_core.store.opening import SqlValue
from lcm_core.store.rows import StoredRow, columns_by
from lcm_core.writers.request import storable
from lcm_core.writers.source import Rendering


class ChangedMeanwhileError(StalePlanError):
    """A summary is not what it was when the draft was made; a screen shows all three texts."""

    default_code = "STALE_DRAFT"
    advice = "compare the texts and edit or draft again"

    def __init__(self, summary_id: SummaryId, base: str, theirs: str, ours: str) -> None:
        super().__init__([Moved(f"summaries {summary_id}: content", *shown_apart(base, theirs))])
        self.summary_id = summary_id
        self.base = base  #: what the draft was made over
        self.theirs = theirs  #: what is there now
        self.ours = ours  #: the draft


class SourceChangedError(StalePlanError):
    """What a summary is made from is not what the draft was made from: draft again."""

    default_code = "STALE_SOURCE"
    advice = "draft again"

    def __init__(self, summary_id: SummaryId) -> None:
        super().__init__([Moved(f"what summary {summary_id} is made from", "another text", "changed")])
        self.summary_id = summary_id


async def plan_rewrite(
    reader: Reader,
    conversation_id: ConversationId,
    summary_id: SummaryId,
    text: str,
    *,
    model: str,
    rendering: Rendering,
    base: DraftBase | None = None,
    kind: str = "rewrite",
    batch: str | None = None,
) -> Plan:
    """Give a summary another text.

    Content, tokens, model (where recorded) and file ids of the row change, and the counters and file ids of
    every consumer above that follow from them. A counter that was wrong before stays as it is, and the plan
    says so. *base* is what the draft was made from; *kind* is ``rewrite`` or ``repair``.

    Raises:
        NotFoundError: the conversation has no such summary.
        ChangedMeanwhileError: its text is no longer that of *base*.
        SourceChangedError: its sources are no longer those of *base*.
        RefusedError: the text is blank, or is there already.
    """
    text = storable(text)
    material = await _material(reader, conversation_id, summary_id, rendering)
    before = material.base.content
    if base is not None and before != base.content:
        raise ChangedMeanwhileError(summary_id, base.content, before, text)
    if base is not None and not material.is_source_of(base):
        raise SourceChangedError(summary_id)
    if not text.strip(BLANKS):
        raise RefusedError(f"An empty text is not a summary: {summary_id} is not changed.", code="EMPTY_TEXT")
    if text == before:
        raise RefusedError(f"Summary {summary_id} already has exactly this text.", code="SAME_TEXT")
    tokens = estimate(text, rendering.rules.estimator)
    known = await known_files(reader)
    listed, added = _listed(material, known, rendering.rules.source)
    values: dict[str, SqlValue] = {"content": text, "token_count": tokens, "model": model}
    if added:
        values["file_ids"] = json.dumps(listed, separators=(",", ":"), ensure_ascii=False)
    fresh = [*added, *(one for one in ids_in(text) if one in known)]
    return replace(await _plan(reader, material, values, fresh, kind), batch=batch)


async def plan_restore(reader: Reader, operation_id: str, *, rendering: Rendering) -> Plan:
    """Give a summary back the text that it had before a rewrite or repair, whatever came after it elsewhere.

    Undo brings back rows, and refuses when the counters above have changed since, as they do with every other
    rewrite below them; this follows the present rows upward, as a rewrite does. Kind ``restore``.

    Raises:
        NotFoundError: the history has no such operation, or the summary is gone.
        ChangedMeanwhileError: the text is no longer what the operation wrote.
        RefusedError: the operation rewrote no summary.
    """
    operation = await reader.run(get, operation_id)
    texts = list(rewritten(await reader.run(edits_of, operation)))
    if len(texts) != 1 or operation.conversation_id is None:
        raise RefusedError(f"Operation {operation_id} ({operation.title}) did not rewrite one summary.")
    [(summary_id, before, after)] = texts
    owner = ConversationId(operation.conversation_id)
    material = await _material(reader, owner, summary_id, rendering)
    if material.base.content != after["content"]:
        written, wanted = str(after["content"]), str(before["content"])
        raise ChangedMeanwhileError(summary_id, written, material.base.content, wanted)
    values = {name: value for name, value in before.values if not isinstance(value, Symbol)}
    return await _plan(reader, material, values, (), "restore")


async def _material(
    reader: Reader, conversation_id: ConversationId, summary_id: SummaryId, rendering: Rendering
) -> Material:
    material = await read_material(reader, summary_id, rendering)
    if material.summary.conversation_id != conversation_id:
        raise no_such_summary(conversation_id, summary_id)
    return material


async def _plan(
    reader: Reader, material: Material, values: Mapping[str, SqlValue], files: Sequence[str], kind: str
) -> Plan:
    """Other values in the row of a summary, and what follows; *files* are what it lists or names anew."""
    summary_id, before = material.summary.summary_id, material.summary.tokens
    found = values.get("token_count", before)
    tokens = found if isinstance(found, int) else before
    edits = await updates(reader, "summaries", "summary_id", {summary_id: values})
    above = await _above(reader, summary_id)
    followed = above.follow(summary_id, tokens - before, files)
    edits += await updates(reader, "summaries", "summary_id", followed)
    return Plan(
        kind=kind,
        title=_title(kind, material, tokens),
        conversation_id=material.summary.conversation_id,
        edits=tuple(edits),
        warnings=tuple(above.warnings(summary_id)),
        select=summary_id,
    )


def _title(kind: str, material: Material, tokens: int) -> str:
    summary = material.summary
    what = "leaf" if summary.kind == "leaf" else f"condensed, depth {summary.depth}"
    return f"{kind.capitalize()} {summary.summary_id} ({what}): {summary.tokens:,} to {tokens:,} tokens"


def _listed(material: Material, known: Collection[str], rules: SourceRules) -> tuple[list[str], list[str]]:
    """The files of a summary as they are to be listed, and those of them that are not yet.

    None is lost, and none is added that only a text names and the database does not know.
    """
    held = recorded_files(material.summary.file_ids)
    added = [one for one in files_of_source(material.source, rules) if one in known and one not in held]
    return [*held, *added], added


# -- what follows above ----------------------------------------------------------------------------------


class _Above(Record, frozen=True):
    """Everything that was made from a summary, directly or not, as it is now."""

    consumers: Sequence[SummaryId]  #: sources before their consumers
    sources: Mapping[SummaryId, Sequence[SummaryId]]
    rows: Mapping[SqlValue, StoredRow]
    wrong: list[SummaryId] = field(default_factory=list)

    def follow(
        self, summary_id: SummaryId, grown: int, files: Iterable[str]
    ) -> dict[SqlValue, Mapping[str, SqlValue]]:
        """The columns that follow when *summary_id* has *grown* by some tokens and names more *files*."""
        wanted: dict[SqlValue, Mapping[str, SqlValue]] = {}
        growth = {summary_id: grown}
        named = {summary_id: list(dict.fromkeys(files))}
        for consumer in self.consumers:
            changed: dict[str, SqlValue] = {}
            below = sum(growth.get(source, 0) for source in self.sources[consumer])
            stored = self.rows.get(consumer, {}).get("descendant_token_count")
            if below and isinstance(stored, int):
                if stored == self._counted(consumer):
                    changed["descendant_token_count"] = stored + below
                    growth[consumer] = below
                else:
                    self.wrong.append(consumer)
            more = self._more_files(consumer, named)
            if more:
                named[consumer] = more
                changed["file_ids"] = json.dumps(
                    [*self._files(consumer), *more], separators=(",", ":"), ensure_ascii=False
                )
            if changed:
                wanted[consumer] = changed
        return wanted

    def _counted(self, consumer: SummaryId) -> int | None:
        """What the counter has to say (docs/spec/format.md, "Numbers beside a summary"); None: unknown."""
        count = 0
        for source in self.sources[consumer]:
            row = self.rows.get(source, {})
            tokens, below = row.get("token_count"), row.get("descendant_token_count")
            if not isinstance(tokens, int) or not isinstance(below, int):
                return None
            count += tokens + below
        return count

    def _files(self, consumer: SummaryId) -> list[str]:
        return recorded_files(self.rows.get(consumer, {}).get("file_ids"))

    def _more_files(self, consumer: SummaryId, named: Mapping[SummaryId, Sequence[str]]) -> list[str]:
        if not isinstance(self.rows.get(consumer, {}).get("file_ids"), str):
            return []
        held = set(self._files(consumer))
        coming = dict.fromkeys(one for source in self.sources[consumer] for one in named.get(source, ()))
        return [one for one in coming if one not in held]

    def warnings(self, summary_id: SummaryId) -> Iterable[str]:
        """What the operator should know of the consumers."""
        direct = sum(summary_id in self.sources[one] for one in self.consumers)
        if direct:
            yield f"{phrase(direct, 'summary', None, 'depend on the old text and will be marked stale')}"
        if self.wrong:
            yield (
                f"the token counter of {counted(len(self.wrong), 'consumer')} was wrong before and is not "
                "changed: `lcm-tui doctor` fixes it (D3)"
            )


async def _above(reader: Reader, summary_id: SummaryId) -> _Above:
    edges = await summary_store.edges_above(reader, [summary_id])
    consumers = {edge.consumer for edge in edges} - {summary_id}
    sources = await sources_of(reader, consumers)
    graph = SummaryGraph.build((), edges, ())
    ordered = [one for one in graph.bottom_up(*sorted(consumers)) if one in sources]
    everyone = {summary_id, *consumers, *(one for found in sources.values() for one in found)}
    columns = ("token_count", "descendant_token_count", "file_ids")
    rows = await columns_by(reader, "summaries", "summary_id", everyone, columns)
    return _Above(ordered, sources, rows)
