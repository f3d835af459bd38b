"""A time that is shown is the time that is typed, in every zone (docs/spec/decisions.md, "Times")."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lcm_core.api import UsageError
from lcm_core.base.times import (
    format_clock,
    format_local,
    format_zoned,
    iso_z,
    parse_utc,
    sql_utc,
    typed_moment,
    zone_sign,
    zone_words,
)
from lcm_core.operations.past_point import parse_point

from lcm_tui.screens.narrowing import parse_narrowing
from tests.cli.support import run
from tests.databases import building, new_database

ZONES = ("Asia/Shanghai", "America/St_Johns", "Europe/Berlin", "Asia/Kathmandu", "UTC")
SHOWN = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(?:Z|[+-][0-9]{2}:[0-9]{2})")
NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
#: Times of a clock, and by how much it was moved: forward or back.
MOVED = (
    ("Europe/Berlin", "2026-03-29 02:30", 1),
    ("Europe/Berlin", "2026-10-25 02:30", -1),
    ("America/St_Johns", "2026-03-08 02:15", 1),
    ("America/St_Johns", "2026-11-01 01:15", -1),
    ("Australia/Lord_Howe", "2026-10-04 02:10", 1),
    ("Australia/Lord_Howe", "2026-04-05 01:45", -1),
)


def set_zone(name: str) -> None:
    os.environ["TZ"] = name  # which the fixture of all tests puts back
    time.tzset()


def database(path: Path, *times: datetime) -> Path:
    """A conversation with a message of each time, in both formats of the engine in turns."""
    with building(new_database(path)) as rows:
        owner = rows.conversation(1, session_key="agent:main:main")
        for number, moment in enumerate(times):
            stamp = (sql_utc, iso_z)[number % 2](moment)
            rows.message(owner, f"note {number}", created_at=stamp)
    return path


def listed(path: Path, *options: str) -> list[str]:
    """The times that `messages list` shows, the newest first."""
    result = run("messages", "list", 1, *options, "--db", path)
    assert result.code == 0, result.err
    return SHOWN.findall(result.out)


@pytest.mark.cases(1)
@pytest.mark.parametrize("zone", ZONES)
def test_a_time_typed_as_it_is_shown_means_that_moment(zone: str, tmp_path: Path) -> None:
    set_zone(zone)
    path = database(tmp_path / "lcm.db", *(NOON + timedelta(minutes=one) for one in range(6)))
    shown = listed(path)
    assert [parse_utc(one) for one in shown] == [NOON + timedelta(minutes=one) for one in range(5, -1, -1)]
    for cut in (len("2026-03-02 12:00:00"), len("2026-03-02 12:00"), None):  # without its zone, too
        typed = [one[:cut] for one in shown]
        assert listed(path, "--after", typed[2]) == shown[:3]
        assert listed(path, "--before", typed[2]) == shown[3:]
        assert listed(path, "--between", f"{typed[4]}..{typed[1]}") == shown[2:5]
    hits = run("grep", "note", "--since", shown[1][:19], "--db", path, "--json").data["hits"]
    assert {parse_utc(one["at"]) for one in hits} == {NOON + timedelta(minutes=one) for one in (4, 5)}
    assert all(one["at"].endswith("Z") for one in hits)


@pytest.mark.parametrize("zone", ZONES)
def test_with_utc_both_are_utc(zone: str, tmp_path: Path) -> None:
    set_zone(zone)
    path = database(tmp_path / "lcm.db", NOON, NOON + timedelta(hours=1))
    assert listed(path, "--utc") == ["2026-03-02 13:00:00Z", "2026-03-02 12:00:00Z"]
    assert listed(path, "--utc", "--after", "2026-03-02 12:30") == ["2026-03-02 13:00:00Z"]


@pytest.mark.cases(1)
@pytest.mark.parametrize("zone", ZONES)
def test_what_was_just_done_is_not_older_than_an_hour(zone: str, tmp_path: Path) -> None:
    set_zone(zone)
    path = tmp_path / "lcm.db"
    with building(new_database(path)) as rows:
        owner = rows.conversation(1, session_key="agent:main:main")
        for one in ("sum_a", "sum_b"):
            said = rows.message(owner, "note", in_context=False)
            rows.summary(owner, one, "A note.", messages=[said], created_at=sql_utc(NOON))
        rows.summary(owner, "sum_top", "Notes.", sources=["sum_a", "sum_b"], in_context=True)
    assert run("dissolve", "sum_top", "--apply", "--yes", "--db", path).code == 0
    [when] = SHOWN.findall(run("history", "list", "--db", path).out)
    local = parse_utc(f"{when[:19]}Z")
    assert local is not None
    for hours, count in ((-1, 0), (1, 1)):
        limit = sql_utc(local + timedelta(hours=hours))
        pruned = run("history", "prune", "--until", limit, "--db", path, "--json")
        assert pruned.data["operations"] == count, (limit, pruned.data)
    before = run("context", 1, "--at", sql_utc(local - timedelta(seconds=1)), "--db", path)
    assert f"as it was at {sql_utc(local - timedelta(seconds=1))}" in before.out
    assert "sum_top" in before.out


@pytest.mark.cases(2)
@pytest.mark.parametrize(("zone", "typed", "moved"), MOVED)
def test_an_hour_that_a_zone_has_twice_or_not_at_all_is_not_guessed(
    zone: str, typed: str, moved: int, tmp_path: Path
) -> None:
    set_zone(zone)
    naive = datetime.fromisoformat(typed)
    times = [naive.replace(tzinfo=ZoneInfo(zone), fold=fold).astimezone(UTC) for fold in (0, 1)]
    path = database(tmp_path / "lcm.db", *sorted(times))
    shown = listed(path)
    for option in ("--after", "--before"):
        refused = run("messages", "list", 1, option, typed, "--db", path)
        assert refused.code == 2
        assert ("occurs twice" if moved < 0 else "does not exist") in refused.err
        assert zone in refused.err
        assert all(one in refused.err for one in shown)
    assert listed(path, "--after", shown[0]) == shown[:1]
    assert listed(path, "--before", shown[0]) == shown[1:]
    for refusing in (
        lambda: parse_narrowing(typed, ZoneInfo(zone)),
        lambda: parse_point(typed, ZoneInfo(zone)),
        lambda: typed_moment(typed, None),
    ):
        with pytest.raises(UsageError, match="occurs twice" if moved < 0 else "does not exist"):
            refusing()


def test_a_day_begins_where_it_begins() -> None:
    havana, shanghai = ZoneInfo("America/Havana"), ZoneInfo("Asia/Shanghai")
    assert typed_moment("2026-03-08", havana) == datetime(
        2026, 3, 8, 5, 0, tzinfo=UTC
    )  # there is no midnight
    assert typed_moment("2026-03-02", shanghai) == datetime(2026, 3, 1, 16, 0, tzinfo=UTC)
    assert typed_moment("9999-12-31 23:59", ZoneInfo("America/St_Johns")) is not None
    assert typed_moment("0001-01-01", shanghai) is not None
    assert typed_moment("yesterday", shanghai) is None


@pytest.mark.parametrize(("zone", "typed", "moved"), MOVED)
def test_a_clock_says_which_of_two_hours_it_shows(zone: str, typed: str, moved: int) -> None:
    where, naive = ZoneInfo(zone), datetime.fromisoformat(typed)
    shown = [format_clock(naive.replace(tzinfo=where, fold=fold).astimezone(UTC), where) for fold in (0, 1)]
    assert len(set(shown)) == 2
    assert all(bool(SHOWN.fullmatch(one)) == (moved < 0) for one in shown)
    assert format_clock(NOON, where) == format_local(NOON, where)


def test_filters_of_the_app_are_local() -> None:
    shanghai = ZoneInfo("Asia/Shanghai")
    day = parse_narrowing("2026-03-02", shanghai).filter
    assert day.since == "2026-03-01T16:00:00.000Z"
    exact = parse_narrowing("summaries 2026-03-02 17:05", shanghai).filter
    assert exact.since == "2026-03-02T09:05:00.000Z"
    period = parse_narrowing("2026-03-02 17:05..2026-03-02T17:06:00+08:00 3", shanghai).filter
    assert (period.since, period.before) == ("2026-03-02T09:05:00.000Z", "2026-03-02T09:06:00.000Z")
    point = parse_point("2026-03-02 17:05", shanghai)
    assert point is not None
    assert point.text == "2026-03-02T09:05:00.000Z"


def test_lists_for_programs_keep_the_rule_of_the_engine(tmp_path: Path) -> None:
    set_zone("Asia/Shanghai")
    path = database(tmp_path / "lcm.db", NOON)
    refused = run("messages", "list", "1", "--after", "2026-03-02 12:00", "--json", "--db", path)
    assert (refused.code, refused.error["code"]) == (2, "INVALID_TIME_FILTER")
    items = run("messages", "list", "1", "--after", "2026-03-02T12:00:00Z", "--json", "--db", path).data[
        "items"
    ]
    assert len(items) == 1


@pytest.mark.long
@pytest.mark.parametrize("zone", ["Asia/Shanghai", "America/St_Johns", "<+0330>-3:30"])
def test_a_process_shows_and_reads_the_zone_of_its_environment(zone: str, tmp_path: Path) -> None:
    path = database(tmp_path / "lcm.db", NOON, NOON + timedelta(minutes=1))
    call = [sys.executable, "-m", "lcm_tui", "messages", "list", "1", "--db", str(path)]
    environment = {**os.environ, "TZ": zone, "COLUMNS": "120"}

    def shown(*options: str) -> list[str]:
        done = subprocess.run([*call, *options], env=environment, capture_output=True, text=True, check=True)
        return SHOWN.findall(done.stdout)

    newest, oldest = shown()
    assert [parse_utc(newest), parse_utc(oldest)] == [NOON + timedelta(minutes=1), NOON]
    assert shown("--before", newest[:19]) == [oldest]


@pytest.mark.long
@given(
    st.datetimes(datetime(1950, 1, 1), datetime(2037, 12, 31), timezones=st.just(UTC)),
    st.sampled_from([*ZONES, "Australia/Lord_Howe", "America/Havana", "Africa/Monrovia", "Pacific/Apia"]),
)
def test_every_moment_is_read_as_it_is_shown(moment: datetime, name: str) -> None:
    zone, second = ZoneInfo(name), moment.replace(microsecond=0)
    assert typed_moment(format_zoned(second, zone), UTC) == second
    local = format_local(second, zone)
    if len({second.astimezone(zone).replace(fold=fold).utcoffset() for fold in (0, 1)}) == 1:
        assert typed_moment(local, zone) == second
        return
    with pytest.raises(UsageError, match="occurs twice") as refused:
        typed_moment(local, zone)
    assert format_zoned(second, zone) in refused.value.message


def test_a_zone_is_called_by_its_name_or_its_offset() -> None:
    assert zone_words(ZoneInfo("Asia/Shanghai")) == "Asia/Shanghai"
    set_zone("<+0330>-3:30")
    assert zone_words(None) == "local time (UTC+03:30)"
    set_zone("UTC")
    assert zone_words(None) == "UTC"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("UTC", "UTC"),
        ("Asia/Shanghai", "UTC+8"),
        ("Asia/Kolkata", "UTC+5:30"),
        ("America/Sao_Paulo", "UTC-3"),
        ("Pacific/Marquesas", "UTC-9:30"),
        ("America/St_Johns", "NST/NDT"),
        ("Europe/Berlin", "CET/CEST"),
        ("Australia/Sydney", "AEST/AEDT"),
        ("Australia/Lord_Howe", "UTC+10:30/+11"),
    ],
)
def test_a_zone_in_few_cells(name: str, said: str):
    assert zone_sign(ZoneInfo(name)) == said
