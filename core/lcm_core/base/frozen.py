"""Frozen dataclasses of which assembly makes many thousand at once: rows, parts, blocks, messages.

The standard library's `dataclass`, and nothing else to the type checker, which refuses whatever would change
one of them. At run time nothing does: each field of a frozen dataclass is stored by a call, which takes six
times as long. Assembly takes a quarter less time so. Plans are frozen at run time too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["frozen_record"]

if TYPE_CHECKING:
    from dataclasses import dataclass as frozen_record
else:
    import dataclasses

    def frozen_record(*, frozen: bool = False, slots: bool = False):
        """As frozen as to be hashed by its fields."""
        return dataclasses.dataclass(slots=slots, unsafe_hash=frozen)
