"""The two timestamp formats of LCM databases, and how times are shown."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lcm_core.base.times import age, engine_label, format_local, iso_z, parse_utc, sort_key, span_of, sql_utc

MOMENTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59), timezones=st.just(UTC))
SECONDS = MOMENTS.map(lambda moment: moment.replace(microsecond=0))
MILLISECONDS = MOMENTS.map(lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000))
NOW = datetime(2026, 3, 6, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-03-02 08:37:11", datetime(2026, 3, 2, 8, 37, 11, tzinfo=UTC)),
        ("2026-03-02T08:37:11.250Z", datetime(2026, 3, 2, 8, 37, 11, 250_000, tzinfo=UTC)),
        ("2026-03-02T08:37:11Z", datetime(2026, 3, 2, 8, 37, 11, tzinfo=UTC)),
        ("2026-03-02T10:37:11+02:00", datetime(2026, 3, 2, 8, 37, 11, tzinfo=UTC)),
        ("2026-03-01 23:07:11-0930", datetime(2026, 3, 2, 8, 37, 11, tzinfo=UTC)),
        ("2026-03-02 08:37", datetime(2026, 3, 2, 8, 37, tzinfo=UTC)),
        ("2026-03-02", datetime(2026, 3, 2, tzinfo=UTC)),
        (" 2026-03-02 08:37:11\n", datetime(2026, 3, 2, 8, 37, 11, tzinfo=UTC)),
        ("2026-03-02T08:37:11.1234567890Z", datetime(2026, 3, 2, 8, 37, 11, 123_456, tzinfo=UTC)),
    ],
)
def test_what_can_be_read(text: str, moment: datetime) -> None:
    assert parse_utc(text) == moment


@pytest.mark.parametrize(
    "text",
    [
        None, "", "now", "1772440631", "2026-02-30 00:00:00", "2026-13-01", "2026-03-02 24:00:00",
        "0000-01-01", "2026-03-02T08:37:11+99:00", "2026-03-02T08:37:11+02:60",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00", "２０２６-03-02", "2026-03-02 08:37:11 junk", "20260302", "2026-W10-1",
    ],
)  # fmt: skip
def test_what_is_no_time(text: str | None) -> None:
    assert parse_utc(text) is None


@pytest.mark.long
@given(st.text() | st.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9:.]{5,12}(Z|[+-][0-9]{2}:[0-9]{2})?"))
def test_reading_never_fails_and_gives_utc(text: str) -> None:
    moment = parse_utc(text)
    assert moment is None or moment.tzinfo is UTC


@pytest.mark.long
@given(SECONDS)
def test_the_sql_form_reads_back(moment: datetime) -> None:
    assert parse_utc(sql_utc(moment)) == moment
    assert len(sql_utc(moment)) == 19


@pytest.mark.long
@given(MILLISECONDS)
def test_the_iso_form_reads_back(moment: datetime) -> None:
    assert parse_utc(iso_z(moment)) == moment
    assert len(iso_z(moment)) == 24


@pytest.mark.long
@given(MILLISECONDS, st.integers(-14 * 60, 14 * 60))
def test_an_offset_names_the_same_moment(moment: datetime, minutes: int) -> None:
    zone = timezone(timedelta(minutes=minutes))
    try:
        written = moment.astimezone(zone).isoformat()
    except OverflowError:
        return
    assert parse_utc(written) == moment
    assert iso_z(moment.astimezone(zone)) == iso_z(moment)


@pytest.mark.long
@given(st.lists(st.tuples(SECONDS, st.sampled_from([sql_utc, iso_z])), min_size=2, max_size=8))
def test_order_is_that_of_julianday(mixed) -> None:
    stamps = [write(moment) for moment, write in mixed]
    with sqlite3.connect(":memory:") as connection:
        connection.execute("create table t (stamp text)")
        connection.executemany("insert into t values (?)", [(stamp,) for stamp in stamps])
        ordered = [s for (s,) in connection.execute("select stamp from t order by julianday(stamp), rowid")]
    connection.close()
    assert sorted(stamps, key=sort_key) == ordered


def test_same_day_stamps_sort_by_time_and_unreadable_ones_first() -> None:
    stamps = ["2026-03-02T08:00:00.000Z", "2026-03-02 09:00:00", "soon", "2026-03-02T10:00:00.000Z"]
    assert sorted(stamps, key=sort_key) == ["soon", stamps[0], stamps[1], stamps[3]]


@pytest.mark.parametrize(
    ("passed", "shown"),
    [
        (timedelta(0), "now"),
        (timedelta(milliseconds=-900), "now"),
        (timedelta(seconds=59), "59s"),
        (timedelta(minutes=3, seconds=59), "3m"),
        (timedelta(hours=23, minutes=59), "23h"),
        (timedelta(days=13, hours=23), "13d"),
        (timedelta(days=14), "2w"),
        (timedelta(days=365), "52w"),
        (timedelta(days=800), "2y"),
        (timedelta(hours=-2), "in 2h"),
    ],
)
def test_age(passed: timedelta, shown: str) -> None:
    assert age(NOW - passed, NOW) == shown


def test_durations_have_one_grammar() -> None:
    days = {"7d": 7, "12w": 84, "6mo": 180, "1y": 365, "2D": 2, "1MO": 30, "last 3w": 21}
    assert {text: span_of(text) for text in days} == {
        text: timedelta(days=count) for text, count in days.items()
    }
    assert [span_of(text) for text in ("30s", "3m", "3M", "5h")] == [
        *(timedelta(seconds=30), timedelta(minutes=3), timedelta(minutes=3), timedelta(hours=5)),
    ]
    assert {span_of(text) for text in ("", "0d", "7", "d", "7 d", "1.5h", "6mon", "9" * 9 + "y")} == {None}


def test_age_of_nothing_is_empty() -> None:
    assert age(None, NOW) == ""


@pytest.mark.long
@given(MOMENTS, MOMENTS)
def test_any_age_is_short(then: datetime, now: datetime) -> None:
    assert len(age(then, now)) <= 8


def test_local_times() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    assert format_local(NOW, berlin) == "2026-03-06 13:00:00"
    assert format_local(NOW, UTC) == "2026-03-06 12:00:00"
    assert format_local(None, UTC) == ""
    assert engine_label(NOW, berlin) == "2026-03-06 13:00 GMT+1"
    assert engine_label(NOW, UTC) == "2026-03-06 12:00 UTC"


@pytest.mark.parametrize(
    ("zone", "label"),
    [
        ("America/Adak", "HAST"),
        ("US/Aleutian", "HAST"),
        ("America/Atka", "HAST"),
        ("America/Whitehorse", "GMT-7"),
        ("Canada/Yukon", "GMT-7"),
        ("Mexico/BajaSur", "GMT-7"),
        ("Pacific/Honolulu", "HST"),
    ],
)
def test_a_zone_of_another_name_has_the_same_label(zone: str, label: str) -> None:
    """As ICU writes them for January 2026, tried with the engine's own runtime."""
    assert engine_label(datetime(2026, 1, 6, 12, 0, tzinfo=UTC), ZoneInfo(zone)).endswith(f" {label}")


@given(MOMENTS)
def test_the_ends_of_the_calendar_can_be_shown(moment: datetime) -> None:
    for hours in (-14, 14):
        assert len(format_local(moment, timezone(timedelta(hours=hours)))) == 19
