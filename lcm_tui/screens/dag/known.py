"""What the summary tree knows so far: the context's references, rows as they come into sight, then all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lcm_core.dag.graph import SummaryGraph
from lcm_core.records import ConversationId, MessageId, SummaryId
from lcm_core.store.lineage import ContextSummary, SourceMessage, TreeOpening
from lcm_core.store.summaries import SummaryEntry
from lcm_core.text import fold, sought_as

from lcm_tui.screens.dag.tree import Place, Section, Step, Way
from lcm_tui.views.message import message_name
from lcm_tui.views.summary import badge_of


@dataclass(frozen=True, slots=True)
class Survey:
    """The whole graph, and where everything in it stands first."""

    graph: SummaryGraph
    sections: Mapping[Section, tuple[SummaryId, ...]]  #: those that are not empty
    visits: Mapping[
        SummaryId, SummaryId | None
    ]  #: in the order of a wholly unfolded tree, with the way there
    ranks: Mapping[SummaryId, int]
    fingerprint: str = ""  #: of the rows that the graph was made from


def survey(graph: SummaryGraph, fingerprint: str = "") -> Survey:
    """Walk the whole graph once; for a thread, it takes as long as the graph is large."""
    sections = {
        Section.ORPHANS: graph.orphans,
        Section.CYCLES: graph.cycle_heads,
        Section.DANGLING: graph.dangling,
    }
    visits = graph.first_visits((*graph.roots, *(node for nodes in sections.values() for node in nodes)))
    ranks = {node: rank for rank, node in enumerate(visits)}
    shown = {name: nodes for name, nodes in sections.items() if nodes}
    return Survey(graph, shown, visits, ranks, fingerprint)


@dataclass(frozen=True, slots=True)
class Match:
    """Something that a search found: a summary, or a message under a leaf."""

    summary_id: SummaryId
    message: int | None = None  #: place among the leaf's messages


class Known:
    """Everything read of one conversation's tree."""

    def __init__(self, conversation_id: ConversationId) -> None:
        self.conversation_id = conversation_id
        self.roots: tuple[SummaryId, ...] = ()
        self.ordinals: dict[SummaryId, tuple[int, ...]] = {}
        self.survey: Survey | None = None
        self.entries: dict[SummaryId, SummaryEntry] = {}
        self.gone: set[SummaryId] = set()  #: asked for, and no row has this id
        self.messages: dict[SummaryId, dict[MessageId, SourceMessage]] = {}  #: in the order of the chunk
        self._sources: dict[SummaryId, tuple[SummaryId, ...]] = {}
        self._old_entries: set[SummaryId] = set()  #: read before the file changed
        self._old_messages: set[SummaryId] = set()

    # -- learning ----------------------------------------------------------------------------------------

    def grow_old(self) -> None:
        """The file has changed: what was read is shown on, and read again when it comes into sight."""
        self._old_entries = {*self.entries, *self.gone}
        self.messages = {leaf: found for leaf, found in self.messages.items() if found}
        self._old_messages = set(self.messages)

    def learn_context(self, context: Sequence[ContextSummary]) -> None:
        """Take the references of the context: roots, newest first, and ordinals."""
        ordinals: dict[SummaryId, tuple[int, ...]] = {}
        for held in context:
            ordinals[held.summary_id] = (*ordinals.get(held.summary_id, ()), held.ordinal)
        self.ordinals = ordinals
        if self.survey is None:
            self.roots = tuple(
                dict.fromkeys(
                    held.summary_id for held in reversed(context) if held.present and not held.consumed
                )
            )

    def learn_opening(self, opening: TreeOpening) -> None:
        """Take the first rows and the sources of what is unfolded."""
        self.learn_context(opening.context)
        self.learn_sources(opening.sources)

    def learn_survey(self, found: Survey) -> None:
        """Take the whole graph; from now on it says what stands where."""
        self.survey = found
        self.roots = found.graph.roots
        self._sources.clear()
        self.gone = {summary_id for summary_id in self.gone if summary_id not in found.graph.nodes}

    def learn_sources(self, sources: Mapping[SummaryId, tuple[SummaryId, ...]]) -> None:
        """Take the sources of some summaries, read one by one."""
        if self.survey is None:
            self._sources.update(sources)

    def learn_messages(self, messages: Mapping[SummaryId, Sequence[SourceMessage]]) -> bool:
        """Take the messages of some leaves; returns whether any differs from what was known."""
        changed = False
        for leaf, found in messages.items():
            held = {message.message_id: message for message in found}
            changed |= self.messages.get(leaf, {}) != held
            self.messages[leaf] = held
            self._old_messages.discard(leaf)
        return changed

    def learn_entries(self, asked: Iterable[SummaryId], entries: Iterable[SummaryEntry]) -> set[SummaryId]:
        """Take rows that were asked for; returns those that differ from what was known."""
        found = {entry.summary.summary_id: entry for entry in entries}
        changed: set[SummaryId] = set()
        for summary_id in asked:
            self._old_entries.discard(summary_id)
            entry = found.get(summary_id)
            if entry is None:
                changed |= {summary_id} - self.gone
                self.gone.add(summary_id)
                self.entries.pop(summary_id, None)
            else:
                if self.entries.get(summary_id) != entry:
                    changed.add(summary_id)
                self.entries[summary_id] = entry
                self.gone.discard(summary_id)
        return changed

    # -- the shape of the tree ---------------------------------------------------------------------------

    @property
    def ids(self) -> set[SummaryId]:
        """Every summary that is known to be there."""
        return set(self.survey.graph.nodes) if self.survey else set(self.ordinals)

    @property
    def tops(self) -> list[Step]:
        """What stands at the left margin: roots, then headings."""
        return [*self.roots, *(self.survey.sections if self.survey else ())]

    def sources(self, summary_id: SummaryId) -> tuple[SummaryId, ...]:
        """The sources of a summary, as far as they are known."""
        return self.edges.get(summary_id, ())

    @property
    def edges(self) -> Mapping[SummaryId, tuple[SummaryId, ...]]:
        """The sources of every summary that is known to have some."""
        return self.survey.graph.sources if self.survey else self._sources

    def below(self, step: Step) -> Sequence[Step]:
        """What is known to stand right below a step: sources, then messages."""
        if isinstance(step, Section):
            return self.survey.sections.get(step, ()) if self.survey else ()
        if not isinstance(step, str):
            return ()
        messages = self.messages.get(step)
        sources = self.sources(step)
        return [*sources, *messages] if messages else sources

    def is_leaf(self, summary_id: SummaryId) -> bool | None:
        """Whether a summary was made from messages; None: not known yet."""
        node = self.survey.graph.nodes.get(summary_id) if self.survey else None
        if node is not None:
            return node.kind == "leaf"
        entry = self.entries.get(summary_id)
        return None if entry is None else entry.summary.kind == "leaf"

    def can_unfold(self, step: Step) -> bool:
        """Whether something stands below a step, or may do so before it has been read."""
        if not isinstance(step, str):
            return isinstance(step, Section)
        if step in self.gone:
            return bool(self.sources(step))
        entry = self.entries.get(step)
        if entry is not None:
            return bool(entry.source_summaries or entry.source_messages)
        return bool(self.survey is None or self.sources(step) or self.is_leaf(step) is not False)

    def unread_entry(self, summary_id: SummaryId) -> bool:
        """Whether the row of a summary must be read, for the first time or again."""
        known = summary_id in self.entries or summary_id in self.gone
        return not known or summary_id in self._old_entries

    def unread_sources(self, summary_id: SummaryId) -> bool:
        """Whether the sources of a summary must be read before it can be unfolded."""
        return self.survey is None and summary_id not in self._sources

    def unread_messages(self, summary_id: SummaryId) -> bool:
        """Whether a summary has messages that have not been read; only leaves should have any (B8)."""
        if summary_id in self._old_messages:
            return True
        if summary_id in self.messages or summary_id in self.gone:
            return False
        entry = self.entries.get(summary_id)
        return entry.source_messages > 0 if entry is not None else self.is_leaf(summary_id) is not False

    def message_of(self, place: Place) -> SourceMessage | None:
        """The message that a place stands for."""
        leaf = place.above.step if place.above is not None else None
        if not isinstance(place.step, int) or not isinstance(leaf, str):
            return None
        return self.messages.get(leaf, {}).get(place.step)

    # -- where a summary stands --------------------------------------------------------------------------

    def places(self, summary_id: SummaryId) -> int:
        """Under how many consumers a summary stands; 1 for a root."""
        if self.survey is not None:
            return max(1, len(self.survey.graph.consumers.get(summary_id, ())))
        entry = self.entries.get(summary_id)
        return max(1, len(entry.consumers)) if entry is not None else 1

    def path_to(self, summary_id: SummaryId) -> Way | None:
        """The way to where a summary stands first; None when it does not, or that is not known yet."""
        if self.survey is None:
            return (summary_id,) if summary_id in self.roots else None
        if summary_id not in self.survey.visits:
            return None
        way: list[Step] = [summary_id]
        at = summary_id
        while (consumer := self.survey.visits[at]) is not None:
            way.append(consumer)
            at = consumer
        if at not in self.roots:
            way += [name for name, nodes in self.survey.sections.items() if at in nodes][:1]
        return tuple(reversed(way))

    def elsewhere(self, place: Place) -> Way | None:
        """The next way to the same summary: the nearest one on the way here goes under its next consumer."""
        if self.survey is None:
            return None
        tail: list[Step] = []
        for found in place.upward():
            if found.step is None or isinstance(found.step, Section):
                return None
            tail.append(found.step)
            consumers = self.survey.graph.consumers.get(found.step, ()) if isinstance(found.step, str) else ()
            if len(consumers) < 2:
                continue
            above = found.above.step if found.above is not None else None
            start = consumers.index(above) + 1 if isinstance(above, str) and above in consumers else 0
            for step in range(len(consumers)):
                consumer = consumers[(start + step) % len(consumers)]
                way = self.path_to(consumer)
                # Below itself a summary stands again without end; that is the cycle's mark, not a place.
                if consumer != above and way is not None and found.step not in way:
                    return (*way, *reversed(tail))
        return None

    # -- searching ---------------------------------------------------------------------------------------

    def matches(self, needle: str) -> list[Match]:
        """What holds *needle*, in any spelling, in what has been read."""
        sought = sought_as(needle)
        ids = self.survey.visits if self.survey else self.entries
        found = [Match(name) for name in ids if sought in fold(name) or self._says(name, sought)]
        for leaf, messages in self.messages.items():
            found += [
                Match(leaf, place)
                for place, message in enumerate(messages.values())
                if sought in fold(f"{message.preview}\0{_words(message)}")
            ]
        return found

    def _says(self, summary_id: SummaryId, sought: str) -> bool:
        entry = self.entries.get(summary_id)
        if entry is None:
            return False
        summary = entry.summary
        badge = badge_of(summary.kind, summary.depth)
        return sought in fold(f"{entry.preview}\0{badge}\0{entry.broken or ''}\0{summary.model or ''}")

    def rank(self, match: Match) -> tuple[int, int]:
        """Where a match stands in the wholly unfolded tree."""
        last = len(self.survey.ranks) if self.survey else 0
        rank = self.survey.ranks.get(match.summary_id, last) if self.survey else last
        return (rank, 0 if match.message is None else match.message + 1)


def _words(message: SourceMessage) -> str:
    found = message.message
    name = message_name(message.message_id, None if found is None else found.seq)
    return name if found is None else f"{name} {found.role}"
