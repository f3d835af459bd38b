"""A request for a summary and its reply, whoever writes it, and which provider and model can be chosen."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Final, Protocol
from urllib.parse import urlsplit

from msgspec import field as record_field

from lcm_core.base.errors import ConfigurationError, ExitCode, LcmError
from lcm_core.base.host_config import MASK
from lcm_core.base.javascript import well_formed
from lcm_core.base.settings import SummarySettings
from lcm_core.base.tokens import Estimator
from lcm_core.base.values import Record

# -- the request -----------------------------------------------------------------------------------------
# The seam between what wants a summary and what writes one: types only.
#
# Whoever summarises (a provider, the extractive writer, a fake in a test) is a `Summarizer`: text in, text
# out. It knows nothing of databases; the caller knows nothing of prompts, keys or the network.


#: What ``summaries.model`` records for a text that a person wrote.
MANUAL: Final = "manual"
#: Half characters that no UTF-8 can hold; those that replace undecodable bytes are left as they are.
_UNSTORABLE: Final = re.compile("[\ud800-\udc7f\udd00-\udfff]")


def storable(text: str) -> str:
    """A text as a TEXT column can hold it: no NUL, no half characters."""
    return _UNSTORABLE.sub("\ufffd", text.replace("\0", ""))


class SummaryRequest(Record, frozen=True):
    """What one call is to summarise, and how. Retries are the writer's business."""

    text: str  #: the source text, as the database's engine renders it (docs/spec/texts.md)
    aggressive: bool  #: the second attempt, which keeps durable facts only
    depth: int  #: of the summary that is asked for: 0 a leaf, 1 made from leaves ...
    target_tokens: int  #: estimated size that the answer should stay under
    previous: str | None = None  #: summaries not to repeat; empty is like None
    instructions: str = ""  #: the operator's own, ``LCM_CUSTOM_INSTRUCTIONS``
    estimator: Estimator = Estimator.WEIGHTED  #: how the database counts tokens


class Usage(Record, frozen=True):
    """What a call cost, as the provider reported it; zeros where nothing was spent."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None  #: None: the price of this model is not known
    #: False: the provider did not say all of it, and the most that it can be is in it.
    is_exact: bool = record_field(default=True, name="exact")

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


# -- providers -------------------------------------------------------------------------------------------
# Which providers can write a summary, and whether a provider and a model fit. A pair that does not fit is
# refused before any call (the Go tool posts Claude models to OpenAI's host).


class ApiShape(StrEnum):
    """The form in which a provider is asked."""

    ANTHROPIC = "anthropic"  #: the Messages API
    OPENAI = "openai"  #: chat completions, as many servers speak it
    EXTRACTIVE = "extractive"  #: nobody is asked: sentences are chosen from the source


class ModelError(ConfigurationError):
    """A provider, model or address that cannot be used."""

    default_code = "MODEL_INVALID"


class Provider(Record, frozen=True):
    """A kind of server."""

    name: str
    shape: ApiShape
    base_url: str = ""  #: its own address; empty: it has none and must be given one
    base_url_variable: str = ""  #: its own variable for another address, which belongs with its own keys
    keys: tuple[str, ...] = ()  #: variables that hold its API key
    tokens: tuple[str, ...] = ()  #: variables that hold an OAuth token, used as it is
    headers_variable: str = ""  #: its own variable for headers, which belong to the address of its own keys
    default_model: str = ""
    foreign: re.Pattern[str] | None = None  #: models that it certainly does not serve at its own address


_CLAUDE: Final = re.compile(r"claude", re.IGNORECASE)
_NOT_CLAUDE: Final = re.compile(
    r"(?!.*claude)(?:gpt|o[1-9](?:$|-)|chatgpt|codex|gemini|llama|qwen|mi[sx]tral|deepseek|grok|minimax)",
    re.IGNORECASE,
)
_NOT_GPT: Final = re.compile(r"claude|gemini|llama|qwen|mi[sx]tral|deepseek|grok|minimax", re.IGNORECASE)
EXTRACTIVE: Final = Provider("extractive", ApiShape.EXTRACTIVE, default_model="extractive")
ANTHROPIC: Final = Provider(
    "anthropic",
    ApiShape.ANTHROPIC,
    "https://api.anthropic.com",
    "ANTHROPIC_BASE_URL",
    ("ANTHROPIC_API_KEY",),
    ("ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
    "ANTHROPIC_CUSTOM_HEADERS",
    "claude-haiku-4-5",
    _NOT_CLAUDE,
)
PROVIDERS: Final[Mapping[str, Provider]] = {
    one.name: one
    for one in (
        ANTHROPIC,
        Provider(
            "openai",
            ApiShape.OPENAI,
            "https://api.openai.com/v1",
            "OPENAI_BASE_URL",
            ("OPENAI_API_KEY",),
            headers_variable="OPENAI_CUSTOM_HEADERS",
            foreign=_NOT_GPT,
        ),
        Provider("openrouter", ApiShape.OPENAI, "https://openrouter.ai/api/v1", keys=("OPENROUTER_API_KEY",)),
        Provider("ollama", ApiShape.OPENAI, "http://127.0.0.1:11434/v1"),
        Provider("lmstudio", ApiShape.OPENAI, "http://127.0.0.1:1234/v1"),
        Provider("vllm", ApiShape.OPENAI, "http://127.0.0.1:8000/v1"),
        EXTRACTIVE,
    )
}


class ModelChoice(Record, frozen=True):
    """A provider, a model and the address that is asked."""

    provider: Provider
    model: str
    base_url: str = ""
    origin: str = "default"  #: what named the provider or the model: a flag, a variable, a config key

    @property
    def host(self) -> str:
        """Scheme, name and port of the address; empty when nobody is asked."""
        return host_of(self.base_url) if self.base_url else ""

    @property
    def is_local(self) -> bool:
        """Whether nothing leaves this machine."""
        return not self.base_url or is_loopback(self.base_url)

    @property
    def is_implied(self) -> bool:
        """Whether nobody named it: a key that was there decided, and the address is the provider's own."""
        return self.origin == "default" and bool(self.host) and self.host == host_of(self.provider.base_url)

    def __str__(self) -> str:
        if self.provider.shape is ApiShape.EXTRACTIVE:
            return "extractive (offline, picks sentences from the source)"
        return f"{self.provider.name}/{self.model} at {self.host}"


def choose_provider(settings: SummarySettings, environ: Mapping[str, str], *, has_key: bool) -> ModelChoice:
    """The provider and model that the settings name, or that follow from them.

    Args:
        has_key: a key for Anthropic was found; without one and without settings nobody is asked.

    Raises:
        ModelError: an unknown provider, a pair that does not fit, or a missing or unusable model or address.
    """
    provider, model = _named(settings, has_key=has_key)
    origin = settings.provider.name or settings.model.name or "default"
    if provider.shape is ApiShape.EXTRACTIVE:
        # A model that another setting names for the host is not what is asked here.
        return ModelChoice(provider, provider.default_model, origin=origin)
    model = model or provider.default_model
    if not model:
        raise ModelError(
            f"{provider.name} needs the name of a model: give --model or set LCM_TUI_SUMMARY_MODEL.",
            details={"provider": provider.name},
        )
    base_url = settings.base_url.value or own_address(provider, environ)
    _check_address(base_url, settings.base_url.name or provider.base_url_variable)
    base_url = _with_path(provider, base_url)
    own = host_of(base_url) == host_of(provider.base_url)
    if own and provider.foreign is not None and provider.foreign.search(model):
        raise ModelError(
            f"{provider.name} ({origin}) does not serve {model} ({settings.model.name or 'default'}): "
            "nothing was sent. Name a model of this provider, or another provider.",
            code="MODEL_MISMATCH",
            details={"provider": provider.name, "model": model},
        )
    return ModelChoice(provider, model, base_url, origin)


def _named(settings: SummarySettings, *, has_key: bool) -> tuple[Provider, str]:
    """The provider that is named or implied, and the model without the provider's name before it."""
    name, model = settings.provider.value.lower(), settings.model.value
    prefix, slash, rest = model.partition("/")
    if not name and slash and prefix.lower() in PROVIDERS:
        name, model = prefix.lower(), rest
    if not name and (model or settings.base_url.value):
        name = _implied(model, settings)
    if not name:
        name = ANTHROPIC.name if has_key else EXTRACTIVE.name
    provider = PROVIDERS.get(name)
    if provider is None:
        raise ModelError(
            f"There is no provider {name!r} ({settings.provider.name}); there are {', '.join(PROVIDERS)}. "
            "For an OpenAI-compatible server use --provider openai with --base-url.",
            details={"provider": name},
        )
    return provider, model if name == "openrouter" else model.removeprefix(f"{name}/")


def _implied(model: str, settings: SummarySettings) -> str:
    """The provider of a model that was named alone."""
    if _CLAUDE.search(model):
        return ANTHROPIC.name
    if re.match(r"gpt|o[1-9](?:$|-)|chatgpt|codex", model, re.IGNORECASE):
        return "openai"
    if model == EXTRACTIVE.name:
        return model
    named = settings.model.name or settings.base_url.name
    raise ModelError(
        f"{named} names {model or 'an address'} but no provider: give --provider or set "
        f"LCM_TUI_SUMMARY_PROVIDER to one of {', '.join(PROVIDERS)}.",
        code="MODEL_MISMATCH",
        details={"model": model},
    )


def own_address(provider: Provider, environ: Mapping[str, str]) -> str:
    """The address to which the provider's own keys and headers in *environ* belong; empty: it has none."""
    given = environ.get(provider.base_url_variable, "").strip() if provider.base_url_variable else ""
    return given.rstrip("/") or provider.base_url


def _with_path(provider: Provider, base_url: str) -> str:
    """The address as its SDK wants it: with ``/v1`` for OpenAI's language, without for Anthropic's."""
    if provider.shape is ApiShape.ANTHROPIC:
        return base_url.removesuffix("/v1")
    return base_url if urlsplit(base_url).path.strip("/") else f"{base_url}/v1"


def _check_address(base_url: str, name: str) -> None:
    try:
        parts = urlsplit(base_url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, half an IPv6 address
        raise ModelError(f"{name} is not an http or https address.", details={"setting": name}) from None
    if MASK in base_url or parts.username is not None or parts.query:
        raise ModelError(
            f"{name} contains a password or a query: remove it; give the key by LCM_TUI_SUMMARY_API_KEY or "
            "--api-key-env.",
            details={"setting": name},
        )
    if not usable:
        raise ModelError(f"{name} is not an http or https address.", details={"setting": name})


def host_of(base_url: str) -> str:
    """Scheme, name and port, which a key is bound to; empty for what is no address."""
    try:
        parts = urlsplit(base_url)
        port = parts.port or {"https": 443, "http": 80}.get(parts.scheme, 0)
    except ValueError:
        return ""
    return f"{parts.scheme}://{(parts.hostname or '').lower()}:{port}"


def is_loopback(base_url: str) -> bool:
    """Whether an address is this machine's own."""
    name = urlsplit(base_url).hostname or ""
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
