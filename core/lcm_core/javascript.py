"""Values as the engine's language writes them, so that stored JSON and counts come out the same.

The engine writes with ``JSON.stringify``; where Python's ``json`` differs from that (floats, large numbers,
keys that look like indexes, lone surrogates) the value is written here.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final, TypeAlias

from lcm_core.tokens import has_surrogates

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
JsonObject: TypeAlias = "Mapping[str, Json]"

_LONE: Final = re.compile(r"[\ud800-\udfff]")
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_SAFE_INTEGER: Final = 2**53
_LARGEST_INDEX: Final = 2**32 - 2
#: Types whose values both languages write in the same way.
_ALIKE: Final = frozenset({str, bool, type(None)})


def well_formed(text: str) -> str:
    """Text as it reaches a database: half a surrogate pair is no character and becomes U+FFFD."""
    return _LONE.sub("\ufffd", text) if has_surrogates(text) else text


def js_json(value: Json) -> str:
    """A value as ``JSON.stringify`` writes it."""
    try:
        text = written(value)
    except RecursionError:  # deeper than this machine goes: what it is, is lost for nobody but the reader
        return '"(nested too deeply)"'
    return _LONE.sub(lambda half: f"\\u{ord(half[0]):04x}", text) if has_surrogates(text) else text


def written(value: Json) -> str:
    """A value as ``JSON.stringify`` writes it, but for halves of surrogate pairs: they stay as they are.

    Raises:
        RecursionError: it is nested deeper than this machine goes.
        ValueError: it holds what JSON has no word for.
    """
    return _written(value) if _is_special(value) else _plain(value)


def _standard(value: object) -> object:
    """Mappings and sequences of other kinds than the standard library writes."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    raise ValueError(type(value).__name__)


#: To look for a value that holds itself takes as long as to write a small one; what is that deep ends anyway.
_ENCODER: Final = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, separators=(",", ":"), default=_standard
)


def _plain(value: Json) -> str:
    return _ENCODER.encode(value)


def _is_special(value: Json) -> bool:
    """Whether a value holds anything that the two languages write differently."""
    waiting: list[Json] = [value]
    for one in waiting:  # it grows on the way
        if type(one) in _ALIKE:
            continue
        if isinstance(one, int):
            if not -_SAFE_INTEGER < one < _SAFE_INTEGER:
                return True
        elif isinstance(one, float):
            return True
        elif isinstance(one, (list, tuple)):
            waiting.extend(one)
        elif isinstance(one, (dict, Mapping)):  # the second question alone takes ten times as long
            for key in one:
                if "0" <= key < ":" and _index(key) is not None:  # it begins with a digit
                    return True
            waiting += [each for each in one.values() if type(each) is not str]
        elif isinstance(one, Sequence) and not isinstance(one, str):
            waiting.extend(one)
    return False


def _written(value: Json) -> str:
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_plain(key)}:{_written(each)}" for key, each in ordered(value)) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ",".join(map(_written, value)) + "]"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return js_number(value)
    return _plain(value)


def _index(key: str) -> int | None:
    """The number that a key stands for in an object of the engine's language."""
    return int(key) if _INDEX.fullmatch(key) and int(key) <= _LARGEST_INDEX else None


def ordered(value: JsonObject) -> list[tuple[str, Json]]:
    """Keys that are indexes come first, in order; the others as they were given."""
    numbered = sorted((index, key) for key in value if (index := _index(key)) is not None)
    first = {key for _, key in numbered}
    return [(key, value[key]) for _, key in numbered] + [
        (key, each) for key, each in value.items() if key not in first
    ]


def js_number(number: int | float) -> str:
    """A number as that language prints it: all of them are doubles."""
    try:
        double = float(number)
    except OverflowError:
        return "null"
    if not math.isfinite(double):
        return "null"
    if double == 0:
        return "0"
    if 1e-6 <= abs(double) < 1e21:
        text = format(Decimal(repr(double)), "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa, _, exponent = repr(double).partition("e")
    mantissa = mantissa.removesuffix(".0")
    return f"{mantissa}e{exponent[0] if exponent[0] in '+-' else '+'}{exponent.lstrip('+-').lstrip('0')}"
