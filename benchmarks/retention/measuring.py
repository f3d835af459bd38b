"""The bars of docs/spec/retention.md, measured on generated texts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from lcm_core.writers.identifiers import people_checked
from lcm_core.writers.retention import Rulebook, measure, read_retention_source

from benchmarks.retention.inventions import invention_cases
from benchmarks.retention.rules import rule_cases


@dataclass(slots=True)
class Found:
    """What was planted, seen and flagged in error, by language or kind."""

    planted: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)
    faithful: Counter[str] = field(default_factory=Counter)  #: told as they are, or equal to it
    false: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def share(self) -> float:
        """Of what was planted."""
        return self.seen.total() / max(self.planted.total(), 1)

    @property
    def false_share(self) -> float:
        """Of what was told faithfully."""
        return self.false.total() / max(self.faithful.total(), 1)


def reversals(seed: int, per_language: int) -> Found:
    """Rules turned round and rules told faithfully, by language."""
    found = Found()
    for case in rule_cases(seed, per_language):
        flagged = [one.draft.text for one in Rulebook(case.source).compare(case.draft).reversed]
        found.faithful[case.language] += case.kept
        for rule, told in case.reversed:
            found.planted[case.language] += 1
            if told in flagged:
                found.seen[case.language] += 1
            else:
                found.missed.append(f"{case.language}: {rule} => {told}")
        for told in flagged:
            if told not in {draft for _, draft in case.reversed}:
                found.false[case.language] += 1
                found.wrong.append(f"{case.language}: {told}")
    return found


def inventions(seed: int, per_language: int) -> Found:
    """Near misses and what is told faithfully, by kind.

    People are counted where the report says that they were checked.
    """
    found = Found()
    for case in invention_cases(seed, per_language):
        flagged = measure(read_retention_source(case.source), case.draft).invented
        found.faithful["all"] += case.facts
        for kind, told in case.planted:
            if kind == "person" and not people_checked(case.draft):
                continue
            found.planted[kind] += 1
            if any(told in one.text or one.text in told for one in flagged):
                found.seen[kind] += 1
            else:
                found.missed.append(f"{case.language}: {kind} {told}")
        for one in flagged:
            if not any(told in one.text or one.text in told for _, told in case.planted):
                found.false["all"] += 1
                found.wrong.append(f"{case.language}: {one.kind} {one.text}")
    return found
