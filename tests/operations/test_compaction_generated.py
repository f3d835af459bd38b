"""The runner on generated conversations: what it does, reports and leaves is what the page says, told twice.

Contents, counts, senders, settings, callers and the answers of a summariser are generated; the whole way from
the rows of a database to the rows that are made is compared with `tests.core.compaction_model`, which is told
only what size each answer had in the end.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lcm_core.api import Database
from lcm_core.base.values import replace
from lcm_core.checks.running import run_checks
from lcm_core.operations.compact import CompactionSetting, Runner
from lcm_core.operations.selection import PassMade, PassRefused, PassSkipped
from lcm_core.writers.request import ProviderAuthError, SummaryReply
from lcm_core.writers.source import Rendering

from tests.core.compaction_model import Answer, Caller, Config, Item, Model
from tests.core.test_compaction_model import CALLERS, CONFIGS, OPERATIONS, operation_of, rules_of, told
from tests.databases import building, connect, new_database

#: What a message or a summary may hold, and whether it says something.
SAYING = {
    "words": True,
    '{"text":"in JSON"}': True,
    "<think>kept in messages</think>": True,
    "": False,
    " \n\t": False,
    '{"path":"/x"}': False,
    "MEDIA:/tmp/a.png": False,
    "[1,2,3]": False,
}
SUMMARY_SAYING = {**SAYING, "<think>kept in messages</think>": False, "<thinking>gone</thinking>said": True}


@dataclass(frozen=True)
class Row:
    """An item to be stored."""

    text: str  #: of `SAYING`; words are repeated
    times: int
    uncounted: bool
    is_user: bool = False
    sender: str | None = None
    depth: int | None = None  #: None: a message

    @property
    def content(self) -> str:
        return self.text if self.text != "words" else "some words " * self.times

    @property
    def stored(self) -> int:
        return 0 if self.uncounted else quarter(self.content)

    @property
    def says_something(self) -> bool:
        return (SAYING if self.depth is None else SUMMARY_SAYING)[self.text]

    @property
    def weight(self) -> int:
        """Only a user is named beside what they say."""
        is_named = self.sender and self.is_user
        label = f'speaker (untrusted metadata): {{"senderName":"{self.sender}"}}' if is_named else ""
        return (self.stored or quarter(self.content)) + quarter(label)


def quarter(text: str) -> int:
    """The estimate of a text without wide characters."""
    return -(-len(text) // 4)


MESSAGES = st.builds(
    Row,
    text=st.sampled_from(["words", "words", "words", *SAYING]),
    times=st.integers(1, 30),
    uncounted=st.integers(0, 5).map(lambda drawn: drawn == 0),
    is_user=st.booleans(),
    sender=st.sampled_from([None, None, "Ana"]),
)
SUMMARIES = st.builds(
    Row,
    text=st.sampled_from(["words", "words", *SUMMARY_SAYING]),
    times=st.integers(1, 20),
    uncounted=st.integers(0, 5).map(lambda drawn: drawn == 0),
    depth=st.sampled_from([0, 0, 0, 1, 2]),
)
ROWS = st.builds(
    lambda first, rest: [*first, *rest],
    st.lists(SUMMARIES, max_size=6),
    st.lists(st.one_of(MESSAGES, MESSAGES, MESSAGES, SUMMARIES), max_size=16),
)
#: How the summariser answers, request by request.
ANSWERS = st.lists(
    st.sampled_from(["short", "short", "short", "half", "same", "empty", "silent", "refuse"]), max_size=12
)


@dataclass
class Summarizer:
    """Answers as was drawn, and then shortly."""

    drawn: Sequence[str]
    asked: int = 0

    async def __call__(self, request, /) -> SummaryReply:
        kind = self.drawn[self.asked] if self.asked < len(self.drawn) else "short"
        self.asked += 1
        if kind == "refuse":
            raise ProviderAuthError("The key is refused.")
        answers = {
            "half": request.text[: len(request.text) // 2],
            "same": request.text,
            "empty": " ",
            "silent": "<think>hm</think>",
        }
        return SummaryReply(answers.get(kind, f"Answer {self.asked}."), "a/model")


# -- the database ----------------------------------------------------------------------------------------


def store(path: Path, rows: Sequence[Row], ordinals: Sequence[int]) -> list[Item]:
    """Store a conversation, its context at these *ordinals*; its items as the model knows them."""
    new_database(path)
    items: list[Item] = []
    times = {"created_at": "2026-01-02 03:04:05"}
    with building(path) as built:
        built.conversation(1)
        for at, row in enumerate(rows):
            name: int | str = at + 1 if row.depth is None else f"sum_{at:016x}"
            if row.depth is None:
                built.message(
                    1,
                    row.content,
                    role="user" if row.is_user else "assistant",
                    in_context=False,
                    message_id=at + 1,
                    seq=at + 1,
                    token_count=row.stored,
                    openclaw_sender_metadata=row.sender and f'{{"senderName":"{row.sender}","other":1}}',
                    **times,
                )
            else:
                built.summary(1, str(name), row.content, depth=row.depth, token_count=row.stored, **times)
            built.item(1, name, ordinals[at])
            items.append(
                Item(name, row.stored, row.weight, row.is_user, row.depth or 0, not row.says_something)
            )
    return items


# -- both tellings ---------------------------------------------------------------------------------------


@dataclass
class Ran:
    """What the runner did."""

    steps: Any
    result: dict[str, Any]
    findings: list[str]  #: what the doctor says of counts and depths then


async def ran(
    path: Path, config: Config, call: Caller, budget: int, name: str, answers: Sequence[str]
) -> Ran:
    seconds = 0

    def ticking(compaction):
        nonlocal seconds
        running = operation_of(compaction, name, call)
        outcome = None
        while True:
            try:
                due = next(running) if outcome is None else running.send(outcome)
            except StopIteration as ended:
                return ended.value
            seconds += 1
            outcome = yield due

    async with await Database.open(path) as database:
        rules = rules_of(config, present=True)
        runner: Runner[Any] = Runner(
            database,
            1,
            CompactionSetting(Rendering(rules, UTC), budget, call.tail, call.chunk),
            Summarizer(answers),
            ticking,
            clock=lambda: seconds * 1000,
            now=lambda: datetime(2026, 2, 3, tzinfo=UTC),
        )
        steps = [step async for step in runner.steps()]
        report = await run_checks(database, only=["D1", "D2", "D3", "D4"], whole_file=False)
        findings = [one.sentence for result in report.results for one in result.findings]
    assert runner.result is not None
    return Ran(steps, told(runner.result), findings)


#: From one item to the next: a pruning leaves gaps, and the next pass closes them.
GAPS = st.one_of(st.just([1]), st.lists(st.integers(1, 4), min_size=1, max_size=5))


@pytest.mark.long
@settings(max_examples=300)
@given(ROWS, CONFIGS, CALLERS, st.integers(1, 900), OPERATIONS, ANSWERS, GAPS)
def test_the_runner_does_what_the_page_says(
    rows: Sequence[Row],
    config: Config,
    call: Caller,
    budget: int,
    name: str,
    answers: Sequence[str],
    gaps: Sequence[int],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lcm.db"
        steps = (gaps[at % len(gaps)] for at in range(len(rows)))
        ordinals = [one - 1 for one in accumulate(steps)]
        items = store(path, rows, ordinals)
        done = asyncio.run(ran(path, config, call, budget, name, answers))
        names = {
            step.outcome.summary_id: f"made_{at}"
            for at, step in enumerate(done.steps)
            if isinstance(step.outcome, PassMade)
        }

        def ask(number: int, depth: int, sources: list[Item]) -> Answer:
            assert number < len(done.steps), "the page makes more passes"
            if all(item.blank for item in sources):
                return Answer("skipped")
            step = done.steps[number]
            assert not isinstance(step.outcome, PassSkipped), "something is said"
            if isinstance(step.outcome, PassRefused):
                return Answer("refused")
            assert step.draft is not None
            text = step.draft.text
            return Answer("made", text.tokens, text.content == "<think>hm</think>")

        model = Model([replace(item) for item in items], config, budget, True, ask, ordinals=ordinals)
        operation = {"sweep": model.sweep, "leaf": model.leaf, "until": model.until_under}[name]
        result = operation(call)
        renamed = [
            (
                step.chunk.due.depth,
                tuple(names.get(str(ref), ref) for ref in step.chunk.refs),
                tuple(names.get(one, one) for one in step.chunk.due.previous),
            )
            for step in done.steps
        ]
        assert renamed == model.passes
        assert not [one for one in done.findings if any(made in one for made in names)]
        assert done.result == result
        standing = _context(path, names)
        assert [ref for _, ref in standing] == [item.ref for item in model.items]
        assert [ordinal for ordinal, _ in standing] == [model.ordinal(at) for at in range(len(standing))]
        _check_rows(path, items, done.steps)


def _context(path: Path, names: dict[str, str]) -> list[tuple[int, int | str]]:
    with connect(path) as connection:
        found = connection.execute("SELECT ordinal, message_id, summary_id FROM context_items ORDER BY 1")
        rows = found.fetchall()
    return [(row[0], row[1] or names.get(row[2], row[2])) for row in rows]


def _check_rows(path: Path, items: Sequence[Item], steps) -> None:
    """Every message stands in the context or under one leaf, and a leaf counts what its messages weigh."""
    weights = {item.ref: item.weight for item in items}
    with connect(path) as connection:
        linked = [row[0] for row in connection.execute("SELECT message_id FROM summary_messages")]
        held = [
            row[0]
            for row in connection.execute("SELECT message_id FROM context_items WHERE message_id IS NOT NULL")
        ]
        counted = dict(
            connection.execute(
                "SELECT summary_id, source_message_token_count FROM summaries WHERE model = 'a/model'"
            )
        )
        links = connection.execute("SELECT summary_id, message_id FROM summary_messages").fetchall()
    assert sorted([*linked, *held]) == sorted(ref for ref in weights if isinstance(ref, int))
    for step in steps:
        if isinstance(step.outcome, PassMade) and step.chunk.due.is_leaf:
            own = [message for summary, message in links if summary == step.outcome.summary_id]
            assert counted[step.outcome.summary_id] == sum(weights[one] for one in own)
