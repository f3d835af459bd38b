"""What the values of options and arguments must look like: each kind reads its own, or refuses it.

A refusal is one sentence, with the code and details of the engine's own command (docs/spec/command.md,
"Errors").
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Collection
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import click
from lcm_core.base.errors import JsonScalar, NotFoundError, UsageError
from lcm_core.base.records import ConversationId
from lcm_core.base.text import BLANKS, parse_budget, safe_line
from lcm_core.base.times import DURATION, parse_utc, span_of, typed_moment
from lcm_core.base.values import Record

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem
    from lcm_core.base.settings import Settings
    from lcm_core.store.rows import Named

T = TypeVar("T")

#: The largest whole number that every reader of JSON holds exactly.
MAX_NUMBER = 2**53 - 1
#: The largest id that SQLite has.
MAX_ID = 2**63 - 1
#: A byte that is no UTF-8 as `safe_line` writes it out.
_WRITTEN_OUT = re.compile("‹0x([89A-F][0-9A-F])›")


def invalid(name: str, problem: str, value: JsonScalar = None, *, code: str | None = None) -> UsageError:
    """The refusal of an option (by its name without dashes) or of an argument (in capitals).

    *problem* continues the sentence that the name begins. Without a *code* it is that of an option, or of the
    words of a command.
    """
    details: dict[str, JsonScalar] = {"option": name}
    if value is not None:
        details["value"] = value
    typed = name if name.isupper() else f"--{name}"
    return UsageError(
        f"{typed} {problem}.", code=code or ("INVALID_COMMAND" if name.isupper() else None), details=details
    )


def invalid_time(name: str, problem: str, value: JsonScalar = None) -> UsageError:
    """The refusal of an option that is about times."""
    return invalid(name, problem, value, code="INVALID_TIME_FILTER")


class Kind(click.ParamType[T], ABC):
    """A kind of value."""

    name = "value"
    words: Collection[str] = ()  #: what a shell offers
    stored: Named | None = None  #: what of the database it offers besides
    is_path = False  #: a shell offers paths, as everywhere

    def named(self, incomplete: str) -> Named | None:
        """What of the database it offers where this was typed."""
        del incomplete
        return self.stored

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[Any]]:
        """The words, and what the database has, that begin so; or paths."""
        from click.shell_completion import CompletionItem

        if self.is_path:
            return a_file(incomplete)
        found = [CompletionItem(word) for word in self.words if word.startswith(incomplete)]
        named = self.named(incomplete)
        return found if named is None else [*found, *_stored(ctx, named, incomplete)]

    @abstractmethod
    def read(self, name: str, value: str) -> T:
        """The *value* of the option or argument *name*.

        Raises:
            UsageError: it is none of this kind.
        """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> T:
        """What click calls with a value of the command line, or with a default."""
        return self.read("" if param is None else spelled(param), value) if isinstance(value, str) else value


def spelled(param: click.Parameter) -> str:
    """The name by which refusals call a parameter: without dashes, or that of an argument in capitals."""
    return label(param) if isinstance(param, click.Argument) else param.opts[0].lstrip("-")


def label(argument: click.Argument) -> str:
    """The name of an argument, in capitals."""
    return argument.human_readable_name.strip("[].")


def _stored(ctx: click.Context, named: Named, incomplete: str) -> list[CompletionItem[Any]]:
    """What the database that a command line is about has of such names."""
    from click.shell_completion import CompletionItem
    from lcm_core.store.rows import names_in

    if (settings := _settings(ctx)) is None:
        return []
    found = names_in(settings.database.value, named, incomplete)
    return [CompletionItem(name, help=words or None) for name, words in found]


def _settings(ctx: click.Context) -> Settings | None:
    """The settings under what a command line says so far; None: it cannot be used."""
    from lcm_core.base.errors import LcmError
    from lcm_core.base.settings import Options, resolve

    given = ctx.params
    options = Options(given.get("db"), given.get("config"), given.get("openclaw_dir"))
    try:
        return resolve(options, os.environ, home=Path.home())
    except LcmError:
        return None


def a_file(incomplete: str) -> list[CompletionItem[Any]]:
    """What tells a shell to complete a path as it does everywhere."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


class Raw(Kind[str]):
    """A text as it was given; whoever opens what it names says what is wrong with it."""

    def read(self, name: str, value: str) -> str:
        """The text."""
        return value


class RawPath(Raw):
    """A path as it was given."""

    is_path = True


class WholeNumber(Kind[int]):
    """A whole number in a closed range. Without a bound at the top, what JSON cannot hold is its largest.

    *words* stand for numbers, too.
    """

    def __init__(self, minimum: int, maximum: int | None = None, **words: int) -> None:
        self.minimum, self.maximum = minimum, maximum
        self.words = self.numbers = words

    def read(self, name: str, value: str) -> int:
        """The number."""
        if value in self.numbers:
            return self.numbers[value]
        number = _number(value)
        if number is not None and number >= self.minimum:
            if self.maximum is None:
                return min(number, MAX_NUMBER)
            if number <= self.maximum:
                return number
        wanted = (
            f"of at least {self.minimum}"
            if self.maximum is None
            else f"from {self.minimum} to {self.maximum}"
        )
        raise invalid(name, f"must be {' or '.join([*self.words, f'a whole number {wanted}'])}", value)


def _number(value: str) -> int | None:
    """The number that digits say; None: they are none, or more than anything is counted with."""
    return int(value) if re.fullmatch("[0-9]{1,300}", value) else None


#: A conversation by its id, else by its session key or a part of its title.
ConversationName: TypeAlias = ConversationId | str
#: What ids of summaries begin with.
_SUMMARY = "sum_"


def is_summary(name: str) -> bool:
    """Whether a *name* is the id of a summary, or the beginning of one."""
    return name.startswith(_SUMMARY)


class ConversationNumber(Kind[ConversationId]):
    """The id of a conversation."""

    stored = "conversation"

    def read(self, name: str, value: str) -> ConversationId:
        """The number; of a summary's id it is said what that is."""
        if is_summary(value):
            problem = f"must be the number of a conversation: {value} is a summary"
            raise invalid(name, f"{problem}, and `show` names its own", value)
        if not value.strip(BLANKS):
            raise no_selector(name)
        number = _number(value)
        if number is not None and number > MAX_ID:  # which no conversation has
            double = float(number)  # as the engine reads it
            raise NotFoundError(
                f"No conversation matched id {value}.",
                code="CONVERSATION_NOT_FOUND",
                details={"kind": "conversationId", "value": int(double) if double < 1e21 else double},
            )
        return ConversationId(number or WholeNumber(1).read(name, value))


class RawConversation(Raw):
    """The same as it was given."""

    stored = "conversation"


def no_selector(name: str) -> UsageError:
    """The refusal of a blank that stands where a conversation is named."""
    return invalid(name, "is empty; give it a value", code=None if name.isupper() else "MISSING_SELECTOR")


class SessionKey(Kind[str]):
    """The key of a session as it was typed: blanks around it count where a key has them."""

    stored = "session key"

    def __init__(self, *, blank: bool = False) -> None:
        self.blank = blank  #: whether nothing may be left

    def read(self, name: str, value: str) -> str:
        """The key."""
        key = StoredText().read(name, value)
        if key.strip(BLANKS):
            return key
        if not self.blank:
            raise no_selector(name)
        return ""


class ConversationArgument(Kind[ConversationName]):
    """A conversation by its id, its session key or a part of its title; digits are always an id."""

    def read(self, name: str, value: str) -> ConversationName:
        """The id, or what the database is to be asked for."""
        if _number(value) is None and value.strip(BLANKS) and not is_summary(value):
            return StoredText().read(name, value)
        return ConversationNumber().read(name, value)

    def named(self, incomplete: str) -> Named:
        """Conversations, the newest first; session keys where one was begun."""
        return "session key" if incomplete and not incomplete.isdigit() else "conversation"


class ConversationOrSummary(Kind[ConversationName]):
    """The same, or the beginning of a summary's id."""

    def read(self, name: str, value: str) -> ConversationName:
        """An id, or a text as the database holds it."""
        if is_summary(value):
            return StoredText().read(name, value)
        return ConversationArgument().read(name.partition("|")[0], value)

    def named(self, incomplete: str) -> Named:
        """Conversations; summaries where one was begun."""
        return "summary" if incomplete.startswith("s") else ConversationArgument().named(incomplete)


class Tokens(Kind[int]):
    """A number of tokens as the app takes it too: ``128000``, ``128k``, ``1.5m``."""

    def __init__(self, minimum: int = 1, maximum: int | None = None) -> None:
        self.bounds = WholeNumber(minimum, maximum)

    def read(self, name: str, value: str) -> int:
        """The number."""
        found = parse_budget(value)
        if found is None:
            raise invalid(name, "must be a number of tokens such as 128000 or 128k", value)
        return self.bounds.read(name, str(found))


class Completed(Raw):
    """A text for which a shell offers some words."""

    def __init__(self, *words: str) -> None:
        self.words = words


class Choice(Completed):
    """One of some words."""

    def read(self, name: str, value: str) -> str:
        """The word."""
        if value in self.words:
            return value
        named = " or ".join(self.words) if len(self.words) == 2 else f"one of {', '.join(self.words)}"
        raise invalid(name, f"must be {named}", value)


class Words(Kind[tuple[str, ...]]):
    """Some of some words, with commas between them."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def read(self, name: str, value: str) -> tuple[str, ...]:
        """The words, in small letters."""
        found = tuple(one.strip().lower() for one in value.split(","))
        if not set(found) <= set(self.words):
            raise invalid(name, f"must be of {', '.join(self.words)}", value)
        return found


class Text(Kind[str]):
    """A text of a person, or an id of our own making; an argument may hold bytes that are no text."""

    def __init__(self, *, empty: bool = True) -> None:
        self.empty = empty  #: False: an unset shell variable must not stand for a default

    def read(self, name: str, value: str) -> str:
        """The text."""
        typed = name if name.isupper() else f"--{name}"
        try:
            value.encode()
        except UnicodeEncodeError:
            raise UsageError(f"{typed} is not valid UTF-8.", details={"option": typed}) from None
        if not self.empty and not value.strip():
            raise UsageError(f"{typed} is empty; give it a value or omit it.", details={"option": name})
        return value


class StoredText(Kind[str]):
    """An id or a key as the database holds it, whose bytes may be no UTF-8.

    They are taken as they are, or as the program writes them out where it shows them (``‹0xFF›``).
    """

    def __init__(self, *, empty: bool = True) -> None:
        self.empty = empty

    def read(self, name: str, value: str) -> str:
        """The text with those bytes as surrogate escapes."""
        if not (self.empty or value):
            raise invalid(name, "is empty")
        return _WRITTEN_OUT.sub(lambda byte: chr(0xDC00 + int(byte[1], 16)), value)


class SummaryId(StoredText):
    """The id of a summary, or how it begins."""

    stored = "summary"


class OperationId(Text):
    """The id of an operation, or how it begins; or the newest one."""

    stored, words = "operation", ("last",)


class BriefId(StoredText):
    """The id of a focus brief, or how it begins."""

    stored = "brief"


class AnyId(StoredText):
    """The id of anything that has one, or how it begins."""

    def named(self, incomplete: str) -> Named:
        """Conversations, summaries, briefs and operations, by how their ids begin."""
        kinds: dict[str, Named] = {"s": "summary", "f": "brief", "o": "operation"}
        return kinds.get(incomplete[:1], "conversation")


class SettingPath(StoredText):
    """The dotted name of a setting."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[Any]]:
        """The settings, each with its value."""
        from click.shell_completion import CompletionItem
        from lcm_core.base.settings_listed import sourced_settings

        if (settings := _settings(ctx)) is None:
            return []
        named = sourced_settings(settings).items()
        return [
            CompletionItem(name, help=safe_line(str(held.value)) if held.value not in (None, "") else None)
            for name, held in named
            if name.startswith(incomplete)
        ]


class FilePath(Kind[Path]):
    """A path, ``~`` expanded."""

    is_path = True

    def __init__(self, *, text: bool = False) -> None:
        self.text = text  #: its name must be valid UTF-8

    def read(self, name: str, value: str) -> Path:
        """The path."""
        if self.text:
            Text().read(name, value)
        if not value:
            raise invalid(name, "is empty; give a path")
        from lcm_core.base.settings import is_too_long

        path = Path(os.path.expanduser(value))  # unlike that of Path, it leaves an unknown user alone
        if is_too_long(path):
            raise invalid(name, "is longer than a path can be; give another one")
        return path


class Stamp(Record, frozen=True):
    """A time as it was typed."""

    text: str
    as_engine: bool  #: typed as the engine's own command takes it
    ago: datetime | None = None  #: in UTC; where how long ago was typed

    def moment(self, zone: tzinfo | None) -> datetime:
        """The time in UTC; without a zone of its own it is one of *zone*.

        Raises:
            UsageError: *zone* has that time twice, or skips it.
        """
        moment = self.ago or typed_moment(self.text, zone)
        assert moment is not None, self.text  # its kind has read it
        return moment


#: What the engine's command takes for a time (docs/spec/command.md, "Selecting and filtering").
_ENGINE_TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?(Z|[+-][0-9]{2}:[0-9]{2})"
_ENGINE_SPAN = re.compile("[0-9]+[smhdwSMHDW]")


class Moment(Kind[Stamp]):
    """A time."""

    def read(self, name: str, value: str) -> Stamp:
        """The time as it was typed; which moment it is depends on the zone."""
        if parse_utc(value) is None:
            raise invalid_time(name, "must be a time such as 2026-03-02 or 2026-03-02T14:30:00Z", value)
        return Stamp(value, bool(re.fullmatch(_ENGINE_TIME, value)))


class Period(Kind[tuple[Stamp, Stamp]]):
    """From one time to before another: ``2026-03-02..2026-03-09``."""

    def read(self, name: str, value: str) -> tuple[Stamp, Stamp]:
        """Both times."""
        first, dots, last = value.partition("..")
        if not (first.strip() and dots and last.strip()):
            raise invalid_time(
                name, "must be two times such as 2026-03-02T00:00:00Z..2026-03-09T00:00:00Z", value
            )
        return Moment().read(name, first), Moment().read(name, last)


class Recency(Kind[Stamp]):
    """How long ago: ``90s``, ``24h``, ``6mo``."""

    def read(self, name: str, value: str) -> Stamp:
        """The time that it was then."""
        try:
            if (span := span_of(value)) is not None:
                return Stamp(value, bool(_ENGINE_SPAN.fullmatch(value)), datetime.now(UTC) - span)
        except OverflowError:
            pass
        raise invalid_time(name, f"must be {DURATION}, such as 24h", value)


class Pair(Kind[tuple[str, str]]):
    """A value of one of several names: ``budget=20k``."""

    def __init__(self, *names: str) -> None:
        self.names, self.words = names, [f"{name}=" for name in names]

    def read(self, name: str, value: str) -> tuple[str, str]:
        """The name and its value."""
        word, joined, rest = value.partition("=")
        if not joined or word not in self.names:
            raise invalid(name, f"must be NAME=VALUE with one of {', '.join(self.names)}", value)
        return word, rest


class EngineSetting(Kind[tuple[str, int]]):
    """A setting of the engine's compaction: ``leafMinFanout=4``."""

    #: Their names, each with that of the field.
    NAMES: Final = {
        "freshTailCount": "fresh_tail_count",
        "leafChunkTokens": "leaf_chunk_tokens",
        "leafTargetTokens": "leaf_target_tokens",
        "leafMinFanout": "leaf_min_fanout",
        "condensedTargetTokens": "condensed_target_tokens",
        "condensedMinFanout": "condensed_min_fanout",
        "condensedMinFanoutHard": "condensed_min_fanout_hard",
    }
    words = tuple(f"{name}=" for name in NAMES)

    def read(self, name: str, value: str) -> tuple[str, int]:
        """The name and the number."""
        word, number = Pair(*self.NAMES).read(name, value)
        if word.endswith("Tokens"):
            return word, Tokens().read(f"{name} {word}", number)
        least = 0 if word == "freshTailCount" else 2
        return word, WholeNumber(least).read(f"{name} {word}", number)


class When(Kind[Stamp]):
    """A time, or how long ago: ``2026-03-02``, ``90d``."""

    def read(self, name: str, value: str) -> Stamp:
        """The time that is meant."""
        if parse_utc(value) is not None:
            return Moment().read(name, value)
        try:
            return Recency().read(name, value)
        except UsageError:
            problem = f"must be a time such as 2026-03-02, or {DURATION} ago, such as 90d"
            raise invalid_time(name, problem, value) from None


#: Bytes of a unit, powers of 1000 as sizes are shown.
_BYTES = {"": 1, "B": 1, "KB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000, "TB": 1_000_000_000_000}


class Size(Kind[int]):
    """A size such as ``50MB``, ``800KB`` or ``1.5GB``."""

    def read(self, name: str, value: str) -> int:
        """The bytes."""
        match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?) ?([KMGT]?B?)", value.upper())
        unit = None if match is None else match[2] if match[2] in _BYTES else f"{match[2]}B"
        if match is None or unit not in _BYTES:
            raise invalid(name, "must be a size such as 50MB, 800KB or 1.5GB", value)
        return int(float(match[1]) * _BYTES[unit])


class Dollars(Kind[float]):
    """An amount of US dollars."""

    def read(self, name: str, value: str) -> float:
        """The amount."""
        try:
            amount = float(value)
        except ValueError:
            amount = -1.0
        if not 0 <= amount < 1e9:
            raise UsageError(
                f"--{name} must be a number of US dollars, not {value}.", details={"option": name}
            )
        return amount


class Seconds(Kind[float]):
    """A number of seconds, 0 for no limit."""

    def read(self, name: str, value: str) -> float:
        """The seconds."""
        from lcm_core.base.settings import seconds

        try:
            return seconds(value)
        except ValueError as error:
            raise invalid(name, f"is {value!r}, {error}") from None
