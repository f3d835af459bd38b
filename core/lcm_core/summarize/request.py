"""The seam between what wants a summary and what writes one: types only.

Whoever summarises (a provider, the extractive writer, a fake in a test) is a `Summarizer`: text in, text out.
It knows nothing of databases; whoever asks knows nothing of prompts, keys or the network.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Final, Protocol

from lcm_core.errors import ConfigurationError, ExitCode, LcmError
from lcm_core.javascript import well_formed
from lcm_core.tokens import Estimator


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    """What one call is to summarise, and how. Retries are the writer's business."""

    text: str  #: the source text, as the database's engine renders it (docs/engine/texts.md)
    aggressive: bool  #: the second attempt, which keeps durable facts only
    depth: int  #: of the summary that is asked for: 0 a leaf, 1 made from leaves ...
    target_tokens: int  #: estimated size that the answer should stay under
    previous: str | None = None  #: summaries not to repeat; empty is like None
    instructions: str = ""  #: the operator's own, ``LCM_CUSTOM_INSTRUCTIONS``
    estimator: Estimator = Estimator.WEIGHTED  #: how the database counts tokens


@dataclass(frozen=True, slots=True)
class Usage:
    """What a call cost, as the provider reported it; zeros where nothing was spent."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None  #: None: the price of this model is not known
    is_exact: bool = True  #: False: the provider did not say all of it, and the most that it can be is in it

    def __add__(self, other: Usage) -> Usage:
        known = self.cost_usd is not None and other.cost_usd is not None
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            (self.cost_usd or 0.0) + (other.cost_usd or 0.0) if known else None,
            self.is_exact and other.is_exact,
        )


#: What is spent where no provider is asked.
NO_USAGE = Usage(cost_usd=0.0)


#: How an answer ended that held the key it was asked with: its text is not kept anywhere.
HELD_KEY: Final = "held our key"


class StopReason(StrEnum):
    """How an answer ended, in the words of the Messages API; servers have others beside them."""

    END_TURN = "end_turn"
    STOP_SEQUENCE = "stop_sequence"
    MAX_TOKENS = "max_tokens"
    REFUSAL = "refusal"


@dataclass(frozen=True, slots=True)
class SummaryReply:
    """What came back. It is a proposal: what is accepted is decided by who asked."""

    text: str  #: reasoning already taken out; may be empty; halves of characters are U+FFFD, as in a file
    model: str = "unknown"  #: what ``summaries.model`` records: ``provider/model``, ``extractive`` ...
    finished: bool = True  #: the model ended by itself (``end_turn``), it was not cut off
    stop_reason: str = StopReason.END_TURN
    usage: Usage = NO_USAGE
    is_missing: bool = False  #: a model was asked and said nothing that can be used
    as_came: str = field(default="", init=False)  #: the text with its halves of characters

    def __post_init__(self) -> None:
        object.__setattr__(self, "as_came", self.text)
        object.__setattr__(self, "text", well_formed(self.text))


class Summarizer(Protocol):
    """Writes a summary. Raises `SummarizerError` when nothing came back; an empty text is an answer."""

    def __call__(self, request: SummaryRequest, /) -> Awaitable[SummaryReply]:
        """Summarise; cancelling really cancels the call."""


class SummarizerError(LcmError):
    """A call that gave no answer, whatever was tried."""

    exit_code: ClassVar[ExitCode] = ExitCode.CANCELLED
    default_code: ClassVar[str] = "SUMMARY_FAILED"


class ProviderUnavailableError(SummarizerError):
    """No other request to this provider would be answered for now either: others need not be tried."""

    default_code: ClassVar[str] = "PROVIDER_UNAVAILABLE"


class NotServedError(ProviderUnavailableError, ConfigurationError):
    """The provider serves this model, or this account, not at all until somebody changes that."""

    exit_code: ClassVar[ExitCode] = ExitCode.CONFIGURATION
    default_code: ClassVar[str] = "PROVIDER_UNAVAILABLE"


class ProviderAuthError(SummarizerError, ConfigurationError):
    """The provider refused the key: nothing is written, and other nodes need not be tried."""

    exit_code: ClassVar[ExitCode] = ExitCode.CONFIGURATION
    default_code: ClassVar[str] = "PROVIDER_AUTH"
