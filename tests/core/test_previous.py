"""The reconstructed previous context against what the real engine passed to its summariser, pass by pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lcm_core.api import Database, NotFoundError, Summary
from lcm_core.engine.previous import Candidate, Making, joined, reconstruct
from lcm_core.engine.rules import RULES_0_1, RULES_PRESENT
from lcm_core.operations.selection import WeighedContext, WeighedItem, nearest_summaries
from lcm_core.writers.source import previous_of, previous_rules

from tests.databases import building, reading, run
from tests.support import VERSIONS, recorded, sampled

DatabaseFactory = Callable[[str], Path]


@cache
def recordings() -> Any:
    """Final rows of recorded compactions and the previous context of every pass.

    A node is [depth, created, earliest, latest, text, messages from and to or sources, previous].
    """
    return recorded("previous-context.json.gz")


#: One in four; the others in the long form.
CASES = [
    pytest.param(version, case, id=f"{version}-{case['name']}", marks=() if at % 4 == 0 else pytest.mark.long)
    for version in ("0.1.2", "0.15.3")
    for at, case in enumerate(recordings()[version]["cases"])
]
#: Passes that the final rows cannot tell apart: right is then one of the other possibilities, or (wrong) a
#: text that the caller of the engine made up. All others are right as assumed.
UNCERTAIN = {
    ("0.1.2", "leaf-x6"): {"otherwise": 3, "wrong": 1},
    ("0.1.2", "leaf-mix"): {"otherwise": 8},
    ("0.1.2", "sweep-odd-small-chunks-skips-mix"): {"otherwise": 1},
    ("0.15.3", "leaf-x6"): {"otherwise": 3, "wrong": 1},
    ("0.15.3", "leaf-mix"): {"otherwise": 8},
    ("0.15.3", "sweep-odd-small-chunks-skips"): {"otherwise": 1},
    ("0.15.3", "sweep-odd-small-chunks-skips-mix"): {"otherwise": 1},
    ("0.15.3", "head-iteration-cap"): {"otherwise": 1},
    ("0.15.3", "head-under-deadline"): {"otherwise": 2},
}


def summary_id(case: Any, index: int) -> str:
    return f"sum_{case['conversation']:08x}{index:08x}"


def write_case(path: Path, version: str, case: Any) -> None:
    """Empty the database at *path* and write the rows that a recorded compaction left."""
    texts, conversation = recordings()[version]["texts"], case["conversation"]
    with building(path) as rows:
        for table in ("context_items", "summary_parents", "summary_messages", "summaries", "message_parts"):
            rows.execute(f"DELETE FROM {table}")
        rows.execute("DELETE FROM messages")
        for message, owner, seq, created in recordings()[version]["messages"]:
            written = {"message_id": message, "seq": seq, "created_at": created}
            rows.message(owner, "said", in_context=False, **written)
        for message, seq, content, created in case["events"]:
            written = {"message_id": message, "seq": seq, "created_at": created}
            rows.message(conversation, content, role="system", in_context=False, **written)
        for index, (depth, created, earliest, latest, text, made_from, _) in enumerate(case["nodes"]):
            rows.summary(
                conversation,
                summary_id(case, index),
                texts[text],
                messages=() if depth else range(made_from[0], made_from[1] + 1),
                sources=[summary_id(case, source) for source in made_from] if depth else (),
                depth=depth,
                earliest_at=earliest,
                latest_at=latest,
                created_at=created,
            )
        for index in case["context"]["summaries"]:
            rows.item(conversation, summary_id(case, index))
        for message in case["context"]["messages"]:
            rows.item(conversation, message)


@pytest.mark.cases(1)
@pytest.mark.parametrize(("version", "case"), CASES)
async def test_what_each_pass_was_given(version: str, case: Any, database_copy: DatabaseFactory):
    path = database_copy(version)
    write_case(path, version, case)
    texts = recordings()[version]["texts"]
    counted: Counter[str] = Counter()
    async with await Database.open(path) as database:
        for index, node in enumerate(case["nodes"]):
            given = "" if node[6] is None else texts[node[6]]
            found = await database.read(previous_of, summary_id(case, index))
            assert found.applies == (node[0] == 0)
            if found.as_given.text == given:
                counted["right"] += 1
            else:
                counted["otherwise" if given in [one.text for one in found.otherwise] else "wrong"] += 1
    uncertain = UNCERTAIN.get((version, case["name"]), {})
    assert counted - Counter(right=counted["right"]) == Counter(uncertain)


class Rows:
    """The rows of one database, for what the tests work out by themselves."""

    def __init__(self, path: Path) -> None:
        with reading(path) as database:
            listed = (
                "SELECT summary_id, rowid, kind, depth, conversation_id, content, latest_at FROM summaries"
            )
            self.nodes = {row[0]: row for row in database.execute(listed)}
            self.edges = database.execute(
                "SELECT summary_id, parent_summary_id FROM summary_parents"
            ).fetchall()
            self.links: dict[str, list[int]] = {}
            for leaf, seq in database.execute(
                "SELECT summary_id, seq FROM summary_messages JOIN messages USING (message_id)"
            ):
                self.links.setdefault(leaf, []).append(seq)

    def seqs(self, node: str, seen: tuple[str, ...] = ()) -> list[int]:
        """Every message below *node*."""
        below = [source for consumer, source in self.edges if consumer == node and source not in seen]
        return self.links.get(node, []) + [seq for one in below for seq in self.seqs(one, (*seen, node))]

    def stood_before(self, node: str) -> list[str]:
        """What was made earlier, not consumed then, and ends before *node* starts; nearest first."""
        _, row, _, _, conversation, _, _ = self.nodes[node]
        start = min(self.seqs(node))
        consumed = {
            source
            for consumer, source in self.edges
            if consumer in self.nodes and self.nodes[consumer][1] < row
        }
        found = [
            one
            for one, other in self.nodes.items()
            if other[1] < row and other[4] == conversation and one not in consumed
            if self.seqs(one) and max(self.seqs(one)) < start
        ]
        return sorted(found, key=lambda one: -max(self.seqs(one)))


def chosen(choice: Any) -> list[str]:
    """Nearest first."""
    return [node.summary_id for node in reversed(choice.nodes)]


@pytest.mark.long
@pytest.mark.parametrize("version", sampled(VERSIONS, ("0.1.2", "0.15.3-damaged")))
async def test_what_is_chosen_stood_there_at_the_time(version: str, database_file: DatabaseFactory):
    rows = Rows(database_file(version))
    asked = 0
    async with await Database.open(database_file(version)) as database:
        for node, (_, _, _, depth, *_) in rows.nodes.items():
            found = await database.read(previous_of, node)
            assert found.applies == (depth == 0)
            if not found.applies or not rows.seqs(node):
                continue
            asked += 1
            standing = rows.stood_before(node)
            for choice in (found.as_given, *found.otherwise):
                assert len(choice.nodes) <= 2
                assert set(chosen(choice)) <= set(standing)
            check_leaf(rows, found, standing, passes_over=version[:4] in ("0.15", "1.0-"))
    assert asked > 5


def check_leaf(rows: Rows, found, standing: list[str], *, passes_over: bool) -> None:
    """One of the possibilities is the last two, none is broken in a rewrite, and every reason is true."""
    left = [one.summary_id for one in found.as_given.passed_over if "removed from" in one.reason]
    usable = [one for one in standing if one not in left]
    two = [one for one in (usable if passes_over else usable[:2]) if rows.nodes[one][5].strip()][:2]
    assert two in [chosen(choice) for choice in (found.as_given, *found.otherwise)]
    assert not [node for node in found.for_rewrite.nodes if node.broken]
    if not any(node.broken for node in found.as_given.nodes):
        assert chosen(found.for_rewrite) == chosen(found.as_given)
    for passed in found.as_given.passed_over:
        if "condensed into" in passed.reason:
            consumers = [consumer for consumer, source in rows.edges if source == passed.summary_id]
            assert min(rows.nodes[one][1] for one in consumers) < rows.nodes[found.summary_id][1]


async def test_what_new_took_out_of_the_context_is_passed_over(database_file: DatabaseFactory):
    """Conversation 2: messages 75 to 90 and two leaves left it; the leaf over 91 to 104 was made later."""
    async with await Database.open(database_file("0.8.2")) as database:
        found = await database.read(previous_of, "sum_733ce55b22040442")
    (given,) = found.as_given.nodes
    assert (given.summary_id, given.summary.depth, given.last_seq) == ("sum_8ed7b7de0ddf5abe", 2, 46)
    out = [one for one in found.as_given.passed_over if "removed from the context" in one.reason]
    assert [one.summary_id for one in out] == ["sum_c752ca55db28b3b0", "sum_8b0c2a78f1ab05fd"]


async def test_a_message_between_two_passes_parts_them(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    first, second = "sum_9e5806c818acab6b", "sum_cae2105a57ab383d"  # of one sweep
    async with await Database.open(path) as database:
        together = await database.read(previous_of, second)
    set_time = "UPDATE summaries SET created_at = '{}' WHERE summary_id = '{}'"
    run(path, set_time.format("2026-03-02 08:00:00", first), set_time.format("2026-03-02 09:46:53", second))
    async with await Database.open(path) as database:
        apart = await database.read(previous_of, second)
    assert [node.origin for node in together.as_given.nodes] == ["made by the previous pass"]
    assert "sweep that had just made" in together.as_given.assumption
    assert apart.as_given.nodes == ()
    assert "first pass of a sweep" in apart.as_given.assumption
    assert [chosen(one) for one in apart.otherwise] == [[first]]


async def test_a_summary_without_messages_finds_its_place_by_time(database_copy: DatabaseFactory):
    path = database_copy("0.1.2")
    rows = Rows(path)
    leaf, following = "sum_2d269f69c4f3176d", "sum_4bc9743d23f105e6"
    assert rows.stood_before(following)[0] == leaf
    async with await Database.open(path) as database:
        before = {one: await database.read(previous_of, one) for one in (leaf, following)}
    run(path, f"DELETE FROM summary_messages WHERE summary_id = '{leaf}'")
    async with await Database.open(path) as database:
        after = {one: await database.read(previous_of, one) for one in (leaf, following)}
    assert [node.last_seq for node in after[following].as_given.nodes if node.summary_id == leaf] == [None]
    for one in (leaf, following):
        assert chosen(after[one].as_given) == chosen(before[one].as_given)
        assert len(after[one].as_given.nodes) == 2


async def test_a_cycle_is_named_and_ends_the_search_nowhere(database_copy: DatabaseFactory):
    path = database_copy("0.1.2")
    with building(path) as rows:  # of depth 1, and of depth 2 made from it
        rows.links("sum_34b959c6240fdd3d", sources=["sum_28fdcf8c7d0b4871"], first=9)
    async with await Database.open(path) as database:
        found = await database.read(previous_of, "sum_a738af4a5a45329a")
    assert "is below a cycle" in [one.reason for one in found.as_given.passed_over]


async def test_a_broken_summary_gives_way_to_the_next_one_in_a_rewrite(database_copy: DatabaseFactory):
    path = database_copy("0.1.2")
    node = "sum_2d269f69c4f3176d"
    two = Rows(path).stood_before(node)[:3]
    broken = "cut\n[Truncated from 900 tokens]"
    run(path, f"UPDATE summaries SET content = '{broken}' WHERE summary_id = '{two[0]}'")
    for one in two[1:]:  # a copy of its source is broken too
        run(path, f"UPDATE summaries SET content = 'Sound.' WHERE summary_id = '{one}'")
    async with await Database.open(path) as database:
        found = await database.read(previous_of, node)
    assert chosen(found.as_given) == two[:2]
    assert found.as_given.text.endswith("\n\ncut\n[Truncated from 900 tokens]")
    assert chosen(found.for_rewrite) == two[1:]
    assert "[Truncated" not in found.for_rewrite.text
    assert [one.reason for one in found.for_rewrite.passed_over if one.summary_id == two[0]] == [
        "is broken (truncated)"
    ]


async def test_deep_and_missing_summaries(database_file: DatabaseFactory):
    async with await Database.open(database_file("0.15.3")) as database:
        deep = await database.read(previous_of, "sum_4c4bd5292abfa225")
        assert (deep.applies, deep.as_given.nodes, deep.for_rewrite.text) == (False, (), "")
        assert deep.why_not is not None
        assert "only leaves" in deep.why_not
        with pytest.raises(NotFoundError) as missing:
            await database.read(previous_of, "sum_0000000000000000")
    assert missing.value.code == "SUMMARY_NOT_FOUND"


@pytest.mark.long
async def test_the_search_reads_little(database_file: DatabaseFactory):
    path = database_file("0.15.3")
    async with await Database.open(path) as database:
        for node in Rows(path).nodes:
            before = database.statements
            await database.read(previous_of, node)
            assert database.statements - before < 100


def candidate(number: int, depth: int = 0, broken=None, text: str | None = None) -> Candidate:
    summary = Summary(
        f"sum_{number}", 1, "condensed" if depth else "leaf", depth, 1, None, None,
        None, None, None, "", "[]", None,
    )  # fmt: skip
    return Candidate(summary, f"text {number}" if text is None else text, broken, None, None)


def decide(
    making: Making,
    *candidates: Candidate,
    preceding: str | None = None,
    rules=RULES_PRESENT,
):
    before = None if preceding is None else preceding
    return reconstruct("sum_x", making, before, candidates, previous_rules(rules))


def test_a_sweep_hands_a_summary_on_as_it_is_and_a_pass_of_its_own_reads_it():
    near, far = candidate(1, text=" a \n\n b \n<think>c</think>"), candidate(2, text='{"title":"c"}')
    swept = decide(Making.IN_SWEEP, near, far, preceding="sum_1")
    assert swept.as_given.text == " a \n\n b \n<think>c</think>"
    assert [one.text for one in swept.otherwise] == ["c\n\na\n b", ""]
    old = decide(Making.IN_SWEEP, near, far, preceding="sum_1", rules=RULES_0_1)
    assert old.otherwise[0].text == '{"title":"c"}\n\na \n\n b \n<think>c</think>'


@pytest.mark.parametrize("nothing", [" \n", "<think>a", '{"path":"/x"}', "MEDIA:/a"])
def test_a_summary_that_says_nothing_makes_room_for_one_farther_back_at_any_distance(nothing: str):
    nearest = [candidate(number, text=nothing) for number in range(1, 30)]
    found = decide(
        Making.SINGLE, *nearest[:20], candidate(30), *nearest[20:], candidate(31, 1), candidate(32)
    )
    assert (chosen(found.as_given), found.as_given.text) == (["sum_30", "sum_31"], "text 31\n\ntext 30")
    assert [one.reason for one in found.as_given.passed_over] == [
        *["says nothing"] * 29,
        "too far back",
    ]
    alone = decide(Making.SINGLE, *nearest, candidate(30))
    assert alone.as_given.text == "text 30"
    assert decide(Making.SINGLE, *nearest).as_given.text == ""


def test_a_blank_summary_takes_a_place_at_0_1_and_gives_nothing():
    blank = candidate(1, broken="empty", text=" \n")
    found = decide(Making.SINGLE, blank, candidate(2), candidate(3), rules=RULES_0_1)
    assert (chosen(found.as_given), found.as_given.text) == (["sum_2"], "text 2")
    assert (chosen(found.for_rewrite), found.for_rewrite.text) == (["sum_2", "sum_3"], "text 3\n\ntext 2")


@pytest.mark.long
@given(
    st.lists(st.tuples(st.booleans(), st.booleans(), st.sampled_from(["a", " b ", "", "{}"])), max_size=12)
)
def test_one_rule_for_compaction_and_for_what_is_reconstructed(shape: list[tuple[bool, bool, str]]):
    """Messages between summaries; what compaction would give to a leaf behind them is what is told of it."""
    texts = {f"sum_{at}": text for at, (is_summary, _, text) in enumerate(shape) if is_summary}
    for rules in (RULES_0_1, RULES_PRESENT):
        reading = previous_rules(rules)
        items = [
            WeighedItem(f"sum_{at}", 1, depth=depth, blank=reading.passes_over and not reading.reading(text))
            if is_summary
            else WeighedItem(at + 1, 1)
            for at, (is_summary, depth, text) in enumerate(shape)
        ]
        context = WeighedContext.of([*items, WeighedItem(99, 1)])
        taken = nearest_summaries(context, len(items))
        nearest = [candidate(int(one[4:]), text=text) for one, text in reversed(texts.items())]
        told = decide(Making.SINGLE, *nearest, rules=rules).as_given
        assert told.text == joined(reading.reading(texts[one]) for one in taken)
        assert [one.summary_id for one in told.nodes] == [one for one in taken if reading.reading(texts[one])]


def test_a_rewrite_in_a_sweep_takes_the_nearest_sound_one_alone():
    found = decide(
        Making.IN_SWEEP,
        candidate(1, broken="fallback"),
        candidate(2, broken="truncated"),
        candidate(3),
        candidate(4),
        preceding="sum_1",
    )
    assert chosen(found.as_given) == ["sum_1"]
    assert found.as_given.nodes[0].broken == "fallback"
    assert (chosen(found.for_rewrite), found.for_rewrite.nodes[0].origin) == (
        ["sum_3"],
        "3 places before it",
    )
