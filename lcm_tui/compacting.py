"""What the command line and the app say alike of a compaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from lcm_core.operations.compaction.forecast import CompactionForecast
from lcm_core.operations.compaction.reading import Chunk
from lcm_core.operations.compaction.run import PassDone
from lcm_core.operations.compaction.sweep import PassMade, PassMoved, PassSkipped, Result, UnderResult
from lcm_core.summarize.cost import likely_of_count

from lcm_tui.writing import Modelling

#: Tokens of a prompt around the text that is to be summarised, as an estimate.
PROMPT_TOKENS: Final = 700

KEY_REFUSED: Final = (
    "The provider refused the key, so this pass did not run; finished passes stay. Give another key and run "
    "the same command again."
)


_GOES_ON: Final = "The engine itself would continue and condense the existing summaries."


def refusal_of(result: object) -> str:
    """What is to be said of a key that was refused; empty when none was."""
    if not (isinstance(result, Result | UnderResult) and result.auth_failure):
        return ""
    return f"{KEY_REFUSED} {_GOES_ON}" if isinstance(result, Result) and result.cut_short else KEY_REFUSED


def cost_of(forecast: CompactionForecast[Any], model: Modelling) -> float | None:
    """What it would cost in USD, when each first answer is good; None: the price is not known."""
    sent = likely_of_count(forecast.input_tokens) + forecast.calls * PROMPT_TOKENS
    return model.cost(sent, forecast.output_tokens)


def span_text(refs: Sequence[int | str]) -> str:
    """The sources of a pass, from the first to the last."""
    first = f"message {refs[0]}" if isinstance(refs[0], int) else str(refs[0])
    return first if len(refs) == 1 else f"{first} to {refs[-1]}"


def depth_text(depth: int) -> str:
    """What a pass makes."""
    return "leaf" if depth == 0 else f"depth {depth}"


def chunk_words(chunk: Chunk) -> str:
    """The sources of a pass in a few words."""
    return f"{span_text(chunk.refs)} ({chunk.tokens:,} tokens)"


def step_words(number: int, step: PassDone) -> str:
    """What became of a pass, in one line."""
    what = chunk_words(step.chunk)
    match step.outcome:
        case PassMade(summary_id=made, level=level):
            size = step.draft.text.tokens if step.draft else 0
            way = step.draft.text.way if step.draft else level
            return f"{number}. {what} became {made} of {size:,} tokens ({way})."
        case PassSkipped():
            return f"{number}. {what} is empty and was skipped."
        case PassMoved():
            return f"{number}. {what} was changed by another process meanwhile; it is planned again."
        case _:
            return f"{number}. {what}: nothing was made."
