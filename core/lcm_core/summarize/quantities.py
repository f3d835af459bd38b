"""Numbers with what they count, and which ways of writing them are equal (docs/retention.md, "Numbers").

``1,250`` may be more than a thousand or a fraction: a number that can be read in several ways has
several values, and two agree when one of the values does. So do 4000 and 4k, 30 s and 0.5 min.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from lcm_core.summarize.language import Span
from lcm_core.summarize.units import (
    CHINESE_NUMBER,
    DENSE_MULTIPLIER,
    DENSE_UNIT,
    HALF_AN_HOUR,
    NUMBER_WORDS,
    ROUGHLY,
    Unit,
    chinese_number,
    multiplier_of,
    unit_of,
)

#: A dimension and the size in its base unit; ``one`` counts nothing that is known.
Value = tuple[str, float]
#: The dimension of a number without a unit.
ONE: Final = "one"


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number in a text, with its unit when it has one."""

    place: Span
    values: frozenset[Value]  #: all that it can mean
    key: str  #: the number and its unit in short
    unit: str  #: empty: none that is known
    bare: bool = False  #: nothing is said of what it counts, as behind ``timeout=``
    parts: tuple[frozenset[Value], ...] = ()  #: of a time in several units
    rough: float = 0.0  #: how far off, as a share, it may be: it says "about"


_NUMBER: Final = re.compile(
    r"(?P<money>(?:US)?[$€£¥₪₩₽₹]\s?)?"
    r"(?:(?<![\w.:/#])(?<![A-Za-z_]-)(?<!\d[.,])|(?<=\d[hmd]))"
    r"(?P<value>\d{1,3}(?:[\u00a0\u202f\u2009'_]\d{3})+(?:[.,]\d+)?(?!\d)"
    r"|\d{1,3}(?: \d{3})+(?:[.,]\d+)?(?!\d)(?=\s?[^\W\d_%]|\s?%)"
    r"|\d+(?:[.,]\d+)*(?:[eE][+-]?\d+)?)(?![.,]?\d)",
    re.ASCII,
)
#: A letter of a script with spaces: in the others a unit sticks to what follows.
_LETTER: Final = "[^\\W\\d_\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]"
_UNIT_AT: Final = re.compile(
    rf"[ \u00a0\u202f\u2009]{{0,2}}-?(?P<word>%|°[CcFf]|[$€£¥₪₩₽₹¢×℃℉]|{_LETTER}+)"
    rf"(?:(?!{_LETTER}|[0-9_])|(?<=\d[hmd])(?=\d))"
)
_DENSE_AT: Final = re.compile(
    rf"[ \u00a0]?(?:(?P<multiplier>{DENSE_MULTIPLIER.pattern})[ \u00a0]?)?(?:多|余)?"
    rf"(?P<unit>{DENSE_UNIT.pattern})?"
)
_PER: Final = re.compile(
    r"\s?/\s?(?P<word>[^\W\d_]+)|\s(?:per|a|an|pro|par|por|al|в|за)\s(?P<said>[^\W\d_]+)", re.IGNORECASE
)
_RANGE: Final = re.compile(
    r"\s?(?:-|\u2013|\u2014|\.{2,3}|~|〜|～|to|bis|a|à|до|עד|إلى|الى|到|至|から|and|und|et|y|и)\s?",
    re.IGNORECASE,
)
_JOINED: Final = re.compile(r"[ \u00a0]?(?:,|and|und|et|y|e|и|ו|و)?[ \u00a0]?", re.IGNORECASE)
#: 4k tokens
_SIZES: Final = {"k": 1e3, "K": 1e3, "M": 1e6}
_TOLD: Final = re.compile(r"[=:|]\s*[\"'`]?$")
_PERCENT_FIRST: Final = re.compile(r"百分之\s?$")
_WORDED: Final = re.compile(
    r"(?<![\w-])(?P<number>"
    + "|".join(sorted(map(re.escape, NUMBER_WORDS), key=lambda word: -len(word)))
    + r")[ -](?P<unit>[^\W\d_]+)",
    re.IGNORECASE,
)
_CHINESE: Final = re.compile(
    rf"(?<![\d第零〇一二两兩三四五六七八九十百千])(?P<percent>百分之)?(?P<number>{CHINESE_NUMBER.pattern})"
    r"(?(percent)|(?P<unit>个?小时|個?小時|小时|分钟|分鐘|分間|秒钟|秒|毫秒|時間|天|周|週間|个月|個月|か月|ヶ月|年|兆字?节?|字节|元|円))"
)
#: Decimals to which two values are equal.
_DIGITS: Final = 9


def readings(written: str) -> frozenset[float]:
    """The values that a number can have as it is written; empty when it is none.

    A point or comma before three digits may part thousands or the fraction.
    """
    plain = re.sub(r"(?<=\d)[ \u00a0\u202f\u2009'_](?=\d)", "", written)
    mantissa, _, exponent = plain.lower().partition("e")
    power = 10.0 ** min(max(int(exponent), -300), 300) if exponent else 1.0
    marks = [sign for sign in mantissa if sign in ".,"]
    if not marks:
        found = {float(mantissa)}
    elif len(set(marks)) == 2:
        last = max(mantissa.rfind("."), mantissa.rfind(","))
        if marks.count(mantissa[last]) > 1:
            return frozenset()
        found = {float(re.sub(r"[.,]", "", mantissa[:last]) + "." + mantissa[last + 1 :])}
    elif len(marks) > 1:
        groups = re.split(r"[.,]", mantissa)
        if len(groups[-1]) != 3 or any(len(group) not in (2, 3) for group in groups[1:]):
            return frozenset()
        found = {float("".join(groups))}
    else:
        whole, fraction = re.split(r"[.,]", mantissa)
        found = {float(f"{whole}.{fraction}")}
        if fraction == "000" and len(whole) <= 3 and not whole.startswith("0"):
            found = {float(whole + fraction)}
        elif len(fraction) == 3 and 1 <= len(whole) <= 3 and not whole.startswith("0"):
            found.add(float(whole + fraction))
    return frozenset(value * power for value in found if value * power < 1e300)


def quantities(text: str) -> list[Quantity]:
    """The numbers of a text whose digits are ASCII (`identifiers.folded`), in order."""
    found = [*_written(text), *_worded(text)]
    found.sort(key=lambda one: one.place)
    return list(_joined(_ranged(found, text), text))


def _written(text: str) -> Iterator[Quantity]:
    for match in _NUMBER.finditer(text):
        numbers = readings(match["value"])
        if not numbers:
            continue
        start, at = match.start("value"), match.end("value")
        unit, factor, end = _unit_at(text, at)
        if unit is None and match["money"]:
            unit = unit_of(match["money"].strip())
        if match["money"] and unit is not None and (unit.name in ("k", "M") or not _is_money(unit)):
            # $4k
            sized = _SIZES.get(unit.name, factor)
            unit, factor = unit_of(match["money"].strip()), sized
        if match["money"]:
            start = match.start("money")
        before = text[max(start - 16, 0) : start]
        if unit is None and _PERCENT_FIRST.search(before):
            unit = unit_of("%")
        yield _quantity(text, (start, end), numbers, unit, factor, before, match["value"])


def _is_money(unit: Unit) -> bool:
    return unit.name in {"USD", "EUR", "GBP", "JPY", "CNY", "yen or yuan", "KRW", "ILS", "RUB", "INR", "cent"}


def _unit_at(text: str, at: int) -> tuple[Unit | None, float, int]:
    """The unit right behind a number, what multiplies it, and where that ends."""
    factor = 1.0
    while True:
        match = _UNIT_AT.match(text, at)
        if match is None:
            break
        word = match["word"]
        more = multiplier_of(word)
        if more is not None and factor == 1.0:
            factor, at = more, match.end()
            if text[at : at + 1] == ".":
                at += 1
            continue
        unit = unit_of(word)
        following = _UNIT_AT.match(text, match.end())
        if word in _SIZES and factor == 1.0 and following is not None and unit_of(following["word"]):
            factor, at = _SIZES[word], match.end()
            continue
        if unit is not None:
            return _per(text, unit, match.end(), factor)
        break
    dense = _DENSE_AT.match(text, at)
    if dense is not None and dense.end() > at and (dense["multiplier"] or dense["unit"]):
        factor *= (
            multiplier_of(dense["multiplier"]) or _dense_factor(dense["multiplier"])
            if dense["multiplier"]
            else 1.0
        )
        unit = unit_of(dense["unit"]) if dense["unit"] else None
        return unit, factor, dense.end()
    return None, factor, at


def unit_behind(text: str, at: int) -> bool:
    """Whether a number that ends at *at* has a unit."""
    unit, factor, _ = _unit_at(text, at)
    return unit is not None or factor != 1.0


def _dense_factor(written: str) -> float:
    product = 1.0
    for sign in written:
        product *= {"百": 100.0}.get(sign) or multiplier_of(sign) or 1.0
    return product


def _per(text: str, unit: Unit, at: int, factor: float) -> tuple[Unit, float, int]:
    """``/s``, per second."""
    match = _PER.match(text, at)
    below = unit_of(match["word"] or match["said"]) if match else None
    if match is None or below is None or below.counts or below.name == unit.name:
        return unit, factor, at
    readings_of = tuple(
        (f"{above}/{under}", size / under_size)
        for above, size in unit.readings
        for under, under_size in below.readings
    )
    return Unit(f"{unit.name}/{below.name}", readings_of), factor, match.end()


def _quantity(
    text: str,
    place: Span,
    numbers: Iterable[float],
    unit: Unit | None,
    factor: float,
    before: str,
    written: str,
) -> Quantity:
    sizes = unit.readings if unit is not None else ((ONE, 1.0),)
    values = {(name, _rounded(number * factor * size)) for number in numbers for name, size in sizes}
    value = min(numbers) if unit is None or len(list(numbers)) == 1 else max(numbers)
    short = f"{_short(value * factor if unit is None else value)} {unit.name if unit else ''}".rstrip()
    if unit is not None and factor != 1.0:
        short = f"{_short(value * factor)} {unit.name}"
    behind = text[place[1] : place[1] + 2].strip()
    bare = unit is None and (bool(_TOLD.search(before)) or behind.startswith("|"))
    rough = 0.0
    if ROUGHLY.search(before):
        digits = len(re.sub(r"\D", "", written).strip("0")) or 1
        rough = 0.5 * 10.0 ** -(digits - 1)
    return Quantity(place, frozenset(values), short, unit.name if unit else "", bare, (), rough)


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _short(value: float) -> str:
    return f"{value:.15g}"


def _worded(text: str) -> Iterator[Quantity]:
    """Numbers in words, only with a measure: thirty seconds, 三十秒, half an hour."""
    for match in _WORDED.finditer(text):
        unit = unit_of(match["unit"])
        if unit is not None and not unit.counts and unit.name not in ("x", "m", "an"):
            number = float(NUMBER_WORDS[match["number"].lower()])
            unit, factor, end = _per(text, unit, match.end(), 1.0)
            yield _quantity(text, (match.start(), end), (number,), unit, factor, "", "")
    for match in _CHINESE.finditer(text):
        value = chinese_number(match["number"])
        unit = unit_of("%") if match["percent"] else unit_of(match["unit"])
        if value is not None and value > 1 and unit is not None:
            yield _quantity(text, match.span(), (value,), unit, 1.0, "", "")
    hour = unit_of("h")
    for match in HALF_AN_HOUR.finditer(text):
        yield _quantity(text, match.span(), (0.5,), hour, 1.0, "", "")


def _ranged(found: list[Quantity], text: str) -> list[Quantity]:
    """The first number of a range has the unit of the second."""
    for at in range(len(found) - 2, -1, -1):
        one, other = found[at], found[at + 1]
        gap = text[one.place[1] : other.place[0]]
        if not one.unit and other.unit and len(gap) < 8 and _RANGE.fullmatch(gap):
            numbers = [value for name, value in one.values if name == ONE]
            unit = unit_of(other.unit.partition("/")[0])
            if unit is not None and "/" not in other.unit:
                values = {
                    (name, _rounded(number * size)) for number in numbers for name, size in unit.readings
                }
                key = f"{_short(min(numbers))} {unit.name}"
                found[at] = Quantity(one.place, frozenset(values), key, unit.name, False, (), one.rough)
    return found


_TIME_UNITS: Final = ("week", "d", "h", "min", "m", "s", "ms")


def _joined(found: Iterable[Quantity], text: str) -> Iterator[Quantity]:
    """1 h 30 min is one time."""
    last: Quantity | None = None
    for one in found:
        if last is not None and one.place[0] < last.place[1]:
            continue  # a number in words within another
        if last is not None and _continues(last, one, text):
            sums = {
                ("time", _rounded(more + less))
                for name, more in last.values
                for other, less in one.values
                if name == other == "time"
            }
            parts = (*(last.parts or (last.values,)), one.values)
            key = f"{last.key} {one.key}"
            last = Quantity((last.place[0], one.place[1]), frozenset(sums), key, one.unit, False, parts)
            continue
        if last is not None:
            yield last
        last = one
    if last is not None:
        yield last


def _continues(one: Quantity, other: Quantity, text: str) -> bool:
    return (
        one.unit in _TIME_UNITS
        and other.unit in _TIME_UNITS
        and _TIME_UNITS.index(one.unit) < _TIME_UNITS.index(other.unit)
        and len(text[one.place[1] : other.place[0]]) < 6
        and _JOINED.fullmatch(text[one.place[1] : other.place[0]]) is not None
    )


class Known:
    """The numbers of a source, to look others up in."""

    def __init__(self, found: Iterable[Quantity]) -> None:
        self._values: set[Value] = set()
        self._bare: set[float] = set()
        self._any: set[float] = set()
        self._sizes: dict[str, list[float]] = {}
        for one in found:
            for values in (one.values, *one.parts):
                self._values |= values
                for name, size in values:
                    self._sizes.setdefault(name, []).append(size)
            if not one.unit:
                plain = {value for name, value in one.values if name == ONE}
                self._any |= plain
                if one.bare:
                    self._bare |= plain

    def holds(self, one: Quantity) -> bool:
        """Whether *one* is told here in any way that is equal."""
        if not self._values.isdisjoint(one.values):
            return True
        if one.parts and all(not self._values.isdisjoint(part) for part in one.parts):
            return True
        numbers = readings_of_key(one.key)
        if one.unit and not numbers.isdisjoint(self._bare):
            return True
        counts = bool(one.unit) and all(name.startswith("#") for name, _ in one.values)
        if counts and not numbers.isdisjoint(self._any):
            return True
        return bool(one.rough) and any(
            abs(size - told) <= one.rough * abs(told)
            for name, told in one.values
            for size in self._sizes.get(name, ())
        )


def readings_of_key(key: str) -> frozenset[float]:
    """The number at the beginning of a key, as it stands."""
    try:
        return frozenset({_rounded(float(key.partition(" ")[0]))})
    except ValueError:
        return frozenset()
