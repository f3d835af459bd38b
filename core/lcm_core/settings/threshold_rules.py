"""Rules that put another compaction threshold in the place of the configured one, as they are written down.

Source: docs/engine/thresholds.md, "The rules". Which of them holds is in `lcm_core.thresholds`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from lcm_core.settings.values import Json, integer, plain_text, real_number

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ThresholdRule:
    """One entry of ``contextThresholdOverrides``; every matcher that is given has to fit."""

    threshold: float  #: share of the budget
    model: str | None = None  #: ``provider/model`` or the model alone
    session_pattern: str | None = None
    window_min: int | None = None  #: tokens of the model's context window
    window_max: int | None = None
    fresh_tail_count: int | None = None  #: messages; None: the configured one
    leaf_chunk_tokens: int | None = None  #: None: the configured one
    name: str | None = None

    @property
    def specificity(self) -> int:
        """How much it asks for: the highest of the rules that fit holds."""
        asked = (
            (self.model, 100),
            (self.session_pattern, 50),
            (self.window_min, 20),
            (self.window_max, 20),
        )
        return sum(weight for value, weight in asked if value is not None)

    def document(self) -> dict[str, Json]:
        """The rule as it is written in the configuration."""
        match = {
            "model": self.model,
            "sessionPattern": self.session_pattern,
            "modelContextWindowMin": self.window_min,
            "modelContextWindowMax": self.window_max,
        }
        rest = {
            "contextThreshold": self.threshold,
            "freshTailCount": self.fresh_tail_count,
            "leafChunkTokens": self.leaf_chunk_tokens,
        }
        return {
            **({} if self.name is None else {"name": self.name}),
            "match": {key: value for key, value in match.items() if value is not None},
            **{key: value for key, value in rest.items() if value is not None},
        }


def threshold_rules(value: Json) -> tuple[ThresholdRule, ...]:
    """The rules of a configuration.

    Raises:
        ValueError: one of them is wrong, at the path that the reason names; then none counts.
    """
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise ValueError("which is not a list of rules")
    return tuple(_rule(one, f"[{at}]") for at, one in enumerate(value))


def _rule(value: Json, path: str) -> ThresholdRule:
    if not isinstance(value, Mapping):
        raise ValueError(f"in which {path} is not an object")
    match = value.get("match")
    if not isinstance(match, Mapping):
        raise ValueError(f"in which {path}.match is not an object")
    within = f"{path}.match."
    smallest = _given(match, "modelContextWindowMin", within, integer(1))
    largest = _given(match, "modelContextWindowMax", within, integer(1))
    model = _given(match, "model", within, _words)
    pattern = _given(match, "sessionPattern", within, _words)
    if all(one is None for one in (smallest, largest, model, pattern)):
        raise ValueError(f"in which {path}.match has no condition")
    if smallest is not None and largest is not None and smallest > largest:
        raise ValueError(f"in which {within}modelContextWindowMin is larger than modelContextWindowMax")
    threshold = _given(value, "contextThreshold", f"{path}.", real_number(0, 1))
    if threshold is None:
        raise ValueError(f"in which {path}.contextThreshold is missing")
    return ThresholdRule(
        threshold,
        model,
        pattern,
        smallest,
        largest,
        _given(value, "freshTailCount", f"{path}.", integer(1)),
        _given(value, "leafChunkTokens", f"{path}.", integer(1)),
        _given(value, "name", f"{path}.", plain_text),
    )


def _given(value: Mapping[str, Json], name: str, path: str, parse: Callable[[Json], T]) -> T | None:
    given = value.get(name)
    if given is None:
        return None
    try:
        return parse(given)
    except ValueError as error:
        raise ValueError(f"in which {path}{name} cannot be used: it is one {error}") from None


def _words(value: Json) -> str:
    words = plain_text(value)
    if not words:
        raise ValueError("which is empty")
    return words
