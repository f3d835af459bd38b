"""What is wrong with the contexts and the DAG of a whole database, worked out in plain sets.

Slow and simple on purpose, and written without the code under test: it tells that code when it is wrong.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.databases import connect


class Whole:
    """All rows that structure needs."""

    def __init__(self, path: Path) -> None:
        with connect(path) as connection:
            ask = connection.execute
            self.messages = dict(ask("SELECT message_id, conversation_id FROM messages"))
            self.seq = dict(ask("SELECT message_id, seq FROM messages"))
            self.summaries = {row[0]: row[1:] for row in ask(
                "SELECT summary_id, conversation_id, kind, depth FROM summaries"
            )}  # fmt: skip
            self.links = ask("SELECT summary_id, message_id FROM summary_messages").fetchall()
            self.edges = ask("SELECT summary_id, parent_summary_id FROM summary_parents").fetchall()
            self.contexts: dict[int, list[tuple[int, int | str]]] = {}
            for owner, ordinal, message, summary in ask(
                "SELECT conversation_id, ordinal, message_id, summary_id FROM context_items ORDER BY 1, 2"
            ):
                self.contexts.setdefault(owner, []).append((ordinal, message if summary is None else summary))
            self.parts = {row[0] for row in ask("SELECT DISTINCT message_id FROM message_parts")}
        self.made_from: dict[str, set[int | str]] = {}
        self.made_into: dict[int | str, set[str]] = {}
        for consumer, source in (*self.links, *self.edges):
            self.made_from.setdefault(consumer, set()).add(source)
            self.made_into.setdefault(source, set()).add(consumer)

    def below(self, ref: int | str) -> set[int | str]:
        """Everything that something was made from."""
        found: set[int | str] = set()
        waiting = [ref]
        while waiting:
            for source in self.made_from.get(str(waiting.pop()), ()):
                if source not in found:
                    found.add(source)
                    waiting.append(source)
        return found

    def errors(self) -> set[str]:
        """Everything that the engine never leaves so."""
        found = {f"part of no message {one}" for one in self.parts - self.messages.keys()}
        for owner, items in self.contexts.items():
            found |= self._context(owner, items)
        found |= {f"link of {s} to no message {m}" for s, m in self.links if m not in self.messages}
        found |= {f"link of no summary {s}" for s, _ in self.links if s not in self.summaries}
        for consumer, source in self.edges:
            if consumer not in self.summaries or source not in self.summaries:
                found.add(f"edge {consumer} {source} hangs")
            elif self.summaries[consumer][0] != self.summaries[source][0]:
                found.add(f"edge {consumer} {source} joins conversations")
            elif self.summaries[consumer][2] <= self.summaries[source][2]:
                found.add(f"edge {consumer} {source} is inverted")
        for summary, (_, kind, depth) in self.summaries.items():
            sources = {type(one) for one in self.made_from.get(summary, ())}
            if sources != ({int} if kind == "leaf" else {str}):
                found.add(f"{kind} {summary} is made from {sources}")
            if (kind == "leaf") != (depth == 0):
                found.add(f"{kind} {summary} has depth {depth}")
            if summary in self.below(summary):
                found.add(f"{summary} is part of a cycle")
        return found

    def _context(self, owner: int, items: list[tuple[int, int | str]]) -> set[str]:
        refs = Counter(ref for _, ref in items)
        found = {f"{ref} stands {count} times in {owner}" for ref, count in refs.items() if count > 1}
        found |= {f"ordinal {ordinal} in {owner}" for ordinal, _ in items if not 0 <= ordinal < 10_000_000}
        for ref in refs:
            row = self.messages.get(ref) if isinstance(ref, int) else self.summaries.get(ref, (None,))[0]
            if row != owner:
                found.add(f"{ref} in {owner} belongs to {row}")
            found |= {f"{ref} and {one} are both in {owner}" for one in self.below(ref) & refs.keys()}
        return found

    def uncovered(self) -> set[int | str]:
        """Messages and summaries that no context covers."""
        covered: set[int | str] = set()
        for items in self.contexts.values():
            for _, ref in items:
                covered |= {ref} | self.below(ref)
        return (self.messages.keys() | self.summaries.keys()) - covered

    def disorder(self) -> list[tuple[int, int]]:
        """Ordinals of contexts where something older stands behind something newer."""
        found = []
        for owner, items in self.contexts.items():
            last = -1
            for ordinal, ref in items:
                seqs = [self.seq[one] for one in {ref} | self.below(ref) if one in self.seq]
                if seqs and min(seqs) < last:
                    found.append((owner, ordinal))
                last = max([last, *seqs])
        return found
