"""``demo``: the app on a demonstration, whose database and state folder ship inside the package."""

from __future__ import annotations

import asyncio
import gzip
import io
import os
import shutil
import tarfile
import tempfile
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path, PurePosixPath

from lcm_core.base.errors import RefusedError, UsageError
from lcm_core.base.records import ConversationId
from lcm_core.base.setting_values import OutputFormat, SettingSource
from lcm_core.base.settings import Options, resolve
from lcm_core.base.values import Record, replace

from lcm_tui.cli.answer import Answer, Outcome, Run
from lcm_tui.cli.command import command, option
from lcm_tui.cli.kinds import FilePath
from lcm_tui.cli.main import has_terminal, run_the_app
from lcm_tui.cli.presentation import PROGRAM
from lcm_tui.tables.blocks import Note

# -- the command -----------------------------------------------------------------------------------------

#: The conversation that is printed without a terminal, and of which snapshots are kept.
DEMO_CONVERSATION = ConversationId(1)


@command("demo", examples=("demo", "demo --to try"))
@option(
    "--to",
    FilePath(),
    "DIR",
    "Write the demo database to this folder for trying commands, and do not open the app.",
)
def demo(run: Run, *, to: Path | None) -> Outcome:
    """Open the app on a copy of a demonstration database; without a terminal, print some of it."""
    if to is not None:
        return _leave_copy(run, to)
    if run.settings.database.source is SettingSource.COMMAND_LINE:
        raise UsageError("demo uses its own database: omit --db.", details={"option": "db"})

    folder = Path(tempfile.mkdtemp(prefix="lcm-tui-demo-"))
    try:
        home = unpack_demo(folder)
        given = Options(home.database, None, home.state_dir, home.agents)
        settings = resolve(given, _own_environment(), home=Path.home())
        if has_terminal() and run.settings.output_format.value is not OutputFormat.JSON:
            keep_snapshots(home)
            code = run_the_app(settings, demo=True)
            if code:
                return code
            note = Note(f"The demo was in {folder}; it is deleted.")
            return Answer("demo", {"temporaryFolder": str(folder), "removed": True}, [note], {})
        return _printed_demo(Run(settings, run.presentation), folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _leave_copy(run: Run, folder: Path) -> Answer:
    """Leave the database with its state folder in a *folder*.

    Raises:
        RefusedError: one lies there already, or cannot be made.
    """

    try:
        home = unpack_demo(folder)
    except FileExistsError:
        raise RefusedError(f"{folder} already contains a state folder. Name another folder.") from None
    except OSError as error:
        raise RefusedError(f"{folder} cannot be written: {error.strerror}. Name another folder.") from error
    note = Note(f"The demo is in {folder}; try `{PROGRAM} --db {home.database} status`.")
    return run.answer("demo", {"database": str(home.database), "stateDir": str(home.state_dir)}, [note])


def _printed_demo(run: Run, folder: Path) -> Answer:
    from lcm_tui.cli.context import context_blocks, context_document, load_context
    from lcm_tui.cli.status import load_status, status_blocks, status_document

    status = run.read(load_status, run.settings)
    context = run.read(load_context, run, DEMO_CONVERSATION, None)
    return Answer(
        "demo",
        {
            "temporaryFolder": str(folder),
            "removed": True,
            "status": status_document(run, status),
            "context": context_document(context),
        },
        [
            *status_blocks(run, status),
            *context_blocks(run, context),
            Note(f"This was the demo: a temporary copy in {folder}, which is now deleted."),
        ],
        {},
    )


def _own_environment() -> dict[str, str]:
    """The environment without what would lead the demonstration to the operator's own files."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("LCM_", "OPENCLAW_")) or name.startswith("LCM_TUI_")
    }


# -- its files -------------------------------------------------------------------------------------------
# A database and its state folder that ship inside the package.

#: When a host would have asked for its context, under which budget, and how many messages were not said yet.
TURNS = (
    (datetime(2026, 3, 4, 11, 58, tzinfo=UTC), 128_000, 8),
    (datetime(2026, 3, 4, 12, 4, tzinfo=UTC), 128_000, 3),
    (datetime(2026, 3, 4, 12, 11, tzinfo=UTC), 128_000, 0),
    (datetime(2026, 3, 4, 12, 12, tzinfo=UTC), 3_500, 0),
)
PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700


class DemoHome(Record, frozen=True):
    """Where one copy of the demonstration lies.

    The database was written by LCM 0.15.3 on a machine whose state folder was ``/home/operator/.openclaw``:
    the paths stored in it begin with that, not with ``state_dir``. Titles, a session that a rollover
    split and a few damages were added to it, so that each command has something to show.
    """

    state_dir: Path  #: a state folder laid out as OpenClaw lays out its own
    database: Path  #: ``lcm.db`` in it, with no WAL beside it
    agents: Path  #: session transcripts, ``<agent>/sessions/*.jsonl``; three are unknown to the database
    large_files: Path  #: ``<conversation>/<file id>.<extension>``


def unpack_demo(folder: Path) -> DemoHome:
    """Write a private copy of the demonstration to ``folder/.openclaw`` and say where its parts are.

    Files get mode 0600 and folders 0700 whatever the umask is; *folder* itself is made when it is missing
    and otherwise left as it is.

    Raises:
        FileExistsError: *folder* holds an ``.openclaw`` already; nothing is ever written over.
    """
    folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    state_dir = folder / ".openclaw"
    _make_folder(state_dir)
    packed = files("lcm_tui") / "data"
    database = state_dir / "lcm.db"
    try:
        _write(database, gzip.decompress((packed / "demo.db.gz").read_bytes()))
        _unpack_files((packed / "demo-home.tar.gz").read_bytes(), state_dir)
    except BaseException:  # half a demonstration would be refused as one that lies there already
        shutil.rmtree(state_dir, ignore_errors=True)
        raise
    return DemoHome(state_dir, database, state_dir / "agents", state_dir / "lcm-files")


def keep_snapshots(home: DemoHome) -> None:
    """Leave the snapshots in the database that an `Engine` would have left of a few turns of a host."""
    asyncio.run(_keep_snapshots(home.database))


async def _keep_snapshots(path: Path) -> None:
    from lcm_core.base.engine_settings import EngineSettings
    from lcm_core.change.snapshots import keep_snapshot, snapshot_of
    from lcm_core.operations.assembly import add_history, assemble_context, settings_for
    from lcm_core.store.database import Database

    async with await Database.open(path) as database:
        for moment, budget, later in TURNS:
            settings = settings_for(EngineSettings(), budget)
            whole = await database.read(assemble_context, DEMO_CONVERSATION, settings, zone=UTC, now=moment)
            whole = await database.read(add_history, DEMO_CONVERSATION, whole)
            end = len(whole.messages) - later
            weights = whole.weights[:end]
            then = replace(whole, messages=whole.messages[:end], weights=weights, sent_tokens=sum(weights))
            keep_snapshot(path, snapshot_of(then, DEMO_CONVERSATION, settings, zone=UTC, now=moment))


def _unpack_files(archive: bytes, state_dir: Path) -> None:
    """Write the archive's files with their recorded times.

    Not ``TarFile.extractall``: its safe filters are missing from Python 3.11.0 to 3.11.3.
    """
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        for member in tar:
            path = state_dir.joinpath(*PurePosixPath(member.name).parts)
            if member.isdir():
                _make_folder(path)
            elif content := tar.extractfile(member):
                _write(path, content.read())
                os.utime(path, (member.mtime, member.mtime))


def _make_folder(path: Path) -> None:
    path.mkdir(mode=PRIVATE_FOLDER)
    path.chmod(PRIVATE_FOLDER)  # mkdir subtracts the umask


def _write(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
    os.fchmod(descriptor, PRIVATE_FILE)
    with open(descriptor, "wb") as file:
        file.write(content)
