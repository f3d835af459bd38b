"""Frozen dataclasses of which assembly makes many thousand at once: rows, parts, blocks, messages.

The standard library's `dataclass`, and nothing else to the type checker, which refuses whatever would change
one of them. At run time nothing does: each field of a frozen dataclass is stored by a call, which takes six
times as long. Assembly takes a quarter less time so. Plans are frozen at run time too. All print short.
"""

from __future__ import annotations

import dataclasses
import reprlib
from typing import TYPE_CHECKING, Any, Final, cast

__all__ = ["frozen_record", "short_repr"]

_SHORT: Final = reprlib.Repr()
_SHORT.maxstring = 60
_SHORT.maxtuple = _SHORT.maxlist = _SHORT.maxdict = 2


def short_repr(record: object) -> str:
    """A record on a line: its fields that hold something, and of long ones their beginning and end."""
    names = [one.name for one in dataclasses.fields(cast(Any, record)) if one.repr]
    held = ((name, getattr(record, name)) for name in names)
    shown = (f"{name}={_SHORT.repr(value)}" for name, value in held if value not in (None, "", (), {}))
    return f"{type(record).__name__}({', '.join(shown)})"


if TYPE_CHECKING:
    from dataclasses import dataclass as frozen_record
else:

    def frozen_record(*, frozen: bool = False, slots: bool = False):
        """As frozen as to be hashed by its fields."""

        def made(record):
            record.__repr__ = short_repr
            return dataclasses.dataclass(slots=slots, unsafe_hash=frozen)(record)

        return made
