"""What a compaction would do, pass by pass, before any call.

The chunks of the first pass, and of the leaf passes of a sweep as long as each saves something, are exact;
what later passes condense depends on how long the answers turn out. Nothing but stored counts is read.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Generic, TypeVar

from lcm_core.operations.compaction.reading import LoadedContext
from lcm_core.operations.compaction.run import CompactionSetting
from lcm_core.operations.compaction.selection import WeighedContext, WeighedItem
from lcm_core.operations.compaction.sweep import Compaction, Outcome, Pass, PassMade
from lcm_core.summarize.escalate import Level, target_tokens

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
