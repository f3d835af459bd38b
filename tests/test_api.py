"""The public face of the core: its page runs as it stands, and it needs no terminal (docs/python.md)."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from operator import attrgetter
from pathlib import Path

import pytest
from lcm_core import api
from lcm_recall import program

from lcm_tui.cli.demo import unpack_demo
from tests.databases import connect
from tests.test_imports import modules_after_importing

PAGE = (Path(__file__).parents[1] / "docs" / "python.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
#: Ends the examples: what they loaded that only a terminal or a model needs.
LOADED = """
import sys
from collections.abc import Callable
from operator import attrgetter
print(sorted({"textual", "rich", "click", "lcm_tui", "anthropic", "openai"} & set(sys.modules)))
"""


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return shutil.copy(unpack_demo(tmp_path / "demo").database, tmp_path / "lcm.db")


def test_the_examples_print_what_the_page_says_and_load_no_terminal(database: Path):
    assert len(EXAMPLES) == PAGE.count("```python") > 0
    source = "\n".join([*(code for code, _ in EXAMPLES), LOADED])
    done = subprocess.run(
        [sys.executable, "-c", source], cwd=database.parent, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "".join(said for _, said in EXAMPLES) + "[]\n"


def test_the_core_is_loaded_when_it_is_used():
    assert not any(name.startswith("lcm_core.") for name in modules_after_importing("lcm_core"))
    later = {
        *("lcm_core.change", "lcm_core.checks", "lcm_core.engine", "lcm_core.operations", "lcm_core.writers"),
        *("lcm_host", "lcm_recall", "lcm_remnic"),
    }
    assert modules_after_importing("lcm_core.api").isdisjoint(later)


@pytest.mark.parametrize("name", api.__all__)
def test_a_public_name_is_there_says_what_it_is_and_stands_on_the_page(name: str):
    value = getattr(api, name)
    assert inspect.getdoc(value)
    assert f"`{name}`" in PAGE


ELSEWHERE = [
    (module, name)
    for module, names in re.findall(r"^\| `(lcm_\w+\.[\w.]+)` \| (.*) \|$", PAGE, re.MULTILINE)
    for name in re.findall(r"`(\w+)`", names)
]


@pytest.mark.parametrize(("module", "name"), ELSEWHERE)
def test_a_name_from_elsewhere_is_there_and_says_what_it_is(module: str, name: str):
    value = getattr(import_module(module), name)
    assert isinstance(value, str | tuple) or inspect.getdoc(value)


def test_the_page_names_every_function_that_recalls():
    asked = {name for name, value in vars(program).items() if inspect.iscoroutinefunction(value)}
    assert asked == {name for module, name in ELSEWHERE if module == program.__name__}


def test_type_checkers_see_each_name_where_it_is_loaded_from():
    tree = ast.parse(inspect.getsource(api))
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == api._MODULE_OF


def test_what_is_not_public_is_no_attribute():
    with pytest.raises(AttributeError, match="no attribute 'Dissolve'"):
        attrgetter("Dissolve")(api)


@pytest.mark.parametrize("method", [name for name in vars(api.LcmDatabase) if not name.startswith("_")])
def test_a_method_says_what_it_does(method: str):
    assert inspect.getdoc(getattr(api.LcmDatabase, method))


async def test_pages_of_messages_are_whole_and_go_on(database: Path):
    with connect(database) as connection:
        connection.execute(
            "UPDATE messages SET content = ? WHERE conversation_id = 1 AND seq = 3", ["x" * 9_000]
        )
    async with await api.LcmDatabase.open(database) as opened:
        one = await opened.conversation(1)
        whole = await opened.messages(one.conversation_id, limit=10**30)
        pages: list[api.Message] = []
        while page := await opened.messages(
            one.conversation_id, from_seq=pages[-1].seq + 1 if pages else None, limit=37
        ):
            pages += page
        parts = await opened.parts([message.message_id for message in whole])
    assert pages == whole
    assert max(len(message.content) for message in whole) == 9_000
    assert all(part.message_id == owner for owner, found in parts.items() for part in found)


async def test_mistakes_are_told_in_one_sentence(database: Path):
    async with await api.LcmDatabase.open(database) as opened:
        one = (await opened.conversation(1)).conversation_id
        with pytest.raises(api.UsageError, match="at least 1 message"):
            await opened.messages(one, limit=0)
        with pytest.raises(api.UsageError, match="at least 1 token"):
            await opened.assemble(one, budget=0)
        with pytest.raises(api.NotFoundError):
            await opened.assemble(api.ConversationId(2**70), budget=1)
        with pytest.raises(api.NotFoundError):
            await opened.conversation("agent:nobody:main")
        with pytest.raises(api.UsageError):
            await opened.check(only=["Z1"])
        with pytest.raises(api.RefusedError, match="nothing to change"):
            await opened.plan_fixes([])
        with pytest.raises(api.NotFoundError):
            await opened.plan(api.plan_undo, "op_0000000000000000")
        assert await opened.history(limit=-1) == await opened.history(limit=10**30) == []
    with pytest.raises(api.DatabaseMissingError):
        await api.LcmDatabase.open(database.with_name("none.db"))


async def test_a_plan_that_the_database_has_outrun_changes_nothing(database: Path):
    async with await api.LcmDatabase.open(database) as opened:
        graph = await opened.graph(api.ConversationId(1))
        root = next(one for one in graph.roots if graph.nodes[one].kind == "condensed")
        first, second = [
            await opened.plan(api.plan_dissolve, api.ConversationId(1), [root]) for _ in range(2)
        ]
        [done] = await opened.commit(first)
        with pytest.raises(api.StalePlanError):
            await opened.commit(second)
        assert [one.id for one in await opened.history()] == [done.id]


async def test_what_the_checks_found_is_mended(database: Path):
    with connect(database) as connection:
        connection.execute("UPDATE summaries SET depth = 7 WHERE kind = 'leaf' AND conversation_id = 1")
    one = api.ConversationId(1)
    async with await api.LcmDatabase.open(database) as opened:
        found = [*(await opened.check(one, only=["B9"])).findings(api.Confidence.BROKEN)]
        assert found
        await opened.commit(await opened.plan_fixes(found))
        assert (await opened.check(one, only=["B9"])).clean


async def test_a_draft_is_committed_over_the_text_that_it_was_made_from_alone(database: Path):
    async with await api.LcmDatabase.open(database) as opened:
        graph = await opened.graph(api.ConversationId(1))
        leaf = next(one for one, node in graph.nodes.items() if node.kind == "leaf")
        [before] = await opened.summaries([leaf])
        [draft, *_] = await opened.draft(leaf, api.ExtractiveSummarizer())
        [done] = await opened.commit(await opened.plan_rewrite(leaf, "Nothing was decided."))
        [after] = await opened.summaries([leaf])
        assert (after.content, after.summary.model) == ("Nothing was decided.", "manual")
        with pytest.raises(api.StalePlanError):
            await opened.plan_rewrite(leaf, draft)
        with pytest.raises(api.RefusedError, match="exactly this text"):
            await opened.plan_rewrite(leaf, after.content)
        await opened.commit(await opened.plan(api.plan_undo, done.id))
        assert await opened.summaries([leaf]) == [before]
        with pytest.raises(api.NotFoundError):
            await opened.draft(api.SummaryId("sum_none"), api.ExtractiveSummarizer())


async def test_broken_summaries_say_what_is_wrong_with_them(database: Path):
    async with await api.LcmDatabase.open(database) as opened:
        found = await opened.broken_summaries(api.ConversationId(2))
        assert {one.kind for one in found.bad} == {api.BadKind.TRUNCATED}
        none = await opened.broken_summaries(api.ConversationId(2), kinds=[api.BadKind.EMPTY])
        assert none.bad == ()
        with pytest.raises(api.NotFoundError):
            await opened.broken_summaries(api.ConversationId(2**70))


async def test_a_backup_replaces_nothing_unless_that_is_asked_for(database: Path):
    async with await api.LcmDatabase.open(database) as opened:
        target = database.with_name("kept.db")
        made = await opened.backup(target)
        assert (made.path, made.bytes) == (target, target.stat().st_size)
        with pytest.raises(api.RefusedError, match="not written over"):
            await opened.backup(target)
        assert (await opened.backup(target, replace=True)).path == target
        with pytest.raises(api.NotFoundError):
            await opened.export(api.ConversationId(2**70), database.parent)
        with pytest.raises(api.RefusedError, match="nothing to change"):
            await opened.plan_delete([api.ConversationId(2**60)])


async def test_an_old_file_is_migrated_by_its_path(database_file: Callable[[str], Path], tmp_path: Path):
    path = shutil.copy(database_file("0.8.2"), tmp_path / "old.db")
    async with await api.LcmDatabase.open(path) as opened:
        lacking = await opened.plan_migration()
    assert lacking
    assert (await asyncio.to_thread(api.migrate, path)).migration == lacking
    async with await api.LcmDatabase.open(path) as opened:
        assert not await opened.plan_migration()


async def test_nothing_is_read_after_closing_and_a_reader_sees_what_another_wrote(database: Path):
    opened = await api.LcmDatabase.open(database)
    one = (await opened.conversation(1)).conversation_id
    with connect(database) as connection:
        connection.execute("UPDATE messages SET content = 'said now' WHERE conversation_id = 1 AND seq = 1")
    assert [message.content for message in await opened.messages(one, limit=1)] == ["said now"]
    await opened.close()
    await opened.close()
    with pytest.raises(api.DatabaseError, match="has been closed"):
        await opened.messages(one)


async def test_files_of_every_age_are_read(database_file: Callable[[str], Path]):
    for version in ("0.1.2", "0.8.2", "0.15.3"):
        async with await api.LcmDatabase.open(database_file(version)) as opened:
            for one in await opened.conversations():
                graph = await opened.graph(one.conversation_id)
                assert len(await opened.summaries(graph.nodes)) == len(graph.nodes)
                assembled = await opened.assemble(one.conversation_id, budget=4_000)
                assert len(assembled.messages) <= len(await opened.context(one.conversation_id))
