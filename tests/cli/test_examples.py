"""Every example of every help page and of a page for users works as typed on the demonstration."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest
from lcm_core.api import ExitCode

from lcm_tui.cli import tree
from lcm_tui.cli.command import Command
from lcm_tui.cli.demo import unpack_demo
from tests.cli.support import run
from tests.core.rollouts import THREAD, as_rollout
from tests.fakes.messages_api import MessagesApi

SESSION: Final = "4361652a-c630-427f-a157-12eb5ff25efa"
BOUND: Final = "27046938-a735-4a93-a971-f4fe747bb833"
#: The id of an operation in examples; there is none before something was changed.
OPERATION: Final = "op_4c4b"
ROOT: Final = Path(__file__).parents[2]
_BLOCK: Final = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)


def done(*arguments: object) -> None:
    """Run what has to be there before an example."""
    assert run(*arguments).code == 0


def has_brief(home: Path) -> None:
    Path("brief.md").write_text("What was decided about retries.\n")


def has_newer_summaries(home: Path) -> None:
    has_brief(home)
    done(
        "compact",
        2,
        "--leaf",
        "--set",
        "leafChunkTokens=300",
        "--set",
        "freshTailCount=2",
        "--apply",
        "--yes",
    )


def has_copy(home: Path) -> None:
    shutil.copy(home / ".openclaw/lcm.db", "copy.db")


def has_backup(home: Path) -> None:
    done("backup", "--to", "lcm-backup.db")


def has_session(home: Path) -> None:
    shutil.copy(home / f".openclaw/agents/main/sessions/{SESSION}.jsonl", "session.jsonl")


def has_export(home: Path) -> None:
    shutil.copytree(home / ".openclaw", "other")
    done("conversations", "delete", 3, "--apply", "--yes", "--db", "other/lcm.db")
    (exported,) = (home / ".local/share/lcm-tui/exports").glob("conversation-3-*.jsonl")
    shutil.copy(exported, "conversation-3.jsonl")


def has_rollout(home: Path) -> None:
    lines = "\n".join(as_rollout(home / ".openclaw/lcm.db", 1))
    Path("rollout.jsonl").write_text(lines)
    beside = home / f".openclaw/agents/main/sessions/{BOUND}.jsonl.codex-app-server.json"
    beside.write_text(json.dumps({"threadId": THREAD}))
    codex = home / ".openclaw/agents/main/agent/codex-home/sessions/2026/03/02"
    codex.mkdir(parents=True)
    (codex / f"rollout-2026-03-02T15-14-23-{THREAD}.jsonl").write_text(lines)


def has_remnic(home: Path) -> None:
    has_copy(home)
    Path("copy.db").rename("lcm.db")
    done("remnic", "import", "--remnic", "memory", "--create", "--apply", "--yes")
    shutil.copy("memory/state/lcm.sqlite", "lcm.sqlite")


def has_history(home: Path) -> None:
    done("dissolve", "sum_4c4b", "--apply", "--yes")


def has_undone(home: Path) -> None:
    has_history(home)
    done("history", "undo", "last", "--apply", "--yes")


#: What has to be there before the examples of a command; the first words of one stand for those of all.
NEEDS: Final[Mapping[str, Callable[[Path], None]]] = {
    "status": has_copy,
    "focus create": has_newer_summaries,
    "restore": has_backup,
    "backfill": has_session,
    "import": has_export,
    "sessions": has_rollout,
    "remnic": has_remnic,
    "history list": has_history,
    "history undo": has_history,
    "history redo": has_undone,
    "history prune": has_history,
}


@pytest.fixture(scope="session")
def _demonstration(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_demo(tmp_path_factory.mktemp("examples")).state_dir


@pytest.fixture
def place(
    tmp_path: Path, _demonstration: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Path, str]]:
    """A home folder with the demonstration, beside the current folder, and where a model answers."""
    home, here = tmp_path / "home", tmp_path / "here"
    home.mkdir()
    here.mkdir()
    shutil.copytree(_demonstration, home / ".openclaw")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("EXAMPLE_KEY", "sk-no-key")
    monkeypatch.chdir(here)
    with MessagesApi() as model:
        yield home, model.url


def operation_id() -> str:
    """The operation that was made before the examples."""
    return str(run("history", "list", "--json").data["items"][0]["operationId"])


def ended(example: str, model: str) -> tuple[int, str]:
    """Run an example as it is typed, and agree to what it asks; its exit code and what it says of it."""
    words = shlex.split(example.partition(" >>")[0])
    if words[0] == "ask" or {"--apply", "--draft"} & {*words}:
        words.append("--yes")
    if "--model" in words:
        words += ["--base-url", model, "--api-key-env", "EXAMPLE_KEY"]
    if words[0] == "mcp":  # it serves until its standard input ends
        served = subprocess.run(
            [sys.executable, "-m", "lcm_tui", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        return served.returncode, served.stderr
    result = run(*words)
    return result.code, result.err


@pytest.mark.parametrize("one", [one for one in tree.every() if one.examples], ids=lambda one: one.path)
def test_examples_work_as_typed(one: Command, place: tuple[Path, str]) -> None:
    home, model = place
    prepare = NEEDS.get(one.path) or NEEDS.get(one.path.split()[0])
    if prepare is not None:
        prepare(home)
    for example in one.examples:
        typed = example.replace(OPERATION, operation_id()) if OPERATION in example else example
        code, said = ended(typed, model)
        assert code in (ExitCode.DONE, ExitCode.FINDINGS), f"{example}: {code} {said}"
    beside = {path.name for path in (*home.iterdir(), *home.parent.iterdir()) if path.name[0] != "."}
    assert beside <= {"home", "here", "Library"}, "an example writes outside of the current folder"


def samples() -> Iterator[tuple[str, str]]:
    """The commands in blocks of the pages for users, each with its page."""
    words = {one.path.split()[0] for one in tree.every()} - {"demo"}
    written = {*(ROOT / "docs").glob("*.md")} - {ROOT / "docs/commands.md"}
    for page in (ROOT / "README.md", *written):
        for block in _BLOCK.findall(page.read_text(encoding="utf-8")):
            for line in re.findall(r"^lcm-tui (\w.*?)(?: +#.*)?$", block, re.MULTILINE):
                if line.split()[0] in words:
                    yield page.name, line


@pytest.mark.cases(1)
@pytest.mark.parametrize(("page", "typed"), sorted(set(samples())))
def test_samples_of_pages_work_as_typed(page: str, typed: str, place: tuple[Path, str]) -> None:
    home, model = place
    has_brief(home)
    code, said = ended(typed, model)
    assert code in (ExitCode.DONE, ExitCode.FINDINGS), f"{page}: {typed}: {code} {said}"


def test_examples_name_no_folder_from_the_root() -> None:
    examples = [example for one in tree.every() for example in one.examples]
    assert [one for one in examples if any(os.path.isabs(word) for word in shlex.split(one))] == []
