"""Texts and values as the engine's language reads and writes them (docs/spec/words.md).

Its blanks, its JSON and its numbers differ from Python's: what is stored, counted and sent has to come out
the same. ``read_json`` is its ``JSON.parse``, ``js_json`` its ``JSON.stringify``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final, NoReturn, TypeAlias

from lcm_core.base.text import BLANKS
from lcm_core.base.tokens import has_surrogates

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
JsonObject: TypeAlias = "Mapping[str, Json]"

_LONE: Final = r"[\ud800-\udfff]"  # compiled by `re` when a text calls for it
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_SAFE_INTEGER: Final = 2**53
_LARGEST_INDEX: Final = 2**32 - 2
#: Types whose values both languages write in the same way.
_ALIKE: Final = frozenset({str, bool, type(None)})


def trimmed(text: str) -> str:
    """A text without the blanks at its two ends."""
    return text.strip(BLANKS)


def paired(text: str) -> str:
    """A text in which two halves of a pair that are side by side are one character, as there."""
    if not has_surrogates(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


# -- reading ---------------------------------------------------------------------------------------------


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _whole(digits: str) -> int | float:
    """All numbers of that language are doubles; what a double holds exactly stays an integer here."""
    return int(digits) if len(digits) <= _EXACT_DIGITS else float(digits)


_EXACT_DIGITS: Final = 15
_DECODER: Final = json.JSONDecoder(parse_constant=_refuse, parse_int=_whole)


def read_json(text: str) -> Json:
    """The value that a text writes, as ``JSON.parse`` reads it, however deep it is nested.

    Raises:
        ValueError: it is no JSON.
    """
    value: Json
    try:
        if text[:1] in _BEGINNINGS:  # an engine writes no blanks around it; to look for them takes as long
            value, end = _DECODER.raw_decode(text)
            if end == len(text):
                return value
        value = _DECODER.decode(text)
    except RecursionError:
        return _read_deep(text)
    return value


def parsed_object(text: str | None) -> JsonObject:
    """The object that a text writes; empty when it writes none."""
    try:
        value = read_json(text or "")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


#: With what a value begins that is not a single word or number.
_BEGINNINGS: Final = frozenset('{["')


_REST: Final = re.compile(r"[ \t\n\r]*")


def _read_deep(text: str) -> Json:
    """The same without recursion: the standard library reads about a thousand levels only."""
    top: list[Json] = []
    open_: list[list[Json] | dict[str, Json]] = [top]
    keys: list[str] = []  # one for each object that is open
    at = 0
    while not top or len(open_) > 1:
        inside = open_[-1]
        first = not inside
        if inside is not top:
            end = "}" if isinstance(inside, dict) else "]"
            mark, after = _mark(text, at)
            if mark == end:
                open_.pop()
                if isinstance(inside, dict):
                    keys.pop()
                at = after
                continue
            if not first:
                if mark != ",":
                    raise ValueError(f"no comma at {at}")
                at = after
        if isinstance(inside, dict):
            keys[-1], at = _key(text, at)
        value, at = _value(text, at)
        if isinstance(inside, dict):
            inside[keys[-1]] = value
        else:
            inside.append(value)
        if isinstance(value, list | dict):
            open_.append(value)
            if isinstance(value, dict):
                keys.append("")
    if _skipped(text, at) != len(text):
        raise ValueError(f"more than a value at {at}")
    return top[0]


def _skipped(text: str, at: int) -> int:
    match = _REST.match(text, at)
    return match.end() if match else at


def _mark(text: str, at: int) -> tuple[str, int]:
    at = _skipped(text, at)
    return text[at : at + 1], at + 1


def _key(text: str, at: int) -> tuple[str, int]:
    key, at = _value(text, at)
    colon, after = _mark(text, at)
    if not isinstance(key, str) or colon != ":":
        raise ValueError(f"no key before {at}")
    return key, after


def _value(text: str, at: int) -> tuple[Json, int]:
    """The value at a place and where it ends; of a list or an object only its bracket."""
    mark, after = _mark(text, at)
    if mark == "[":
        return [], after
    if mark == "{":
        return {}, after
    value, end = _DECODER.raw_decode(text, after - 1)
    return value, end


# -- writing ---------------------------------------------------------------------------------------------


def well_formed(text: str) -> str:
    """Text as it reaches a database: half a surrogate pair is no character and becomes U+FFFD."""
    return re.sub(_LONE, "\ufffd", text) if has_surrogates(text) else text


def js_json(value: Json) -> str:
    """A value as ``JSON.stringify`` writes it."""
    try:
        text = written(value)
    except RecursionError:
        text = _written_deep(value)
    return _escaped_halves(text)


def stringify(value: Json) -> str:
    """The same, but empty for what nests too deep or is no JSON, as a message in a host's memory may be."""
    try:
        text = written(value)
    except (RecursionError, ValueError):
        return ""
    return _escaped_halves(text)


def _escaped_halves(text: str) -> str:
    """Halves of a pair without the other one are escaped."""
    return re.sub(_LONE, lambda half: f"\\u{ord(half[0]):04x}", text) if has_surrogates(text) else text


def written(value: Json) -> str:
    """A value as ``JSON.stringify`` writes it, but for halves of surrogate pairs: they stay as they are.

    Raises:
        RecursionError: it is nested deeper than this machine goes.
        ValueError: it holds what JSON has no word for.
    """
    return _written(value) if _is_special(value) else _plain(value)


class _Written(str):
    """A piece of JSON that is written as it is."""

    __slots__ = ()


def _written_deep(value: Json) -> str:
    """The same without recursion: the standard library goes about a thousand levels down only."""
    pieces: list[str] = []
    waiting: list[Json] = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, _Written):
            pieces.append(one)
        elif isinstance(one, Mapping):
            inside: list[Json] = []
            for key, each in ordered_members(one):
                inside += [_Written(f"{',' if inside else ''}{_plain(key)}:"), each]
            waiting += [_Written("}"), *reversed(inside)]
            pieces.append("{")
        elif isinstance(one, Sequence) and not isinstance(one, str):
            listed: list[Json] = []
            for each in one:
                listed += [_Written(","), each] if listed else [each]
            waiting += [_Written("]"), *reversed(listed)]
            pieces.append("[")
        else:
            pieces.append(_written(one))
    return "".join(pieces)


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
        return "{" + ",".join(f"{_plain(key)}:{_written(each)}" for key, each in ordered_members(value)) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ",".join(map(_written, value)) + "]"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return js_number(value)
    return _plain(value)


def _index(key: str) -> int | None:
    """The number that a key is in an object of the engine's language."""
    return int(key) if _INDEX.fullmatch(key) and int(key) <= _LARGEST_INDEX else None


def ordered_members(value: JsonObject) -> list[tuple[str, Json]]:
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


# -- UTF-16 units ------------------------------------------------------------------------------------------


def first_units(text: str, length: int) -> str:
    """The first *length* units; half a pair may be at its end."""
    if text.isascii():
        return text[:length]
    start = text[:length].encode("utf-16-le", "surrogatepass")
    return start[: length * 2].decode("utf-16-le", "surrogatepass")


def last_units(text: str, length: int) -> str:
    """The last *length* units (more than none); half a pair may be at its beginning."""
    if text.isascii():
        return text[-length:]
    end = text[-length:].encode("utf-16-le", "surrogatepass")
    return end[-length * 2 :].decode("utf-16-le", "surrogatepass")
