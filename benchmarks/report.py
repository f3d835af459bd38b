"""Numbers against their bars, as a table for the terminal and one for the README."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from lcm_core.base.values import replace

from benchmarks.keys import KeyTime
from benchmarks.measure import Session, Starts

#: Bars are ratios to what a minimal Textual app and bare sqlite3 need in the same run: beside a busy process
#: both get slower.
FIRST_ROWS = 2.0
OPENED = 5.0
KEY_ANSWERED = 4.0  #: at the 95th percentile
TYPED_OVER_MINIMAL = 0.008  #: s, at the 95th percentile, until a filter's list is drawn
MEMORY = 150.0  #: MB
TIMES_SLOWER_WHEN_TEN_TIMES_LARGER = 2.0
_UNANSWERED = 0.1  #: share of keys that may find nothing to do; more, and the keys were not measured
_HEADINGS = ("database", "measure", "value", "bar", "compared with", "")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; *passed* is None where there is no bar."""

    database: str
    measure: str
    value: str
    bar: str = ""
    compared: str = ""
    passed: bool | None = None

    def without_bar(self) -> Row:
        """The same number, not judged."""
        return replace(self, bar="", passed=None)

    def cells(self) -> tuple[str, ...]:
        """The texts of the columns."""
        verdict = {True: "ok", False: "MISSED", None: ""}[self.passed]
        return self.database, self.measure, self.value, self.bar, self.compared, verdict


def of_starts(database: str, starts: Starts, sqlite: dict[str, float]) -> list[Row]:
    """First rows and the first of each view, against the minimal app and plain sqlite3."""
    least, program = median(starts.minimal) + sqlite["conversation list"], median(starts.program)
    rows = [
        Row(database, "minimal Textual app, first row", _seconds(starts.minimal)),
        Row(
            database,
            "first rows after start",
            _seconds(starts.program),
            _times(FIRST_ROWS),
            f"minimal and sqlite3 {least:.3f} s, x {program / least:.2f}",
            program <= FIRST_ROWS * least,
        ),
        Row(database, "minimal Textual app, second screen", _seconds(starts.minimal_opened)),
    ]
    for name, values in starts.opened.items():
        value, least = median(values), median(starts.minimal_opened) + sqlite[name]
        compared = f"minimal and sqlite3 {_ms(least)}, x {value / least:.1f}"
        passed = value <= OPENED * least
        rows.append(Row(database, f"open {name}", _seconds(values), _times(OPENED), compared, passed))
    return rows


def of_keys(database: str, session: Session, note: str = "") -> list[Row]:
    """The answers to keys, one row per view, and to letters of a filter."""
    quickest = f"p50 {_ms(median(session.echo))}, p95 {_ms(percentile(session.echo))}"
    least = percentile(_answers(session.least.keys))
    rows = [
        Row(database, f"keys echoed by a bare process{note}", quickest),
        Row(database, f"keys in a minimal Textual app{note}", _spread(_answers(session.least.keys))),
    ]
    for name, times in session.keys.items():
        answered = _answers(times)
        measure = f"keys in {name}{note}"
        bar = f"p95 {_times(KEY_ANSWERED)}"
        idle = len(times) - len(answered)
        if len(answered) < 2 or idle > _UNANSWERED * len(times):
            rows.append(Row(database, measure, f"{idle} of {len(times)} without effect", bar, "", False))
            continue
        worst = percentile(answered)
        first = [time.first for time in times if time.first is not None and time.answered is not None]
        compared = f"minimal {_ms(least)}, x {worst / least:.1f}; first byte p95 {_ms(percentile(first))}"
        if not note:
            compared += f", settled p95 {_ms(percentile(_settled(times)))}"
        rows.append(Row(database, measure, _spread(answered), bar, compared, worst <= KEY_ANSWERED * least))
    if session.typed and not note:
        rows += _of_letters(database, session)
    return rows


def _of_letters(database: str, session: Session) -> list[Row]:
    over = percentile(session.typed) - percentile(session.least.typed)
    return [
        Row(database, "letters in a minimal Textual input, drawn", _spread(session.least.typed)),
        Row(
            database,
            "letters in the list's filter, drawn",
            _spread(session.typed),
            f"p95 minimal + {_ms(TYPED_OVER_MINIMAL)}",
            f"minimal + {_ms(over)}",
            over <= TYPED_OVER_MINIMAL,
        ),
    ]


def _answers(times: Sequence[KeyTime]) -> list[float]:
    return [time.answered for time in times if time.answered is not None]


def _settled(times: Sequence[KeyTime]) -> list[float]:
    return [time.settled for time in times if time.settled is not None and time.answered is not None]


def _spread(values: Sequence[float]) -> str:
    return f"p50 {_ms(median(values))}, p95 {_ms(percentile(values))}, max {_ms(max(values))}"


def _times(factor: float) -> str:
    return f"x {factor:g}"


def slowest_keys(session: Session) -> list[str]:
    """Per view and key: the 95th percentile and the largest, slowest first, one line each."""
    groups: dict[tuple[str, str], list[float]] = {}
    for view, times in session.keys.items():
        for time in times:
            if time.answered is not None:
                groups.setdefault((view, time.key), []).append(time.answered)
    found = sorted(
        ((percentile(values), max(values), *name) for name, values in groups.items()), reverse=True
    )
    return [f"{view}, {key}: p95 {_ms(worst)}, max {_ms(most)}" for worst, most, view, key in found]


def of_memory(database: str, session: Session, note: str = "") -> Row:
    """Resident memory after the keys."""
    value = f"{session.resident:.0f} MB, at most {session.highest:.0f} MB"
    return Row(database, f"memory{note}", value, f"{MEMORY:.0f} MB", "", session.highest <= MEMORY)


def of_modules(database: str, session: Session) -> Row:
    """Whether the model library was imported on the way."""
    if not session.modules:
        return Row(database, "anthropic imported", "not run", "no", "", False)
    loaded = "anthropic" in session.modules
    value = f"{'yes' if loaded else 'no'}, of {len(session.modules)} modules"
    return Row(database, "anthropic imported", value, "no", "", not loaded)


def of_scale(small: Starts, large: Starts, name: str) -> list[Row]:
    """How much slower the ten times larger database opens."""
    pairs = {"first rows after start": (small.program, large.program)}
    pairs |= {f"open {view}": (small.opened[view], large.opened[view]) for view in small.opened}
    rows = []
    for measure, (few, many) in pairs.items():
        ratio = median(many) / median(few)
        bar = f"x {TIMES_SLOWER_WHEN_TEN_TIMES_LARGER:.0f}"
        passed = ratio <= TIMES_SLOWER_WHEN_TEN_TIMES_LARGER
        rows.append(Row(name, f"{measure}, against a", f"x {ratio:.2f}", bar, "", passed))
    return rows


def percentile(values: Sequence[float]) -> float:
    """The 95th percentile; of one value, that value."""
    return quantiles(values, n=20, method="inclusive")[-1] if len(values) > 1 else values[0]


def plain(rows: Sequence[Row]) -> str:
    """The table in columns."""
    lines = [_HEADINGS, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEADINGS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def markdown(rows: Sequence[Row]) -> str:
    """The table in Markdown."""
    lines = [_HEADINGS, ("---",) * len(_HEADINGS), *(row.cells() for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def _seconds(values: Sequence[float]) -> str:
    return f"{median(values):.3f} s (max {max(values):.3f})"
