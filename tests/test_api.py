"""The public face of the core: its page runs as it stands, and it needs no terminal (docs/python.md)."""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import re
import shutil
import subprocess
import sys
import threading
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

ROOT = Path(__file__).parents[1]
PAGES = {
    str(page.relative_to(ROOT)): text
    for page in sorted(ROOT.glob("docs/**/*.md"))
    if "```python" in (text := page.read_text(encoding="utf-8"))
}
PAGE = PAGES["docs/python.md"]
EXAMPLES = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
#: Ends the examples: what they loaded that only a terminal or a model needs.
LOADED = """
import sys
print(sorted({"textual", "rich", "click", "lcm_tui", "anthropic", "openai"} & set(sys.modules)))
"""


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return shutil.copy(unpack_demo(tmp_path / "demo").database, tmp_path / "lcm.db")


@pytest.mark.long
def test_the_examples_print_what_the_page_says_and_load_no_terminal(database: Path):
    assert len(EXAMPLES) == PAGE.count("```python") > 0
    command = [sys.executable, "-c", "\n".join([*(code for code, _ in EXAMPLES), LOADED])]
    nobody = {"PATH": os.environ["PATH"], "HOME": str(database.parent)}  # nobody's settings, and no model
    done = subprocess.run(
        command, cwd=database.parent, env=nobody, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "".join(said for _, said in EXAMPLES) + "[]\n"


@pytest.mark.long
def test_the_examples_of_all_pages_type_check(tmp_path: Path):
    """With the cache of `make lint`, which checks what they import."""
    for name, text in PAGES.items():
        code = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        (tmp_path / f"{name.replace('/', '_').replace('-', '_')[:-3]}.py").write_text("\n".join(code))
    command = [sys.executable, "-m", "mypy", *tmp_path.glob("*.py")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


ENDING = """
import asyncio
from pathlib import Path
from lcm_core import api
from lcm_host.engine import Engine, Session


async def forgets():
    database = await api.open(Path("lcm.db"))
    print(len(await api.conversations(database)))


async def raises():
    database = await api.open(Path("lcm.db"))
    raise SystemExit(len(await api.conversations(database)))


async def hosts():
    engine = await Engine.open(Path("lcm.db"), large_files=Path("files"))
    session = Session("s1", "agent:main:main")
    await engine.after_turn(session, [{"role": "user", "content": "Is it on?"}])
    print((await engine.assemble(session, budget=9_000)).messages[-1].text)


asyncio.run(NAME())
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "code", "printed"), [("forgets", 0, "10\n"), ("raises", 10, ""), ("hosts", 0, "Is it on?\n")]
)
def test_a_program_that_never_closes_ends(name: str, code: int, printed: str, database: Path):
    done = subprocess.run(
        [sys.executable, "-c", ENDING.replace("NAME", name)],
        cwd=database.parent,
        timeout=60,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, printed, "")


@pytest.mark.long
def test_a_program_without_an_event_loop_reads_and_changes(database: Path):
    with api.open_sync(database) as memory:
        whole = memory(api.messages, 1, limit=10**30)
        assert list(memory.each(api.each_message, 1)) == whole
        assert list(memory.each(api.each_message, 2**60)) == []
        [done] = memory(api.commit, memory(api.plan, api.plan_archive, [api.ConversationId(1)]))
        [taken_back] = memory(api.undo, done)
        assert (taken_back.undoes, memory(api.conversation, 1).active) == (done.id, True)
        with pytest.raises(api.NotFoundError):
            memory(api.conversation, 2**70)
    memory.close()
    with pytest.raises(api.DatabaseMissingError):
        api.open_sync(database.with_name("none.db"))
    assert not any(one.name.startswith("lcm-") for one in threading.enumerate())


async def test_a_notebook_with_an_event_loop_of_its_own_is_answered(database: Path):
    with api.open_sync(database) as memory:
        assert len(memory(api.conversations)) == 10


@pytest.mark.long
async def test_records_print_short(database: Path):
    with connect(database) as connection:
        connection.execute("UPDATE messages SET content = ? WHERE conversation_id = 1", ["x" * 9_000])
    async with api.open(database) as opened:
        for record in (
            *await api.messages(opened, 1, limit=1),
            await api.graph(opened, 1),
            await api.assemble(opened, 1, budget=9_000),
            await api.check(opened),
        ):
            assert type(record).__name__ in repr(record)
            assert len(repr(record)) < 2_000


@pytest.mark.long
def test_the_core_is_loaded_when_it_is_used():
    assert not any(name.startswith("lcm_core.") for name in modules_after_importing("lcm_core"))
    later = {
        *("lcm_core.change", "lcm_core.checks", "lcm_core.engine", "lcm_core.operations", "lcm_core.writers"),
        *("lcm_host", "lcm_recall", "lcm_remnic"),
    }
    assert modules_after_importing("lcm_core.api").isdisjoint(later)


@pytest.mark.cases(30)
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
    public = {name: value for name, value in vars(program).items() if not name.startswith("_")}
    asked = {name for name, value in public.items() if inspect.iscoroutinefunction(value)}
    assert asked == {name for module, name in ELSEWHERE if module == program.__name__}


def test_type_checkers_see_each_name_where_it_is_loaded_from():
    tree = ast.parse(inspect.getsource(api))
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name in api.__all__
    }
    assert seen == api._MODULE_OF


def test_what_is_not_public_is_no_attribute():
    with pytest.raises(AttributeError, match="no attribute 'Dissolve'"):
        attrgetter("Dissolve")(api)


FUNCTIONS = [name for name in api.__all__ if inspect.isroutine(getattr(api, name))]


@pytest.mark.cases(27)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_has_an_example_that_runs(name: str):
    assert re.search(rf"\bapi\.{name}\b", "".join(code for code, _ in EXAMPLES))


def test_the_module_lists_what_is_documented():
    assert dir(api) == sorted(api.__all__)


async def test_pages_of_messages_are_whole_and_go_on(database: Path):
    with connect(database) as connection:
        connection.execute(
            "UPDATE messages SET content = ? WHERE conversation_id = 1 AND seq = 3", ["x" * 9_000]
        )
    async with api.open(database) as opened:
        one = await api.conversation(opened, 1)
        whole = await api.messages(opened, one.conversation_id, limit=10**30)
        pages: list[api.Message] = []
        while page := await api.messages(
            opened, one.conversation_id, from_seq=pages[-1].seq + 1 if pages else None, limit=37
        ):
            pages += page
        parts = await api.parts(opened, [message.message_id for message in whole])
    assert pages == whole
    assert max(len(message.content) for message in whole) == 9_000
    assert all(part.message_id == owner for owner, found in parts.items() for part in found)


async def test_mistakes_are_told_in_one_sentence(database: Path):
    async with api.open(database) as opened:
        one = (await api.conversation(opened, 1)).conversation_id
        with pytest.raises(api.UsageError, match="at least 1 message"):
            await api.messages(opened, one, limit=0)
        with pytest.raises(api.UsageError, match="at least 1 token"):
            await api.assemble(opened, one, budget=0)
        with pytest.raises(api.NotFoundError):
            await api.assemble(opened, api.ConversationId(2**70), budget=1)
        with pytest.raises(api.NotFoundError):
            await api.conversation(opened, "agent:nobody:main")
        with pytest.raises(api.UsageError):
            await api.check(opened, only=["Z1"])
        with pytest.raises(api.RefusedError, match="nothing to change"):
            await api.plan(opened, api.plan_fixes, [])
        with pytest.raises(api.NotFoundError):
            await api.plan(opened, api.plan_undo, "op_0000000000000000")
        assert await api.history(opened, limit=-1) == await api.history(opened, limit=10**30) == []
    with pytest.raises(api.DatabaseMissingError):
        await api.open(database.with_name("none.db"))


async def test_a_plan_that_the_database_has_outrun_changes_nothing(database: Path):
    async with api.open(database) as opened:
        graph = await api.graph(opened, api.ConversationId(1))
        root = next(one for one in graph.roots if graph.nodes[one].kind == "condensed")
        first, second = [
            await api.plan(opened, api.plan_dissolve, api.ConversationId(1), [root]) for _ in range(2)
        ]
        [done] = await api.commit(opened, first)
        with pytest.raises(api.StalePlanError):
            await api.commit(opened, second)
        assert [one.id for one in await api.history(opened)] == [done.id]


async def test_what_the_checks_found_is_mended(database: Path):
    with connect(database) as connection:
        connection.execute("UPDATE summaries SET depth = 7 WHERE kind = 'leaf' AND conversation_id = 1")
    one = api.ConversationId(1)
    async with api.open(database) as opened:
        found = [*(await api.check(opened, one, only=["B9"])).findings(api.Confidence.BROKEN)]
        assert found
        await api.commit(opened, await api.plan(opened, api.plan_fixes, found))
        assert (await api.check(opened, one, only=["B9"])).clean


@pytest.mark.long
async def test_a_draft_is_committed_over_the_text_that_it_was_made_from_alone(database: Path):
    async with api.open(database) as opened:
        graph = await api.graph(opened, api.ConversationId(1))
        leaf = next(one for one, node in graph.nodes.items() if node.kind == "leaf")
        [before] = await api.summaries(opened, [leaf])
        [draft, *_] = await api.draft(opened, leaf, api.ExtractiveSummarizer())
        planned = await api.plan(opened, api.plan_rewrite, leaf, "Nothing was decided.")
        [done] = await api.commit(opened, planned)
        [after] = await api.summaries(opened, [leaf])
        assert (after.content, after.summary.model) == ("Nothing was decided.", "manual")
        with pytest.raises(api.StalePlanError):
            await api.plan(opened, api.plan_rewrite, leaf, draft)
        with pytest.raises(api.RefusedError, match="exactly this text"):
            await api.plan(opened, api.plan_rewrite, leaf, after.content)
        await api.commit(opened, await api.plan(opened, api.plan_undo, done.id))
        assert await api.summaries(opened, [leaf]) == [before]
        with pytest.raises(api.NotFoundError):
            await api.draft(opened, api.SummaryId("sum_none"), api.ExtractiveSummarizer())


async def test_broken_summaries_say_what_is_wrong_with_them(database: Path):
    async with api.open(database) as opened:
        found = await api.broken_summaries(opened, api.ConversationId(2))
        assert {one.kind for one in found.bad} == {api.BadKind.TRUNCATED}
        none = await api.broken_summaries(opened, api.ConversationId(2), kinds=[api.BadKind.EMPTY])
        assert none.bad == ()
        with pytest.raises(api.NotFoundError):
            await api.broken_summaries(opened, api.ConversationId(2**70))


async def test_a_backup_replaces_nothing_unless_that_is_asked_for(database: Path):
    async with api.open(database) as opened:
        target = database.with_name("kept.db")
        made = await api.backup(opened, target)
        assert (made.path, made.bytes) == (target, target.stat().st_size)
        with pytest.raises(api.RefusedError, match="not written over"):
            await api.backup(opened, target)
        assert (await api.backup(opened, target, replace=True)).path == target
        with pytest.raises(api.NotFoundError):
            await api.export(opened, api.ConversationId(2**70), database.parent)
        with pytest.raises(api.RefusedError, match="nothing to change"):
            await api.plan(opened, api.plan_delete, [api.ConversationId(2**60)])


async def test_an_old_file_is_migrated_by_its_path(database_file: Callable[[str], Path], tmp_path: Path):
    path = shutil.copy(database_file("0.8.2"), tmp_path / "old.db")
    async with api.open(path) as opened:
        lacking = await api.migration(opened)
    assert lacking
    assert (await asyncio.to_thread(api.migrate, path)).migration == lacking
    async with api.open(path) as opened:
        assert not await api.migration(opened)


async def test_nothing_is_read_after_closing_and_a_reader_sees_what_another_wrote(database: Path):
    opened = await api.open(database)
    one = (await api.conversation(opened, 1)).conversation_id
    with connect(database) as connection:
        connection.execute("UPDATE messages SET content = 'said now' WHERE conversation_id = 1 AND seq = 1")
    assert [message.content for message in await api.messages(opened, one, limit=1)] == ["said now"]
    await opened.close()
    await opened.close()
    with pytest.raises(api.DatabaseError, match="has been closed"):
        await api.messages(opened, one)


@pytest.mark.long
async def test_files_of_every_age_are_read(database_file: Callable[[str], Path]):
    for version in ("0.1.2", "0.8.2", "0.15.3"):
        async with api.open(database_file(version)) as opened:
            for one in await api.conversations(opened):
                graph = await api.graph(opened, one.conversation_id)
                assert len(await api.summaries(opened, graph.nodes)) == len(graph.nodes)
                assembled = await api.assemble(opened, one.conversation_id, budget=4_000)
                assert len(assembled.messages) <= len(await api.context(opened, one.conversation_id))
