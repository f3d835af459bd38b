"""What is made again from texts and parts: token counts, lists of files, columns of tool calls."""

from __future__ import annotations

import asyncio
import json
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lcm_core.assemble.rebuild import tokens_as_sent
from lcm_core.change.plan import Edit
from lcm_core.checks.proofs import descendant_tokens_of
from lcm_core.checks.structure import StoredNode, Structure
from lcm_core.checks.summaries import bodies_of, files_named, known_files
from lcm_core.checks.texts import file_ids
from lcm_core.checks.tools import tool_part
from lcm_core.engine_rules import engine_rules
from lcm_core.operations.fix.requests import Chosen
from lcm_core.operations.rows import pages, updates
from lcm_core.records import ConversationId, Message, MessageId, MessagePart, SummaryId
from lcm_core.store.connecting import SqlValue
from lcm_core.store.database import Reader
from lcm_core.store.messages import parts_without_call, whole_messages
from lcm_core.store.rows import columns_by
from lcm_core.tokens import (
    Estimator,
    Verdict,
    check_message_tokens,
    counted_text,
    estimate_utf16,
    estimate_weighted,
)

#: Texts of one batch.
_BATCH = 200
#: Stored counts may be this far from an estimate: another tool rounds down.
_TOLERANCE = 1


async def recounted(reader: Reader, structure: Structure, chosen: Chosen) -> tuple[Structure, list[int]]:
    """With the tokens counted again of what *chosen* names; and the messages that cannot be counted."""
    rules = engine_rules(reader.schema)
    counting = _Counting(structure, rules.estimator, rules.ingest.as_present)
    nodes = dict(structure.nodes)
    for batch in pages([one for one in nodes if one in chosen], _BATCH):
        for body in await bodies_of(reader, batch):
            node = nodes[body.summary_id]
            count = await asyncio.to_thread(counting.of_summary, node, body.content)
            nodes[body.summary_id] = replace(node, tokens=count)
    messages = structure.messages
    tokens, lost = array("q", messages.tokens), list[int]()
    for ids in pages([one for one in messages.ids if one in chosen], _BATCH):
        for one, parts in await whole_messages(reader, [MessageId(one) for one in ids]):
            counted = await asyncio.to_thread(counting.of_message, one, parts)
            if counted is None:
                lost.append(one.message_id)
            else:
                tokens[messages.position[one.message_id]] = counted
    return replace(structure, nodes=nodes, messages=replace(messages, tokens=tokens)), lost


@dataclass(frozen=True, slots=True)
class _Counting:
    """Counts texts as the engine of the file would, or as a sum above proves that one did.

    Source: docs/engine/ingest.md, "Tokens"; check D1 knows the same counts.
    """

    structure: Structure
    estimator: Estimator  #: of this file
    as_sent: bool  #: messages by what assembly would send: the present engine

    def of_summary(self, node: StoredNode, content: str) -> int:
        """The tokens of a summary; a count that either estimator gives stays."""
        estimates = self._estimates(content)
        if node.tokens >= 0 and _is_near(node.tokens, estimates):
            return node.tokens
        proven = set(self._proven_by_consumers(node)) & set(estimates)
        return proven.pop() if len(proven) == 1 else estimates[0]

    def of_message(self, one: Message, parts: Sequence[MessagePart]) -> int | None:
        """The tokens of a message; None when what they were counted from is not in the database."""
        stored = self.structure.messages.tokens[self.structure.messages.position[one.message_id]]
        metadata = [part.metadata for part in parts]
        if stored > 0 and check_message_tokens(stored, one.content, metadata).verdict is Verdict.FITS:
            return stored
        text = counted_text(one.role, one.content, metadata)
        if text is None:
            return None
        sent, estimates = tokens_as_sent(one, parts), self._estimates(text)
        estimates = (sent, *estimates) if self.as_sent else (*estimates, sent)
        if stored > 0 and _is_near(stored, estimates):
            return stored
        proven = set(self._proven_by_leaves(one.message_id)) & set(estimates)
        return proven.pop() if len(proven) == 1 else estimates[0]

    def _estimates(self, text: str) -> tuple[int, ...]:
        """By the estimator of this file's schema, then by the other."""
        found = estimate_weighted(text), estimate_utf16(text)
        return found if self.estimator is Estimator.WEIGHTED else found[::-1]

    def _proven_by_consumers(self, node: StoredNode) -> Iterator[int]:
        for consumer in map(
            self.structure.nodes.get, self.structure.graph.consumers.get(node.summary_id, ())
        ):
            if consumer is not None and consumer.descendant_tokens is not None:
                zeroed = replace(node, tokens=0)
                others = replace(self.structure, nodes={**self.structure.nodes, node.summary_id: zeroed})
                rest = descendant_tokens_of(others, consumer)
                if rest is not None:
                    yield consumer.descendant_tokens - rest

    def _proven_by_leaves(self, message_id: int) -> Iterator[int]:
        tokens, position = self.structure.messages.tokens, self.structure.messages.position
        for leaf, links in self.structure.links.items():
            if message_id not in links.message_ids:
                continue
            total = self.structure.nodes[leaf].source_tokens
            others = [position.get(one) for one in links.message_ids if one != message_id]
            if total is not None and all(place is not None for place in others):
                yield total - sum(tokens[place] for place in others if place is not None)


def _is_near(stored: int, estimates: Sequence[int]) -> bool:
    return min(abs(stored - one) for one in estimates) <= _TOLERANCE


async def relisted(reader: Reader, structure: Structure, chosen: Chosen) -> Mapping[SummaryId, str]:
    """The lists of file ids as they should be, of what *chosen* names and of what was made from it.

    Files that the database does not know are left out unless they were listed and the sources name them.
    """
    known = await known_files(reader)
    stored = await columns_by(reader, "summaries", "summary_id", structure.nodes, ("file_ids",))
    named: dict[SummaryId, list[str]] = {}
    for batch in pages(list(structure.nodes), _BATCH):
        for body in await bodies_of(reader, batch):
            named[body.summary_id] = file_ids(body.content)
    in_messages: dict[int, tuple[str, ...]] = {}
    after: SqlValue = -(2**63)
    while after is not None:
        found, after = await files_named(reader, structure.id, after)
        in_messages |= found
    lists = {one: _list_of(stored.get(one, {}).get("file_ids")) for one in structure.nodes}
    changed: dict[SummaryId, str] = {}
    touched: set[SummaryId] = set()
    for one in structure.graph.sources_first:
        edges = structure.edges.get(one, ())
        if one not in chosen and touched.isdisjoint(edge.source for edge in edges):
            continue
        inherited = dict.fromkeys(
            [file for message in _linked(structure, one) for file in in_messages.get(message, ())]
            + [
                file
                for edge in edges
                for file in (*(lists.get(edge.source) or ()), *named.get(edge.source, ()))
            ]
        )
        listed = lists[one] or []
        wanted = [file for file in listed if file in known or file in inherited]
        wanted += [file for file in inherited if file in known and file not in listed]
        if wanted != lists[one]:
            lists[one] = wanted
            changed[one] = json.dumps(wanted, ensure_ascii=False, separators=(",", ":"))
            touched.add(one)
    return changed


def _linked(structure: Structure, summary_id: SummaryId) -> Sequence[int]:
    links = structure.links.get(summary_id)
    return () if links is None else links.message_ids


def _list_of(stored: object) -> list[str] | None:
    """A stored list; None when it cannot be read."""
    text = stored.decode("utf-8", "replace") if isinstance(stored, bytes) else stored
    try:
        value = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return value
    return None


async def filled_tool_columns(reader: Reader, owner: ConversationId, chosen: Chosen) -> list[Edit]:
    """The tool call ids that only metadata holds, into their column; a column that holds something stays."""
    wanted: dict[SqlValue, Mapping[str, SqlValue]] = {}
    for part in await parts_without_call(reader, owner):
        tool = tool_part(part.role, part.part_type, None, part.metadata)
        if tool is not None and part.part_id in chosen:
            wanted[part.part_id] = {"tool_call_id": tool.call_id}
    return await updates(reader, "message_parts", "part_id", wanted)
