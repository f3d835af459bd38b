"""Reads and writes the timestamps of LCM databases.

Two formats are in one column (docs/spec/format.md, "Times"): ``YYYY-MM-DD HH:MM:SS`` in UTC without
saying so (SQLite's default) and ISO with milliseconds and ``Z``. As text they sort wrongly against each
other, so nothing may compare them as text; here they become aware datetimes in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final

from lcm_core.base.errors import UsageError
from lcm_core.base.text import BLANKS

_STAMP: Final = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[ T](?P<minute>(?:[01][0-9]|2[0-3]):[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]+))?)?"
    r"[ ]?(?P<zone>[Zz]|[+-][0-9]{2}:?[0-9]{2})?)?"
)
#: A month and a year have the days that they have for the engine's own pruning (docs/spec/doctor.md,
#: "Its cleaners").
_DURATION_UNITS: Final = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
    "mo": timedelta(days=30),
    "y": timedelta(days=365),
}
#: What a duration is, for those who typed something else.
DURATION: Final = "a number and one of s, m (minutes), h, d, w, mo (30 days), y (365 days)"
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


@lru_cache(maxsize=4096)  # a list that is loaded again and again asks for the same ones
def parse_utc(text: str | None) -> datetime | None:
    """The moment that *text* names, in UTC, or None when it is neither of the formats (never an error).

    A stamp without a zone is UTC; offsets, minutes without seconds and bare dates are read too. Digits after
    the microsecond are dropped.
    """
    match = _STAMP.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        return None
    fraction = (match["fraction"] or "")[:6].ljust(6, "0")
    clock = f"{match['minute'] or '00:00'}:{match['second'] or '00'}.{fraction}"
    try:
        moment = datetime.fromisoformat(f"{match['date']}T{clock}")
        return moment.replace(tzinfo=_zone(match["zone"])).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


@lru_cache(maxsize=4096)
def engine_moment(text: str | None) -> datetime | None:
    """The moment that the engine reads in a stamp, in UTC, or None where it reads none (never an error).

    Stricter and laxer than `parse_utc` (docs/spec/texts.md, "Stamps"): a day that a month lacks is one of
    the next month, 24:00:00 is the next day; an offset has a colon.
    """
    match = _ENGINE_STAMP.fullmatch(text.strip(BLANKS)) if text else None
    if match is None:
        return None
    month, day, hour, minute, second = (int(match[name] or 0) for name in _FIELDS)
    if day > 31 or hour > 24 or minute > 59 or second > 59:
        return None
    micro = int((match["fraction"] or "")[:6].ljust(6, "0"))
    if hour == 24 and (minute or second or micro):
        return None
    passed = timedelta(day - 1, second, micro, minutes=minute, hours=hour)
    try:
        first = datetime(int(match["year"]), month, 1, tzinfo=_zone(match["zone"]))
        return (first + passed).astimezone(UTC) if day else None
    except (ValueError, OverflowError):
        return None


_ENGINE_STAMP: Final = re.compile(
    r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
    r"(?:[ T](?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]+))?)?"
    r"(?P<zone>[Zz]|[+-][0-9]{2}:[0-9]{2})?)?"
)
_FIELDS: Final = ("month", "day", "hour", "minute", "second")


def _zone(written: str | None) -> timezone:
    if written is None or written in "Zz":
        return UTC
    hours, minutes = int(written[1:3]), int(written[-2:])
    if minutes > 59:
        raise ValueError(written)
    offset = timedelta(hours=hours, minutes=minutes)
    return timezone(-offset if written[0] == "-" else offset)


def sort_key(text: str | None) -> datetime:
    """Orders stamps of both formats by time; one that cannot be read comes before all others."""
    return parse_utc(text) or _NEVER


def iso_z(moment: datetime) -> str:
    """``YYYY-MM-DDTHH:MM:SS.sssZ``, as JavaScript writes it; a moment without a zone is UTC."""
    return _in_utc(moment).strftime("%Y-%m-%dT%H:%M:%S.").zfill(20) + f"{moment.microsecond // 1000:03d}Z"


def iso_or_none(moment: datetime | None) -> str | None:
    """`iso_z` of a moment that may be unknown."""
    return None if moment is None else iso_z(moment)


def with_z(stored: str) -> str:
    """A stored time for programs: one without a zone is UTC, and says so."""
    match = _STAMP.fullmatch(stored)
    return f"{stored}Z" if match and match["minute"] and not match["zone"] else stored


def sql_utc(moment: datetime) -> str:
    """``YYYY-MM-DD HH:MM:SS`` in UTC, as SQLite's ``datetime('now')`` writes it."""
    return _in_utc(moment).replace(tzinfo=None).isoformat(" ", "seconds")


def _in_utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def format_local(moment: datetime | None, zone: tzinfo | None = None) -> str:
    """``YYYY-MM-DD HH:MM:SS`` in *zone* (None: that of this machine); empty for None."""
    return _shifted(moment, zone).strftime("%Y-%m-%d %H:%M:%S").zfill(19) if moment else ""


def format_zoned(moment: datetime | None, zone: tzinfo | None = None) -> str:
    """The same with its zone, ``Z`` or ``±HH:MM``; `typed_moment` reads the same second in it everywhere."""
    if moment is None:
        return ""
    local = _shifted(moment, zone)
    if local.strftime("%z")[5:]:  # an offset of old, with seconds, which no stamp has
        zone = UTC
    return f"{format_local(moment, zone)}{_offset(_shifted(moment, zone))}"


def format_clock(moment: datetime, zone: tzinfo | None = None) -> str:
    """As `format_local`; with its offset where the clocks of *zone* are set back and show that time twice."""
    local = _shifted(moment, zone).replace(tzinfo=None)
    twice = len({_in_zone(local.replace(fold=fold), zone) for fold in (0, 1)}) > 1
    return (format_zoned if twice else format_local)(moment, zone)


def zone_words(zone: tzinfo | None) -> str:
    """What a zone is called for people: its name in the tz database, or the offset that holds here."""
    if zone is not None:
        return str(zone)
    offset = _offset(datetime.now(UTC).astimezone())
    return "UTC" if offset == "Z" else f"local time (UTC{offset})"


def zone_sign(zone: tzinfo | None) -> str:
    """A zone in few cells: ``UTC+5:30``; both names where its clocks change over the year, ``CET/CEST``."""
    year = datetime.now(UTC).year
    halves = [_shifted(datetime(year, month, 1, tzinfo=UTC), zone) for month in (1, 7)]
    first, second = sorted(halves, key=lambda one: one.utcoffset() or timedelta())
    offsets = [_short_offset(one) for one in (first, second)]
    if offsets[0] == offsets[1]:
        return f"UTC{offsets[0]}"
    names = [one.tzname() or "" for one in (first, second)]
    return "/".join(names) if all(map(str.isalpha, names)) else f"UTC{'/'.join(offsets)}"


def _short_offset(local: datetime) -> str:
    """``+8``, ``-3:30``; empty in UTC."""
    written = local.strftime("%z")
    hours, minutes = int(written[1:3]), int(written[3:5])
    return f"{written[0]}{hours}{f':{minutes:02}' if minutes else ''}" if hours or minutes else ""


def _offset(local: datetime) -> str:
    """``Z`` in UTC, else ``±HH:MM``."""
    written = local.strftime("%z")
    return "Z" if local.tzname() == "UTC" else f"{written[:3]}:{written[3:5]}"


def typed_moment(text: str, zone: tzinfo | None = None) -> datetime | None:
    """The moment, in UTC, of a time that a person typed; None when it is no time.

    Without a zone of its own it is one of *zone* (None: that of this machine), as it is shown; a date alone
    is its first moment there (docs/spec/decisions.md, "Times").

    Raises:
        UsageError: *zone* has that time twice, or skips it.
    """
    moment = parse_utc(text)
    match = _STAMP.fullmatch(text.strip())
    if moment is None or match is None or match["zone"]:
        return moment
    naive = moment.replace(tzinfo=None)
    first, second = sorted(_in_zone(naive.replace(fold=fold), zone) for fold in (0, 1))
    if first == second:
        return first
    occurs = _shifted(first, zone).replace(tzinfo=None, fold=0) == naive
    if match["minute"] is None:
        return first if occurs else second
    earlier, later, named = format_zoned(first, zone), format_zoned(second, zone), zone_words(zone)
    problem = (
        f"occurs twice in {named}, because the clocks are set back"
        if occurs
        else f"does not exist in {named}, because the clocks are set forward"
    )
    raise UsageError(
        f"{text.strip()} {problem}: type {earlier} or {later}.",
        code="INVALID_TIME_FILTER",
        details={"value": text},
    )


def _in_zone(naive: datetime, zone: tzinfo | None) -> datetime:
    """A reading of a clock of *zone* in UTC; where the calendar ends, it is one of UTC."""
    try:
        return (naive.astimezone() if zone is None else naive.replace(tzinfo=zone)).astimezone(UTC)
    except (OverflowError, OSError, ValueError):
        return naive.replace(tzinfo=UTC, fold=0)


def engine_label(moment: datetime, zone: tzinfo | None = None) -> str:
    """``YYYY-MM-DD HH:mm TZ``, as the engine heads a source text (docs/spec/texts.md, "Stamps")."""
    local = _shifted(moment, zone)
    return f"{local.strftime('%Y-%m-%d %H:%M').zfill(16)} {_zone_name(local)}"


#: The short names that English has for zones (Unicode CLDR), with their offset in hours: an abbreviation
#: alone says nothing, CST is also Shanghai. All other zones are written as their offset.
_ENGLISH: Final[Mapping[tuple[str, float], str]] = {
    ("AST", -4): "AST",
    ("ADT", -3): "ADT",
    ("EST", -5): "EST",
    ("EDT", -4): "EDT",
    ("CST", -6): "CST",
    ("CDT", -5): "CDT",
    ("MST", -7): "MST",
    ("MDT", -6): "MDT",
    ("PST", -8): "PST",
    ("PDT", -7): "PDT",
    ("AKST", -9): "AKST",
    ("AKDT", -8): "AKDT",
    ("HST", -10): "HST",
    ("HDT", -9): "HADT",
    ("UTC", 0): "UTC",
    ("GMT", 0): "GMT",
}
#: Zones of those names that English has no name for, or another one: the name here, what is said of it.
_PECULIAR: Final = {
    ("America/Adak", "HST"): "HAST",
    ("America/Atka", "HST"): "HAST",
    ("US/Aleutian", "HST"): "HAST",
    ("America/Dawson", "MST"): "GMT-7",
    ("America/Hermosillo", "MST"): "GMT-7",
    ("America/Mazatlan", "MST"): "GMT-7",
    ("America/Whitehorse", "MST"): "GMT-7",
    ("Canada/Yukon", "MST"): "GMT-7",
    ("Mexico/BajaSur", "MST"): "GMT-7",
    ("Antarctica/Troll", "+00"): "GMT",
    ("Etc/GMT", "GMT"): "UTC",
    ("GMT", "GMT"): "UTC",
    ("GMT+0", "GMT"): "UTC",
    ("GMT-0", "GMT"): "UTC",
    ("GMT0", "GMT"): "UTC",
}


def _zone_name(local: datetime) -> str:
    """The name of a moment's zone as ICU writes it in English: ``EDT``, ``GMT+9``, ``GMT+5:30``."""
    name = local.tzname() or "UTC"
    key = getattr(local.tzinfo, "key", None)
    minutes = round((local.utcoffset() or timedelta()).total_seconds() / 60)
    english = _PECULIAR.get((str(key), name)) or _ENGLISH.get((name, minutes / 60))
    if english is not None:
        return english
    hours, rest = divmod(abs(minutes), 60)
    return f"GMT{'-' if minutes < 0 else '+'}{hours}{f':{rest:02d}' if rest else ''}"


def _shifted(moment: datetime, zone: tzinfo | None) -> datetime:
    """*moment* in *zone*, or in UTC where the calendar ends."""
    try:
        return _in_utc(moment).astimezone(zone)
    except (OverflowError, OSError, ValueError):
        return _in_utc(moment)


_UNITS: Final = (("y", 31_557_600), ("w", 604_800), ("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def age(then: datetime | None, now: datetime) -> str:
    """How long ago in one unit (``3m``, ``5d``, ``12w``), or ``in 2h``; at most 8 characters; empty for None.

    Weeks begin at 14 days, years at 365.25 days; under a second either way is ``now``.
    """
    if then is None:
        return ""
    seconds = int((_in_utc(now) - _in_utc(then)).total_seconds())
    if seconds == 0:
        return "now"
    size = abs(seconds)
    name, unit = next((n, u) for n, u in _UNITS if size >= (u * 2 if n == "w" else u))
    return f"in {size // unit}{name}" if seconds < 0 else f"{size // unit}{name}"


def span_of(value: str) -> timedelta | None:
    """How long a text such as ``24h``, ``6mo`` or ``last 3h`` says; None when it says nothing."""
    match = re.fullmatch(r"(?:last +)?([0-9]{1,9})([smhdwy]|mo)", value.lower())
    try:
        return int(match[1]) * _DURATION_UNITS[match[2]] or None if match else None
    except OverflowError:
        return None
