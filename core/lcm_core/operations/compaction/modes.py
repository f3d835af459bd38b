"""What an operator can ask of a compaction, and how a database is compacted by its settings."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from datetime import tzinfo
from enum import StrEnum
from typing import Any

from lcm_core.engine_rules import configured, engine_rules
from lcm_core.operations.compaction.plans import Draft
from lcm_core.operations.compaction.run import Operation, Setting
from lcm_core.operations.compaction.sweep import Compaction, Outcome, Pass
from lcm_core.settings.engine import EngineSettings
from lcm_core.store.schema import Schema
from lcm_core.summarize.request import SummarizerError
from lcm_core.summarize.source import Rendering


class Mode(StrEnum):
    """An operation by the name that people and programs give it."""

    ONE_LEAF = "one-leaf"  #: a leaf pass and nothing after it
    LEAF = "leaf"  #: a leaf pass, and what the engine condenses after it by itself
    SWEEP = "sweep"
    UNTIL_UNDER = "until-under"
    SINGLE_ROOT = "single-root"


def operation_of(mode: Mode, *, target: int | None = None, if_due: bool = False) -> Operation[Any]:
    """The passes of a mode.

    *target*: tokens for `Mode.UNTIL_UNDER`, None the budget; *if_due*: nothing unless the engine would
    compact by itself, for leaf and sweep.
    """

    def passes(compaction: Compaction) -> Generator[Pass, Outcome, Any]:
        match mode:
            case Mode.ONE_LEAF:
                return compaction.leaf(force=not if_due, incremental=False)
            case Mode.LEAF:
                return compaction.leaf(force=not if_due)
            case Mode.SWEEP:
                return compaction.sweep(force=not if_due)
            case Mode.UNTIL_UNDER:
                return compaction.until_under(target)
            case Mode.SINGLE_ROOT:
                return compaction.single_root()

    return passes


def setting_of(
    schema: Schema,
    engine: EngineSettings,
    zone: tzinfo | None,
    budget: int,
    *,
    tail: int | None = None,
    chunk: int | None = None,
    rules: str | None = None,
) -> Setting:
    """How a database of this schema is compacted under a *budget* of tokens.

    *tail* (messages) and *chunk* (tokens) take the place of what is configured; *rules* are those of an
    engine by name, None of the one that the schema tells.
    """
    found = configured(engine_rules(schema, rules), engine)
    if tail is not None:
        found = replace(found, tail=replace(found.tail, fresh_tail_count=tail))
    if chunk is not None:
        found = replace(found, compaction=replace(found.compaction, leaf_chunk_tokens=chunk))
    return Setting(Rendering(found, zone), budget)


async def refuse_fallback(draft: Draft) -> Draft:
    """The rule for drafts that lets nothing pass that no model wrote.

    Raises:
        SummarizerError: no model gave a text that is shorter than its source.
    """
    if not draft.text.is_cut:
        return draft
    refs = draft.chunk.refs
    kind = "message" if draft.chunk.due.is_leaf else "summary"
    raise SummarizerError(
        f"No model gave a text shorter than {kind} {refs[0]} to {refs[-1]} ({draft.chunk.tokens:,} tokens), "
        "and it is forbidden to cut it. What was made before stays."
    )
