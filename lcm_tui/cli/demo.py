"""``demo``: the app on a demonstration."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from lcm_core.errors import RefusedError, UsageError
from lcm_core.records import ConversationId
from lcm_core.settings import Options, OutputFormat, SettingSource, resolve

from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.declaring import Outcome
from lcm_tui.cli.launch import has_terminal, run_the_app
from lcm_tui.cli.presentation import PROGRAM
from lcm_tui.views.blocks import Note

#: The conversation of the demonstration that is printed without a terminal.
DEMO_CONVERSATION = ConversationId(1)


def demo(run: Run) -> Outcome:
    """Open the app on it, or print some of it."""
    if run.settings.database.source is SettingSource.COMMAND_LINE:
        raise UsageError("demo uses its own database: omit --db.", details={"option": "db"})
    from lcm_tui.demo import keep_snapshots, unpack_demo

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


def leave_copy(run: Run, folder: Path) -> Answer:
    """Leave the database with its state folder in a *folder*.

    Raises:
        RefusedError: one lies there already, or cannot be made.
    """
    from lcm_tui.demo import unpack_demo

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
    from lcm_tui.cli.options import Selector
    from lcm_tui.cli.status import load_status, status_blocks, status_document

    status = run.read(load_status, run.settings)
    context = run.read(load_context, run, Selector(DEMO_CONVERSATION, None), None)
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
