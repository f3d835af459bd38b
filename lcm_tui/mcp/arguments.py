"""The arguments of a tool: declared once, they become its JSON schema, and what is given is read by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lcm_core.errors import UsageError
from lcm_core.javascript import Json, JsonObject
from lcm_core.text import safe_line


@dataclass(frozen=True, slots=True)
class Text:
    """A text."""

    help: str
    needed: bool = False
    longest: int = 1_000  #: characters
    words: tuple[str, ...] = ()  #: the only ones that are taken; none: any text

    @property
    def schema(self) -> JsonObject:
        """As JSON schema."""
        only: dict[str, Json] = {"enum": list(self.words)} if self.words else {"maxLength": self.longest}
        return {"type": "string", "description": self.help, **only}

    def problem(self, value: Json) -> str | None:
        """What is wrong with a value; None: nothing."""
        if not isinstance(value, str):
            return "must be a string"
        if self.words and value not in self.words:
            return f"must be one of {', '.join(self.words)}"
        if not value.strip():
            return "must not be empty"
        if len(value) > self.longest:
            return f"has {len(value):,} characters; at most {self.longest:,} are allowed"
        return None


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number."""

    help: str
    default: int | None = None
    least: int = 1
    most: int = 2**53 - 1
    needed: bool = False

    @property
    def schema(self) -> JsonObject:
        """As JSON schema."""
        known: dict[str, Json] = {} if self.default is None else {"default": self.default}
        limits: dict[str, Json] = {"minimum": self.least, "maximum": self.most}
        return {"type": "integer", "description": self.help, **limits, **known}

    def problem(self, value: Json) -> str | None:
        """What is wrong with a value; None: nothing."""
        if isinstance(value, bool) or not isinstance(value, int):
            return "must be a whole number"
        if not self.least <= value <= self.most:
            return f"must be from {self.least:,} to {self.most:,}"
        return None


@dataclass(frozen=True, slots=True)
class Switch:
    """True or false; false unless it is given."""

    help: str
    needed: bool = False

    @property
    def schema(self) -> JsonObject:
        """As JSON schema."""
        return {"type": "boolean", "description": self.help, "default": False}

    def problem(self, value: Json) -> str | None:
        """What is wrong with a value; None: nothing."""
        return None if isinstance(value, bool) else "must be true or false"


Argument = Text | Whole | Switch


def schema_of(declared: Mapping[str, Argument]) -> dict[str, Json]:
    """The JSON schema of a tool's arguments."""
    return {
        "type": "object",
        "properties": {name: one.schema for name, one in declared.items()},
        "required": [name for name, one in declared.items() if one.needed],
        "additionalProperties": False,
    }


@dataclass(frozen=True, slots=True)
class Given:
    """The arguments of one call, each of the type that was declared."""

    declared: Mapping[str, Argument]
    values: Mapping[str, Json]

    @classmethod
    def read(cls, declared: Mapping[str, Argument], values: Mapping[str, Json]) -> Given:
        """Check what a client sent; null counts as not given.

        Raises:
            UsageError: an argument is unknown, missing, or of a type or size that is not taken.
        """
        for name in values:
            if name not in declared:
                raise _refused(name, f"is unknown; there are {_listed(list(declared))}")
        some = {name: value for name, value in values.items() if value is not None}
        for name, argument in declared.items():
            if name not in some:
                if argument.needed:
                    raise _refused(name, f"is missing: {argument.help}")
                continue
            problem = argument.problem(some[name])
            if problem is not None:
                raise _refused(name, problem)
        return cls(declared, some)

    def text(self, name: str) -> str | None:
        """A text without the blanks at its ends; None when it was not given."""
        value = self.values.get(name)
        return value.strip() if isinstance(value, str) else None

    def number(self, name: str) -> int | None:
        """A whole number, else its default; None when there is none."""
        value = self.values.get(name)
        if isinstance(value, int):
            return value
        argument = self.declared[name]
        return argument.default if isinstance(argument, Whole) else None

    def count(self, name: str) -> int:
        """The same of an argument that has a default."""
        return self.number(name) or 0

    def flag(self, name: str) -> bool:
        """Whether it is true."""
        return self.values.get(name) is True


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _refused(name: str, problem: str) -> UsageError:
    shown = safe_line(name)[:40]
    return UsageError(f"The argument {shown} {problem.rstrip('.')}.", details={"argument": shown})
