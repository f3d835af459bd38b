"""Commands without a database of the operator's: ``demo``, ``completion``, help, version."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from lcm_core import __version__
from lcm_core.errors import UsageError
from lcm_core.settings import Options, OutputFormat, SettingSource, resolve

from lcm_tui.cli.answer import PROGRAM, Answer, Run
from lcm_tui.cli.completing import SHELLS, script_for
from lcm_tui.cli.launch import has_terminal, run_the_app
from lcm_tui.cli.readable import Note, Verbatim
from lcm_tui.cli.registry import Outcome, command

#: The conversation of the demonstration that is printed without a terminal.
DEMO_CONVERSATION = 1

ShellArgument: TypeAlias = Annotated[
    str | None,
    typer.Argument(
        metavar="SHELL",
        help=f"One of {', '.join(SHELLS)}; else yours.",
        autocompletion=lambda: list(SHELLS),
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands to *app*."""
    command(app, "demo")(demo)
    command(app, "completion")(completion)


def demo(run: Run) -> Outcome:
    """Open the app on a copy of a demonstration database; without a terminal, print some of it."""
    if run.settings.database.source is SettingSource.COMMAND_LINE:
        raise UsageError("demo brings its own database; leave --db out.", details={"option": "db"})
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
            note = Note(f"The demonstration lay in {folder}; it is gone now.")
            return Answer("demo", {"temporaryFolder": str(folder), "removed": True}, [note], {})
        return _printed_demo(Run(settings, run.presentation), folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _printed_demo(run: Run, folder: Path) -> Answer:
    from lcm_tui.cli.context import context_blocks, context_document, load_context
    from lcm_tui.cli.selecting import Selector
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
            Note(f"This was the demonstration: a temporary copy in {folder}, which is gone again."),
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


def completion(run: Run, shell: ShellArgument = None) -> Answer:
    """Print the shell's completion script, for example: lcm-tui completion bash >> ~/.bashrc."""
    name = shell or Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        problem = f"{name} has no completion script" if name else "Your shell cannot be told"
        raise UsageError(f"{problem}; name one of {', '.join(SHELLS)}.", details={"shell": name})
    script = script_for(name)
    return Answer("completion", {"shell": name, "script": script}, [Verbatim(script)], {})


def version() -> Answer:
    """The version of this program."""
    return Answer("version", {"version": __version__}, [Verbatim(f"{PROGRAM} {__version__}")], {})


def help_() -> Answer:
    """What the engine's command answers to ``--help``, with our commands and options."""
    selected = "(--conversation-id <id> | --session-key <key>)"
    optional = "[--conversation-id <id> | --session-key <key>]"
    data = {
        "usage": f"{PROGRAM} <command> [options]",
        "commands": [
            "status",
            "conversations list",
            f"conversations show {selected}",
            f"messages list {selected}",
            f"messages tail {selected}",
            f"summaries list {optional}",
            "summaries show <summary-id>",
            "summaries previous <summary-id>",
            f"context show {selected}",
            f"files list {optional}",
            "files show <file-id>",
            "sessions list",
            "sessions show <session-id>",
            "config show",
            "config get <path>",
            "prompts list",
            "prompts show <prompt>",
            "prompts render <prompt>",
            "prompts diff <prompt>",
            "prompts export [<prompt>...]",
            "backup",
            "restore <backup>",
            f"dissolve {selected} --summary-id <id>",
            f"history list {optional}",
            "history show <operation-id>",
            "history undo (<operation-id> | --batch <batch> | --last)",
            "history redo (<operation-id> | --batch <batch> | --last)",
            "history prune",
            "reindex",
            "doctor [<conversation-id> | --all]",
            "demo",
            "completion <shell>",
        ],
        "globalOptions": [
            "--db <path>",
            "--config <path>",
            "--openclaw-dir <path>",
            "--sessions <path>",
            "--format <json|table>",
            "--json",
            "--pretty",
            "--no-color",
            "--help",
            "--version",
        ],
        "listOptions": ["--limit <1..500>", "--cursor <opaque-cursor>"],
        "selectorOptions": ["--conversation-id <id>", "--session-key <key>"],
        "messageOptions": ["--role <role>", "--include-content"],
        "summaryOptions": ["--depth <integer>", "--kind <leaf|condensed>", "--include-content"],
        "tailOptions": ["--count <1..500>"],
        "contextOptions": ["--budget <tokens>"],
        "fileOptions": ["--content"],
        "backupOptions": ["--to <path>", "--quick-check", "--force", "--yes"],
        "promptOptions": [
            "--prompt-dir <path>",
            "--aggressive",
            "--target-tokens <integer>",
            "--source <path>",
            "--previous-context <path>",
            "--to <path>",
            "--force",
        ],
        "restoreOptions": ["--apply", "--dry-run", "--yes"],
        "changeOptions": ["--dry-run", "--apply", "--yes", "--sql"],
        "dissolveOptions": ["--summary-id <id>", "--keep", "--levels <integer>", "--budget <tokens>"],
        "pruneHistoryOptions": ["--before <iso-timestamp>", "--keep-newest <integer>"],
        "reindexOptions": ["--table <name>"],
        "doctorOptions": ["--check <id>", "--whole-file", "--fix <id>", "--keep-sources"],
        "timeOptions": [
            "--after <iso-timestamp>",
            "--before <iso-timestamp>",
            "--between <start>..<end>",
            "--recency <duration: s|m|h|d|w>",
        ],
    }
    return Answer("help", data, [], {})
