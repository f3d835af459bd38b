"""What the values of the product are made of: msgspec's structs.

A `Record` is frozen, made and compared in C, and written as JSON under its fields' names in camelCase
(`to_json`). It prints short. A `Struct` is the same for a value that changes while
work goes on. Dataclasses take nine times as long to declare: 60 ms at the start of a command.
"""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, ParamSpec, TypeVar

import msgspec
from msgspec import Struct, field, structs
from msgspec.structs import force_setattr

if TYPE_CHECKING:
    # mypy checks the names and types of what is replaced for this function only.
    from dataclasses import replace
else:

    def replace(record, /, **changes):
        """The same value with other fields, as `copy.replace` of Python 3.13."""
        change = structs.replace if isinstance(record, Struct) else dataclasses.replace
        return change(record, **changes)


__all__ = ["P", "Record", "Struct", "T", "field", "force_setattr", "replace", "short_repr", "to_json"]

P = ParamSpec("P")
T = TypeVar("T")

_SHORT: Final = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60
_SHORT.maxtuple = _SHORT.maxlist = _SHORT.maxdict = 2


class Record(msgspec.Struct, frozen=True, rename="camel"):
    """A frozen value; subclasses repeat ``frozen=True``, for mypy."""

    #: Fields that are never printed: secrets.
    UNPRINTED: ClassVar[tuple[str, ...]] = ()

    def __repr__(self) -> str:
        return short_repr(self)


def short_repr(record: Record) -> str:
    """A record on a line: its fields that hold something, and of long ones their beginning and end."""
    names = [name for name in record.__struct_fields__ if name not in record.UNPRINTED]
    values = ((name, getattr(record, name)) for name in names)
    shown = (f"{name}={_SHORT.repr(value)}" for name, value in values if value not in (None, "", (), {}))
    return f"{type(record).__name__}({', '.join(shown)})"


def to_json(value: object) -> Any:
    """A value as JSON: records as objects under their JSON names, enums by value, paths as text."""
    return msgspec.to_builtins(value, enc_hook=_plain)


def _plain(value: object) -> object:
    """What msgspec does not know: views of mappings as objects, all else as text."""
    return dict(value) if isinstance(value, Mapping) else str(value)
