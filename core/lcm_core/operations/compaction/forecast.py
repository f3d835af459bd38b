"""When compaction is due, and what it would do, pass by pass, before any call.

The chunks of the first pass, and of the leaf passes of a sweep as long as each saves something, are exact;
what later passes condense depends on how long the answers turn out. Nothing but stored counts is read.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Generic, TypeVar

from lcm_core.context_view import Totals
from lcm_core.engine_rules import CompactionRules
from lcm_core.operations.compaction.reading import LoadedContext
from lcm_core.operations.compaction.run import CompactionSetting
from lcm_core.operations.compaction.selection import WeighedContext, WeighedItem
from lcm_core.operations.compaction.sweep import Compaction, Outcome, Pass, PassMade
from lcm_core.summarize.escalate import Level, target_tokens


@dataclass(frozen=True, slots=True)
class Distance:
    """How far a context is from its next compaction; tokens are stored estimates."""

    tokens: int  #: of all items
    threshold: int  #: above which the engine compacts
    raw: int  #: of raw messages that compaction may touch
    chunk: int | None  #: from which on those alone set it off; None: not in this version

    @property
    def due(self) -> bool:
        """Whether the engine would compact after the next turn."""
        return self.tokens > self.threshold or (self.chunk is not None and self.raw >= self.chunk)

    @property
    def left(self) -> int:
        """How many tokens may still come; 0: it is due. A new message also moves the fresh tail on."""
        total = self.threshold - self.tokens
        return 0 if self.due else total if self.chunk is None else min(total, self.chunk - self.raw)


def distance_of(totals: Totals, rules: CompactionRules, budget: int) -> Distance:
    """The distance of a context under a *budget* (docs/engine/compaction.md, "Sweep").

    The tokens of the prompt, which a host may have seen to be more, are not in the database.
    """
    raw = sum(group.tokens for group in totals.groups if group.role is not None and not group.protected)
    chunk = rules.leaf_chunk_tokens if rules.leaf_trigger else None
    return Distance(totals.tokens, rules.threshold(budget), raw, chunk)


# -- pass by pass ---------------------------------------------------------------------------------------


T = TypeVar("T")

#: Passes that are forecast at most; a context of 46,000 messages makes some 300.
MOST_PASSES = 5_000


@dataclass(frozen=True, slots=True)
class ForecastPass:
    """One pass that would be made."""

    number: int  #: from 1
    depth: int  #: of the summary
    refs: tuple[int | str, ...]  #: message ids, summary ids, or ``pass N`` for what pass N would make
    source_tokens: int  #: what the sources weigh, with assumed weights for what is yet to be made
    assumed_tokens: int  #: size of the answer that is reckoned with
    is_exact: bool  #: the chunk does not depend on what earlier passes make

    @property
    def is_leaf(self) -> bool:
        """Whether it summarises messages."""
        return self.depth == 0


@dataclass(frozen=True, slots=True)
class CompactionForecast(Generic[T]):
    """All passes of an operation, and what would be left."""

    passes: tuple[ForecastPass, ...]
    tokens_before: int
    tokens_after: int  #: assumed
    tail_from: int | None  #: ordinal at which the fresh tail begins; None: nothing is protected
    tail_tokens: int
    damaged: int  #: items that no pass may touch: their row is gone, foreign, or there twice
    result: T | None  #: None: there are more passes than are forecast

    @property
    def calls(self) -> int:
        """Calls of a summariser, when each first answer is good."""
        return len(self.passes)

    @property
    def input_tokens(self) -> int:
        """Tokens of all sources, without prompts."""
        return sum(one.source_tokens for one in self.passes)

    @property
    def output_tokens(self) -> int:
        """Tokens of all answers."""
        return sum(one.assumed_tokens for one in self.passes)


def forecast_passes(
    loaded: LoadedContext,
    setting: CompactionSetting,
    operation: Callable[[Compaction], Generator[Pass, Outcome, T]],
) -> CompactionForecast[T]:
    """Go through an operation with answers of the size that is asked for. Pure; *loaded* stays as it is."""
    context = loaded.context.copy()
    before = context.tokens
    compaction = setting.compaction(LoadedContext(loaded.conversation_id, context), lambda: 0)
    tail = compaction.tail_start()
    passes: list[ForecastPass] = []
    running = operation(compaction)
    result: T | None = None
    try:
        due = next(running)
        while len(passes) < MOST_PASSES:
            seen = _forecast_pass(context, due, setting, len(passes) + 1)
            passes.append(seen)
            name = f"pass {seen.number}"
            saved = context.removed(due.run, is_leaf=due.is_leaf) - seen.assumed_tokens
            context.replace(due.run, WeighedItem(name, seen.assumed_tokens, depth=due.depth))
            due = running.send(PassMade(name, Level.NORMAL, saved))
    except StopIteration as ended:
        result = ended.value
    return CompactionForecast(
        tuple(passes),
        before,
        context.tokens,
        loaded.context.ordinals[tail] if tail < len(loaded.context) else None,
        sum(loaded.context.weights[tail:]),
        loaded.context.sound.count(False),
        result,
    )


def _forecast_pass(
    context: WeighedContext, due: Pass, setting: CompactionSetting, number: int
) -> ForecastPass:
    run = slice(due.run.start, due.run.stop)
    tokens = sum(context.weights[run])
    target = target_tokens(due.depth, tokens, aggressive=False, rules=setting.rendering.rules)
    refs = tuple(ref for ref in context.refs[run] if ref is not None)
    made = any(isinstance(ref, str) and ref.startswith("pass ") for ref in refs)
    return ForecastPass(number, due.depth, refs, tokens, min(target, max(tokens - 1, 0)), not made)
