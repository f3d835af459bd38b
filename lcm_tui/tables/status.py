"""How a conversation grew, as a line of bars, and whether the engine keeps up with the host, in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Final

from lcm_core.base.text import counted
from lcm_core.base.times import format_local
from lcm_core.base.values import Record, field
from lcm_core.store.conversations import DepthCount
from lcm_core.store.statistics import Growth

from lcm_tui.kit.spans import Line, Span
from lcm_tui.tables.blocks import OutputColumn, Table

if TYPE_CHECKING:
    from lcm_host.ingestion import Ingestion
    from lcm_host.sessions import HostSession, SessionProblem


# -- growth ----------------------------------------------------------------------------------------------
# For both faces, with colours or without.

#: Bars by height; a piece of time without a message has a dot.
BARS: Final = "▁▂▃▄▅▆▇█"
NONE: Final = "·"
#: A long time without messages, of which the axis leaves out all but a cell.
BREAK: Final = "┊"
#: Cells of the line where nobody says otherwise.
CELLS: Final = 40
#: What stands before it.
LABEL: Final = " messages over time "


def depths_table(depths: Sequence[DepthCount]) -> Table:
    """How many summaries there are of each depth."""
    titles = ("Depth", "Kind", "Summaries", "Tokens")
    columns = [OutputColumn(title, right=title != "Kind") for title in titles]
    rows = [(one.depth, one.kind, one.count, one.tokens) for one in depths]
    return Table(columns, rows, title="Summaries by depth", empty="There are no summaries.")


def spark_text(growth: Growth, cells: int) -> str:
    """Bars for the messages of pieces of its time; the tallest is the most of any piece."""
    counts = [count for count, _ in growth.cells(cells)]
    most = max(counts, default=0)
    return "".join(
        BARS[min(count * len(BARS) // (most + 1), len(BARS) - 1)]
        if count > 0
        else BREAK
        if count < 0
        else NONE
        for count in counts
    )


def growth_line(growth: Growth | None, width: int, zone: tzinfo | None, *, read: bool) -> Line:
    """The bars between the first and the last time, over a line; *read*: without them it has hardly begun."""
    if growth is None:
        return (Span(LABEL, "dim"), Span("–" if read else "…", "dim"))
    first, last = (format_local(at, zone)[:16] for at in (growth.first, growth.last))
    return (
        Span(LABEL, "dim"),
        Span(f"{first} "),
        Span(spark_text(growth, bar_cells(width)), "d1"),
        Span(f" {last}"),
    )


def bar_cells(width: int) -> int:
    """Cells that the bars have on a line."""
    return max(width - bar_start() - 18, 8)


def bar_start() -> int:
    """The cell of the first bar on a line."""
    return len(LABEL) + 17


def seq_at(growth: Growth, cell: int, width: int) -> int | None:
    """The seq of the first message of a piece of time, by the cell of its bar on the line."""
    at, cells = cell - bar_start(), growth.cells(bar_cells(width))
    return cells[at][1] if 0 <= at < len(cells) else None


# -- keeping up with the host ----------------------------------------------------------------------------
# One line a conversation, one line for all.

#: What a moment is called; None: it is not known.
Moment = Callable[[datetime | None], str]
_NEVER: Final = datetime.max.replace(tzinfo=UTC)


class Ingesting(Record, frozen=True):
    """The sessions of the host that were compared, and what is to be said of the places where they are."""

    compared: Sequence[Ingestion] = ()
    problems: Sequence[SessionProblem] = ()
    bad_lines: Mapping[HostSession, int] = field(default_factory=dict)  #: of files, as far as they were read
    checkpoints: int = 0  #: files that were left out

    @property
    def lagging(self) -> list[Ingestion]:
        """Those with which the engine does not keep up, the longest first."""
        found = [one for one in self.compared if one.needs_a_look]
        return sorted(found, key=lambda one: one.lags_since() or _NEVER)

    @property
    def unread(self) -> list[SessionProblem]:
        """What could not be read."""
        return [one for one in self.problems if not one.is_remark]

    @property
    def remarks(self) -> list[SessionProblem]:
        """What was read, and something is to be said of."""
        return [one for one in self.problems if one.is_remark]

    def lags(self, patience: timedelta, now: datetime) -> bool:
        """Whether the engine has lagged behind for longer than *patience*."""
        since = [one.lags_since() for one in self.lagging]
        return any(moment is None or now - moment >= patience for moment in since)


def summary(found: Ingesting) -> str:
    """One sentence about all of them."""
    if not found.compared:
        return "not compared: no current session of the host has a conversation here"
    lagging = found.lagging
    of = counted(len(found.compared), "session")
    if not lagging:
        return f"yes: the engine has everything of {of} of the host"
    missing = sum(one.behind for one in lagging)
    waiting = sum(len(one.outbox) for one in lagging)
    outbox = f", {counted(waiting, 'turn')} {'waits' if waiting == 1 else 'wait'} in the host's outbox"
    said = f"no: {counted(missing, 'message')} of {len(lagging):,} of {of} missing"
    return f"{said}{outbox if waiting else ''}"


def overview(found: Ingesting, moment: Moment) -> Line:
    """The same as a line of the first screen, the worst first."""
    spans: list[Span] = []
    lagging = found.lagging
    if lagging:
        missing = sum(one.behind for one in lagging)
        since = moment(lagging[0].lags_since())
        what = f"{counted(missing, 'message')} missing" if missing else "turns are not committed"
        spans.append(Span(f"✗ {what}", "error"))
        spans.append(Span(f" since {since}"))
        spans += _outbox(lagging)
        spans.append(Span(f"  ({len(lagging):,} of {counted(len(found.compared), 'session')})", "dim"))
    elif found.compared:
        spans.append(Span("✓ up to date ", "ok"))
        spans.append(Span(f"with {counted(len(found.compared), 'session')} of the host"))
    for problems, what in ((found.unread, "not read"), (found.remarks, "to note")):
        if problems:
            many = counted(len(problems), "place")
            said = f"{'  ' if spans else ''}? {many} {what}: {problems[0].sentence}"
            spans.append(Span(said, "warn"))
    return tuple(spans)


def ingestion_line(one: Ingestion, moment: Moment) -> Line:
    """How far the engine is with one session: what is missing first, then the ends of both."""
    if one.problem is not None:
        return (Span(" ? not compared: ", "warn"), Span(one.problem))
    spans: list[Span] = []
    if one.behind:
        since = moment(one.behind_since)
        spans.append(Span(f" ✗ {counted(one.behind, 'message')} missing", "error"))
        spans.append(Span(f" since {since}"))
    elif one.outbox:
        spans.append(Span(" ✗ not committed", "error"))
    else:
        spans.append(Span(" ✓ ingesting", "ok"))
    spans += _outbox([one])
    if one.in_flight:
        spans.append(Span("  a turn is running", "dim"))
    last, end = one.last_entry, one.end
    spans.append(Span(f"  host {moment(None if last is None else last.created_at)}", "dim"))
    spans.append(Span(f"  engine {moment(None if end is None else end.at)}", "dim"))
    if end is not None and end.frontier_seq is not None and one.by_cursor:
        spans.append(Span(f"  cursor at {end.frontier_seq:,}", "dim"))
    elif one.by_cursor is False:
        spans.append(Span("  the cursor's entry is gone", "warn"))
    if end is not None and end.committed_at is not None:
        spans.append(Span(f"  last turn committed {moment(end.committed_at)}", "dim"))
    return tuple(spans)


def _outbox(several: Sequence[Ingestion]) -> list[Span]:
    """Turns that the host waits for the engine to commit, how often it tried, and what went wrong last."""
    rows = [row for one in several for row in one.outbox]
    if not rows:
        return []
    wait = "waits" if len(rows) == 1 else "wait"
    tried = counted(sum(row.attempts for row in rows), "attempt")
    error = next((row.last_error for row in reversed(rows) if row.last_error), None)
    said = f"{tried}: {error}" if error else tried
    return [Span(f"  {counted(len(rows), 'turn')} {wait} ({said})", "warn")]
