"""Fixtures for every test: a clean environment, and private or shared copies of the recorded databases."""

from __future__ import annotations

import faulthandler
import gc
import itertools
import os
import re
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from lcm_tui.cli.demo import unpack_demo
from tests.support import unpack_database

DatabaseFactory = Callable[[str], Path]

settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("search", settings.get_profile("ci"), derandomize=False, max_examples=1000)
settings.load_profile("ci")  # `pytest --hypothesis-profile=search` looks further than the fixed examples

#: Variables of the caller that would change what the program reads, shows or sends, keys among them; those of
#: the snapshot plugin are its own and stay.
FOREIGN = re.compile(
    r"(NO_COLOR|FORCE_COLOR|CLICOLOR\w*|COLORTERM|PY_COLORS|GITHUB_ACTIONS|COLUMNS|LINES|TTY_\w+"
    r"|LANGUAGE|LC_\w+|LCM_\w+|TEXTUAL(?!_SNAPSHOT)\w*|OPENCLAW_\w+|XDG_\w+|EDITOR|VISUAL|PAGER"
    r"|ANTHROPIC_\w+|CLAUDE_\w+|OPENAI_\w+|OPENROUTER_\w+)$"
)


def _forget_foreign_variables() -> None:
    for name in [name for name in os.environ if FOREIGN.match(name)]:
        del os.environ[name]


#: How long a thread that a test started may go on after it, and the process after the last test.
ENDING_SECONDS = 60.0
#: When the databases were written, in seconds since 1970: in March 2026, where their messages end.
WRITTEN = 1_772_800_000


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test marked ``cases(n)`` the short form runs n cases, spread over all; the others are long."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("cases") and not item.get_closest_marker("long"):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in tests.values():
        (few,) = cases[0].get_closest_marker("cases").args
        short = {one * len(cases) // few for one in range(few)}
        for at, item in enumerate(cases):
            if at not in short:
                item.add_marker(pytest.mark.long)


def pytest_collection_finish() -> None:
    """What was imported and collected lives to the end: no collection of garbage walks over it again.

    Of what tests make a collection is worth its time less often than Python thinks.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_unconfigure() -> None:
    """End the process, with what its threads were at, where one of them never ends: nothing else would."""
    faulthandler.dump_traceback_later(ENDING_SECONDS, exit=True, file=sys.__stderr__)


_forget_foreign_variables()  # before collection: textual and click read some of them when imported
_homes = itertools.count()


@pytest.fixture(autouse=True)
def _clean_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An empty home folder, UTC, a colour terminal, and none of the caller's settings.

    Whatever a test (or what it calls) does to the environment is put back after it.
    """
    before = dict(os.environ)
    _forget_foreign_variables()
    home = tmp_path_factory.getbasetemp() / "homes" / str(next(_homes))
    home.mkdir(mode=0o700, parents=True)
    os.environ.update(HOME=str(home), TZ="UTC", LANG="C.UTF-8", TERM="xterm-256color")
    time.tzset()
    yield
    for name in os.environ.keys() - before.keys():
        del os.environ[name]
    os.environ.update(before.items() - os.environ.items())  # each name that is set takes its time
    time.tzset()


@pytest.fixture(autouse=True)
def _signals_of_a_terminal() -> Iterator[None]:
    """Signals do what they do in a terminal, also where the run was started with some of them ignored."""
    kinds = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {kind: signal.getsignal(kind) for kind in kinds}
    for kind, held in before.items():
        if held is signal.SIG_IGN:
            signal.signal(kind, signal.default_int_handler if kind is signal.SIGINT else signal.SIG_DFL)
    yield
    for kind, held in before.items():
        if held is signal.SIG_IGN:
            signal.signal(kind, held)


@pytest.fixture(autouse=True)
def _threads_end() -> Iterator[None]:
    """Fails the test that leaves a thread of a connection that nobody closed: the process waits for it."""
    before = set(threading.enumerate())
    yield
    begun = [thread for thread in threading.enumerate() if thread not in before and not thread.daemon]
    for thread in begun:
        thread.join(ENDING_SECONDS)
    left = [thread.name for thread in begun if thread.is_alive()]
    assert not left, f"this test left threads that do not end: {left}"


@pytest.fixture(scope="session")
def _shared_databases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("databases")


@pytest.fixture(scope="session")
def database_file(_shared_databases: Path) -> DatabaseFactory:
    """``database_file(version)``: the database that all tests share; a test that changes it fails."""

    def shared(version: str) -> Path:
        path = _shared_databases / version / "lcm.db"
        if not path.exists():
            path.parent.mkdir()
            _written_long_ago(unpack_database(version, path)).chmod(0o400)
        return path

    return shared


def _written_long_ago(path: Path) -> Path:
    """What was written a moment ago may have been written to since: it is read again and told as changed."""
    os.utime(path, (WRITTEN, WRITTEN))
    return path


@pytest.fixture(autouse=True)
def _shared_databases_stay(_shared_databases: Path) -> Iterator[None]:
    before = _traces(_shared_databases)
    yield
    after = _traces(_shared_databases)
    changed = sorted(name for name in before if after.get(name) != before[name])
    extra = sorted(name for name in after.keys() - before.keys() if not name.endswith("/lcm.db"))
    assert not changed, f"this test changed or removed shared databases: {changed}"
    assert not extra, f"this test left files beside shared databases: {extra}"


def _traces(folder: Path) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for version in os.scandir(folder):
        for file in os.scandir(version):
            at = file.stat()
            found[f"{version.name}/{file.name}"] = (at.st_size, at.st_mtime_ns)
    return found


@pytest.fixture
def database_copy(tmp_path: Path, database_file: DatabaseFactory) -> DatabaseFactory:
    """``database_copy(version)``: a copy of its own, alone in a folder of its own, to be changed at will."""
    numbers = itertools.count()

    def private(version: str) -> Path:
        folder = tmp_path / f"database-{next(numbers)}"
        folder.mkdir()
        return _written_long_ago(Path(shutil.copyfile(database_file(version), folder / "lcm.db")))

    return private


@pytest.fixture(scope="session")
def _unpacked_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = unpack_demo(tmp_path_factory.mktemp("openclaw")).state_dir
    _written_long_ago(unpack_database("0.15.3", home / "lcm.db"))
    return home


@pytest.fixture
def openclaw_home(tmp_path: Path, _unpacked_home: Path) -> Path:
    """A state folder as OpenClaw keeps it: the recorded ``lcm.db`` of 0.15.3, ``agents/``, ``lcm-files/``."""
    return Path(shutil.copytree(_unpacked_home, tmp_path / ".openclaw"))
