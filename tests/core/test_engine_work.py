"""What the rows of the 1.x engine mean: every state of the recorded file, and states that nobody recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lcm_core.api import Conversation
from lcm_core.base.times import iso_z, sql_utc
from lcm_core.base.values import replace
from lcm_core.operations.debt import BelowThreshold
from lcm_core.operations.engine_work import (
    Need,
    Step,
    engine_work,
    frontier,
    is_claimable,
    took,
)
from lcm_core.store.engine_work import BatchRow, DebtRow, EngineRows, NodeRow, PlacedItem

NOW = datetime(2026, 9, 20, 13, 57, 35, tzinfo=UTC)
ONE = 1
DIED = "running, but its process has ended"
#: A moment in both forms in which the engine writes times.
FORMS = (iso_z, sql_utc)


def node(
    start: int = 0,
    end: int = 0,
    status: str = "ready",
    *,
    depth: int = 0,
    retries: int = 0,
    lease: str | None = None,
    again: str | None = None,
    waits_for: int = 0,
    batch: str = "b",
) -> NodeRow:
    kind = "condensed" if depth else "leaf"
    return NodeRow(
        conversation_id=ONE,
        node_id=f"{batch}-{kind}-{start}-{end}",
        batch_id=batch,
        kind=kind,
        depth=depth,
        status=status,
        start=start,
        end=end,
        tokens=7,
        has_text=status == "ready",
        lease_owner=None,
        lease_expires_at=lease,
        failure=None,
        retries=retries,
        next_attempt_after=again,
        ready_at=iso_z(NOW - timedelta(hours=end)),
        summary_id=None,
        waits_for=waits_for,
    )


def batch(
    name: str = "b", status: str = "planning", *, made: int = 0, failure: str | None = None
) -> BatchRow:
    return BatchRow(ONE, name, status, 0, 3, failure, sql_utc(NOW + timedelta(minutes=made)), None)


def debt(**columns: object) -> DebtRow:
    values: dict[str, object] = {
        **dict.fromkeys(("pending", "running", "retries", "revision"), 0),
        **dict.fromkeys(("reason", "failure", "next_attempt_after", "resolution", "resolved_at")),
        **dict.fromkeys(("requested_at", "started_at", "finished_at")),
    }
    return DebtRow(ONE, **{**values, **columns})


def worked(
    batches: Sequence[BatchRow] = (),
    nodes: Sequence[NodeRow] = (),
    debts: Sequence[DebtRow] = (),
    *,
    active: bool = True,
    length: int = 4,
    below: Mapping[int, BelowThreshold] | None = None,
):
    """The state of one conversation with a context of *length* messages."""
    stamp = ""
    conversation = Conversation(ONE, "s", "k", active, None, None, None, None, stamp, stamp)
    items = [PlacedItem(ONE, at, None) for at in range(length)]
    rows = EngineRows([conversation], batches, nodes, items, debts, [], [], [], [])
    return engine_work(rows, NOW, below)


def state_of(one: NodeRow, *, active: bool) -> str:
    """The state of a node of a batch, in words."""
    rows = [batch(one.batch_id, "planning" if active else "stale")]
    [made] = worked(rows, [one]).conversations[0].batches
    return made.state_of(one).value


def need(*args: Sequence[object], **options: object) -> Need:
    return worked(*args, **options).conversations[0].need


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seconds", [-3600, -1, 0, 1, 3600])
@pytest.mark.parametrize("waits_for", [0, 2])
def test_a_lease_is_counted_from_the_clock_whatever_form_it_has(form, seconds: int, waits_for: int) -> None:
    one = node(status="running", lease=form(NOW + timedelta(seconds=seconds)), waits_for=waits_for)
    expired = seconds <= 0
    assert state_of(one, active=True) == ("lease expired" if expired else "claimed")
    assert is_claimable(one, active=True, now=NOW) == (expired and not waits_for)


@pytest.mark.parametrize("lease", [None, "", "soon", "9999-99-99 00:00:00"])
def test_a_lease_that_cannot_be_read_is_neither_live_nor_expired(lease: str | None) -> None:
    one = node(status="running", lease=lease)
    assert state_of(one, active=True) == "claimed without a lease that can be read"
    assert not is_claimable(one, active=True, now=NOW)


@pytest.mark.cases(25)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("retries", "seconds"), product(range(5), [None, -60, 0, 60]))
def test_a_failed_node_is_tried_again_after_its_time_and_three_times_at_most(form, retries, seconds) -> None:
    again = None if seconds is None else form(NOW + timedelta(seconds=seconds))
    one = node(status="failed", retries=retries, again=again)
    if retries >= 3:
        wanted = "failed for the last time"
    else:
        wanted = "waits to be tried again" if seconds == 60 else "claimable"
    assert state_of(one, active=True) == wanted
    assert is_claimable(one, active=True, now=NOW) == (wanted == "claimable")


@pytest.mark.parametrize("status", ["planned", "running", "failed", "stale", "ready", "promoted", "?"])
def test_nothing_of_a_batch_that_has_ended_is_claimed(status: str) -> None:
    one = node(status=status, lease=iso_z(NOW - timedelta(hours=1)))
    assert not is_claimable(one, active=False, now=NOW)
    assert state_of(one, active=False) in (
        {status} if status in ("ready", "promoted") else {"ended with its batch"}
    )


def test_a_planned_node_waits_for_what_it_is_made_from() -> None:
    assert is_claimable(node(status="planned"), active=True, now=NOW)
    waiting = node(status="planned", depth=1, waits_for=1)
    assert state_of(waiting, active=True) == "waits for its sources"


RANGES = st.tuples(st.integers(0, 7), st.integers(0, 7)).map(sorted)


@pytest.mark.long
@given(st.lists(RANGES, max_size=9), st.sets(st.integers(0, 7)), RANGES)
def test_what_would_be_published_reaches_as_far_as_possible_without_a_gap(
    ranges: list[list[int]], summaries: set[int], wanted: list[int]
) -> None:
    start, end = wanted
    nodes = [node(first, last) for first, last in ranges]
    items = [PlacedItem(ONE, at, f"sum_{at}" if at in summaries else None) for at in range(8)]
    found = frontier(start, end, nodes, items)
    # Where a node ends that can be reached from the start, by trying everything.
    reached, ends = {start}, set()
    for at in range(start, end + 1):
        if at in reached:
            last_ones = {last for first, last in ranges if first == at and last <= end}
            ends |= last_ones
            reached |= {last + 1 for last in last_ones} | ({at + 1} if at in summaries else set())
    assert bool(found) == bool(ends)
    if found:
        covered = [at for one in found for at in range(one.start, one.end + 1)]
        assert covered == list(range(start, covered[-1] + 1))
        assert covered[-1] == end if end + 1 in reached else covered[-1] == max(ends)
        assert all((one.summary_id is not None) != (one.node is not None) for one in found)


def test_the_widest_node_is_published_where_it_leaves_no_gap() -> None:
    wide, narrow, rest = node(0, 3, depth=1), node(0, 1), node(2, 3)
    assert frontier(0, 3, [narrow, rest, wide], []) == (Step(0, 3, wide),)
    assert frontier(0, 4, [narrow, node(0, 2), node(2, 4)], []) == (
        Step(0, 1, narrow),
        Step(2, 4, node(2, 4)),
    )
    assert frontier(None, 3, [wide], []) == frontier(3, 0, [wide], []) == ()


def test_a_complete_batch_says_planning_and_waits_for_the_threshold() -> None:
    [one] = worked([batch()], [node(0, 1), node(2, 3)]).conversations
    assert one.batch is not None
    assert one.batch.is_complete
    assert (one.batch.ready_tokens, one.batch.oldest_ready) == (14, NOW - timedelta(hours=3))
    [one] = worked([batch()], [node(0, 1), node(2, 3, "planned")]).conversations
    assert one.batch is not None
    assert not one.batch.publishable, "an engine without live ranges publishes all of it or nothing"
    assert [step.start for step in one.batch.planned] == [0, 2]


def test_a_batch_whose_range_is_not_in_the_context_publishes_nothing() -> None:
    [one] = worked([batch()], [node(0, 1), node(2, 3)], length=3).conversations
    assert one.batch is not None
    assert (one.batch.publishable, one.batch.planned) == ((), ())
    assert one.batch.outdated.value == "its range is no longer in the context"


# -- batches that are published in prefixes -------------------------------------------------------------


@dataclass
class Planned:
    """A node of the second telling."""

    name: str
    start: int
    end: int
    sources: list[int | str]
    ready: bool = False
    became: str | None = None
    live: tuple[int, int] | None = None

    @property
    def place(self) -> tuple[int, int]:
        return self.live or (self.start, self.end)


@dataclass
class Publisher:
    """docs/spec/prepared.md, "Live ranges", told again: a context, and a batch over a part of it."""

    context: list[int | str]
    start: int
    end: int
    tail: int
    nodes: list[Planned]

    def prefix(self) -> list[Planned]:
        """The ready leaves that would be published, one after the other from the start."""
        found: list[Planned] = []
        at = self.start
        while at <= self.end:
            here = [one for one in self.nodes if one.ready and not one.became and one.place[0] == at]
            if here and here[0].place[1] < self.tail:
                found += here
                at = here[0].place[1] + 1
            elif isinstance(self.context[at], str):
                at += 1
            else:
                break
        return found

    def publish(self) -> None:
        """Put the prefix into the context, and move what is left."""
        for one in self.prefix():
            first, last = one.place
            one.became = f"sum_of_{one.name}"
            self.context[first : last + 1] = [one.became]
            gone = last - first
            self.end, self.tail = self.end - gone, self.tail - gone
            for other in self.nodes:
                if not other.became:
                    start, end = other.place
                    other.live = (start - gone, end - gone) if start > last else (start, end)

    def row(self) -> BatchRow:
        return BatchRow(ONE, "b", "planning", self.start, self.end, None, None, None, self.tail)

    def rows(self) -> list[NodeRow]:
        return [
            replace(
                node(*one.place, "promoted" if one.became else "ready" if one.ready else "planned"),
                node_id=one.name,
                planned_start=one.start,
                planned_end=one.end,
                sources=tuple(one.sources),
                summary_id=one.became,
            )
            for one in self.nodes
        ]

    def work(self):
        """What the code says of it."""
        within = enumerate(self.context)
        items = [
            PlacedItem(ONE, at, ref, None) if isinstance(ref, str) else PlacedItem(ONE, at, None, ref)
            for at, ref in within
            if self.start <= at <= self.end
        ]
        stamp = ""
        conversation = Conversation(ONE, "s", "k", True, None, None, None, None, stamp, stamp)
        rows = EngineRows(
            [conversation], [self.row()], self.rows(), items, [], [], [], [], [], has_live_ranges=True
        )
        [one] = engine_work(rows, NOW).conversations
        assert one.batch is not None
        return one.batch


@st.composite
def publishers(draw: st.DrawFn) -> Publisher:
    """A context of messages with summaries in it, and leaves over the runs of messages."""
    kinds = draw(st.lists(st.sampled_from("mmmms"), min_size=4, max_size=24))
    context: list[int | str] = [at if kind == "m" else f"sum_{at}" for at, kind in enumerate(kinds)]
    start = draw(st.integers(0, len(kinds) - 2))
    end = draw(st.integers(start, len(kinds) - 1))
    nodes: list[Planned] = []
    at = start
    while at <= end:
        if kinds[at] == "s":
            at += 1
            continue
        last = at
        while last < end and kinds[last + 1] == "m" and draw(st.booleans()):
            last += 1
        nodes.append(Planned(f"n{at}", at, last, context[at : last + 1]))
        at = last + 1
    tail = draw(st.sampled_from([end + 1, len(kinds), max(start, end - 2)]))
    return Publisher(context, start, end, tail, nodes)


@pytest.mark.long
@given(publishers(), st.data())
def test_a_batch_is_published_in_prefixes_and_what_is_left_moves_on(
    publisher: Publisher, data: st.DataObject
) -> None:
    for _ in range(4):
        for one in publisher.nodes:
            one.ready = one.ready or data.draw(st.booleans())
        batch = publisher.work()
        wanted = publisher.prefix()
        assert batch.outdated is None
        assert [step.node.node_id for step in batch.publishable if step.node] == [one.name for one in wanted]
        assert [(step.start, step.end) for step in batch.publishable if step.node] == [
            one.place for one in wanted
        ]
        assert {one.node_id for one in batch.published} == {one.name for one in publisher.nodes if one.became}
        for step in batch.publishable:
            if step.node:
                assert batch.replaced(step) == (step.end - step.start + 1, 0)
        publisher.publish()


@pytest.mark.long
@given(publishers(), st.data())
def test_a_context_that_changed_under_a_batch_publishes_nothing(
    publisher: Publisher, data: st.DataObject
) -> None:
    places = [at for one in publisher.nodes for at in range(one.start, one.end + 1)]
    if not places:
        return
    for one in publisher.nodes:
        one.ready = True
    match data.draw(st.sampled_from(["other", "swapped", "summary", "gone"])):
        case "other":
            publisher.context[data.draw(st.sampled_from(places))] = 999
        case "summary":
            publisher.context[data.draw(st.sampled_from(places))] = "sum_new"
        case "swapped":
            first, second = places[0], places[-1]
            if first == second:
                return
            publisher.context[first], publisher.context[second] = (
                publisher.context[second],
                publisher.context[first],
            )
        case _:
            del publisher.context[publisher.end :]
    batch = publisher.work()
    assert (batch.publishable, batch.planned, batch.is_complete) == ((), (), False)
    assert batch.outdated is not None


@pytest.mark.parametrize(
    ("row", "active", "state"),
    [
        (debt(), True, "none"),
        (None, True, "none"),
        (debt(pending=1), True, "due"),
        (debt(pending=1, next_attempt_after=sql_utc(NOW)), True, "due"),
        (debt(pending=1, next_attempt_after=sql_utc(NOW + timedelta(seconds=1))), True, "waits"),
        (debt(pending=1, next_attempt_after="whenever"), True, "due"),
        (debt(pending=1, failure="x: provider auth failure"), True, "failed"),
        (debt(pending=1, failure="summary provider circuit breaker is open"), True, "failed"),
        (debt(pending=1, failure="overloaded"), True, "due"),
        (debt(pending=1), False, "inactive"),
        (debt(resolution="operator-ignored"), False, "closed"),
        (debt(pending=1, resolution="operator-ignored"), True, "due"),
        (debt(running=1, started_at=iso_z(NOW - timedelta(minutes=5))), True, "running"),
        (
            debt(running=1, started_at=sql_utc(NOW - timedelta(minutes=61))),
            True,
            "running, but its process has ended",
        ),
        (debt(running=1), True, "running, but its process has ended"),
    ],
)
def test_debt_in_words_of_its_columns(row: DebtRow | None, active: bool, state: str) -> None:
    [one] = worked(debts=[] if row is None else [row], active=active).conversations
    assert one.debt.value == state


def test_what_needs_a_look_and_how_badly() -> None:
    expired = node(0, 3, "running", lease=iso_z(NOW - timedelta(seconds=1)))
    died, due = debt(running=1), debt(pending=1)
    assert need([batch()], [expired], [died]) is Need.EXPIRED_LEASE
    assert need([batch(status="stale")], [expired], [died]) is Need.OLD_RUN
    assert need([batch(status="stale", failure="summary was empty")], [], [due]) is Need.LOST_BY_FAILURE
    assert need([batch()], [node(0, 3, "failed", retries=3)]) is Need.LOST_BY_FAILURE
    later = [batch(status="stale", failure="summary was empty"), batch("c", made=1)]
    assert need(later) is Need.NOTHING, "a newer batch goes on"
    assert need([], [], [due]) is Need.DUE_WITHOUT_BATCH
    refused = debt(pending=1, failure="x: provider auth failure")
    assert need([batch()], [], [refused]) is Need.FAILED_DEBT
    assert need([], [], [due], below={ONE: BelowThreshold(9, 9)}) is Need.NOTHING
    assert need([batch()], [], [due]) is Need.NOTHING
    assert need([], [], [due], active=False) is Need.NOTHING
    for reason in (
        "pending batch range is no longer compactable",
        "source projection fingerprint changed before publish",
        "pending batch source range changed before publish",
        "pending batch source changed before publish",
    ):
        assert need([batch(status="stale", failure=reason)]) is Need.NOTHING, "its sources changed"


def test_the_newest_active_batch_is_worked_on() -> None:
    rows = [batch("b"), batch("d", made=1), batch("c", made=1), batch("e", "stale", made=2)]
    [one] = worked(rows).conversations
    assert one.batch is not None
    assert one.lost is not None
    assert (one.batch.row.batch_id, one.lost.row.batch_id) == ("d", "e")


@pytest.mark.long
@given(st.lists(st.tuples(st.integers(-5, 500), st.sampled_from(FORMS), st.booleans()), max_size=30))
def test_how_long_it_took_is_counted_by_nearest_rank(runs) -> None:
    conversations = []
    for seconds, form, has_end in runs:
        end = form(NOW + timedelta(seconds=seconds)) if has_end else None
        row = debt(started_at=iso_z(NOW), finished_at=end)
        conversations.append(worked(debts=[row]).conversations[0])
    known = sorted(seconds for seconds, _, has_end in runs if has_end and seconds >= 0)
    found = took(conversations).runs
    assert (found is None) == (not known)
    if found is not None:
        for share, value in ((0.5, found.p50), (0.9, found.p90)):
            assert sum(one <= value for one in known) >= share * len(known)
            assert sum(one < value for one in known) < share * len(known)
        assert found.count == len(known)


def test_rows_of_nobody_are_counted() -> None:
    stray = BatchRow(9, "x", "planning", 0, 1, None, None, None)
    assert worked([batch(), stray], [node(batch="gone"), node()]).unowned == 2
