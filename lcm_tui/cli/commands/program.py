"""``backup``: the whole database to a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

from lcm_core.base.errors import UsageError
from lcm_prompts import TEMPLATES

from lcm_tui.cli.declaring import Argument, Option, Outcome, command
from lcm_tui.cli.kinds import Completed, FilePath, Raw, Text, WholeNumber
from lcm_tui.cli.options import ChangeFlags, PromptFolder

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run


BackupFile: TypeAlias = Annotated[
    Path | None,
    Option(
        "--to",
        "The file or folder for the copy (default: next to the database, named by the time).",
        FilePath(),
        "PATH",
    ),
]
Check: TypeAlias = Annotated[bool, Option("--quick-check", "Read the copy again and check every page.")]
ReplaceFile: TypeAlias = Annotated[bool, Option("--force", "Replace an existing file.")]
Yes: TypeAlias = Annotated[bool, Option("--yes", "Do not ask for confirmation.")]


@command("backup", examples=("backup --to /backups",))
def backup(
    run: Run, *, to: BackupFile = None, check: Check = False, force: ReplaceFile = False, yes: Yes = False
) -> Answer:
    """Copy one consistent state of the database, also while a host writes to it."""
    from lcm_tui.cli import backup

    return backup.backup(run, to, check=check, force=force, yes=yes)


# -- restore --------------------------------------------------------------------------------------------
# ``restore``: a backup back into the database.

BackupArgument: TypeAlias = Annotated[
    Path, Argument("BACKUP", "The file that `backup` made, or any copy of an LCM database.", FilePath())
]


@command("restore", examples=("restore /backups/lcm.db", "restore /backups/lcm.db --apply"))
def restore(run: Run, *, backup: BackupArgument, flags: ChangeFlags) -> Answer:
    """Restore a backup and keep a copy of the current database (previews unless --apply)."""
    from lcm_tui.cli.backup import restore_

    return restore_(run, backup, flags)


# -- migrate --------------------------------------------------------------------------------------------
# ``migrate``: an old database to the present schema, after a backup.

BackupTo: TypeAlias = Annotated[
    Path | None,
    Option(
        "--backup-to", "The path of the backup (default: next to the database).", FilePath(text=True), "PATH"
    ),
]


@command("migrate", examples=("migrate", "migrate --backup-to /backups/before.db --apply"))
def migrate(run: Run, *, flags: ChangeFlags, backup_to: BackupTo = None) -> Answer:
    """Migrate an old database to the engine's current schema, after a backup (previews unless --apply)."""
    from lcm_tui.cli import backup as migrate

    return migrate.migrate_(run, flags, backup_to)


# -- reindex --------------------------------------------------------------------------------------------
# ``reindex``: search tables are written anew from messages and summaries.

Tables: TypeAlias = Annotated[
    tuple[str, ...],
    Option("--table", "Only this search table; may be given several times.", Text(), "NAME", several=True),
]


@command("reindex", examples=("reindex --apply", "reindex --table summaries_fts --apply"))
def reindex(run: Run, *, table: Tables = (), flags: ChangeFlags) -> Answer:
    """Rebuild the search tables from messages and summaries (previews unless --apply)."""
    from lcm_tui.cli import backup as reindex

    return reindex.reindex_(run, table, flags)


# -- config ---------------------------------------------------------------------------------------------
# ``config show``, ``config get`` and the refusal of ``config set``.

PathArgument: TypeAlias = Annotated[
    str, Argument("PATH", "A dotted path such as freshTailCount or raw.summaryModel.")
]
ValueArgument: TypeAlias = Annotated[str, Argument("VALUE", "The value as JSON.")]


@command("config show")
def config_show(run: Run) -> Answer:
    """Show the settings: values in the files (secrets masked), effective values, and their sources."""
    from lcm_tui.cli import settings as config

    return config.show(run)


@command("config get", examples=("config get freshTailCount",))
def get(run: Run, *, path: PathArgument) -> Answer:
    """Show one setting by its path."""
    from lcm_tui.cli import settings as config

    return config.get(run, path)


@command("config set")
def set_(run: Run, *, path: PathArgument, value: ValueArgument) -> Answer:
    """Not supported: lcm-tui does not write the host's configuration."""
    from lcm_core.base.errors import RefusedError

    key = path.removeprefix("raw.").removeprefix("effective.")
    place = run.settings.plugin_place or "plugins.entries.lossless-claw.config"
    raise RefusedError(
        "lcm-tui does not write the host's configuration: the file is the host's, and writing it anew would "
        f"lose its comments. Set {place}.{key} in {run.settings.config_file.value} yourself, or with the "
        f"engine's own command (from 0.14.0): lcm config set {key} VALUE. `lcm-tui config get {key}` then "
        "shows what applies.",
        details={"path": path},
    )


# -- prompts --------------------------------------------------------------------------------------------
# ``prompts``: what a model is asked when it summarises, and the operator's own versions of it.

_MAX_TARGET = 1_000_000

PromptArgument: TypeAlias = Annotated[str, Argument("PROMPT", f"One of {', '.join(TEMPLATES)}.", Raw())]
PromptArguments: TypeAlias = Annotated[
    tuple[str, ...], Argument("PROMPT", f"Of {', '.join(TEMPLATES)}; else all.", Raw(), several=True)
]
PromptsFolder: TypeAlias = Annotated[
    Path | None,
    Option(
        "--to", "The folder to write to (default: the folder of your prompts).", FilePath(text=True), "DIR"
    ),
]
Overwrite: TypeAlias = Annotated[bool, Option("--force", "Replace existing files.")]
Aggressive: TypeAlias = Annotated[
    bool, Option("--aggressive", "The prompt used after an answer that was too long.")
]
TargetTokens: TypeAlias = Annotated[
    int,
    Option(
        "--target-tokens", "The target size in tokens; 1200 by default.", WholeNumber(1, _MAX_TARGET), "N"
    ),
]
SourceFile: TypeAlias = Annotated[
    str | None, Option("--source", "The text to summarise (default: a sample).", Raw(), "FILE")
]
PreviousFile: TypeAlias = Annotated[
    str | None, Option("--previous-context", "The previous context (default: none).", Raw(), "FILE")
]


@command("prompts list", forms=("csv",))
def list_(run: Run, *, prompt_dir: PromptFolder = None) -> Answer:
    """List the prompts, their versions, and which of them are yours."""
    from lcm_tui.cli import settings as prompts

    return prompts.list_(run, prompt_dir)


@command("prompts show", examples=("prompts show leaf",))
def prompts_show(run: Run, *, prompt: PromptArgument, prompt_dir: PromptFolder = None) -> Answer:
    """Show the text of a prompt: your version if you have one."""
    from lcm_tui.cli import settings as prompts

    return prompts.show_prompt(run, prompt, prompt_dir)


@command("prompts render", examples=("prompts render condensed-d1 --aggressive",))
def render(
    run: Run,
    *,
    prompt: PromptArgument,
    prompt_dir: PromptFolder = None,
    aggressive: Aggressive = False,
    target_tokens: TargetTokens = 1_200,
    source: SourceFile = None,
    previous_context: PreviousFile = None,
) -> Answer:
    """Show a prompt as a model would receive it. Nothing is sent."""
    from lcm_tui.cli import settings as prompts

    return prompts.render(run, prompt, prompt_dir, aggressive, target_tokens, source, previous_context)


@command("prompts diff", examples=("prompts diff leaf",))
def diff(run: Run, *, prompt: PromptArgument, prompt_dir: PromptFolder = None) -> Answer:
    """Show how your version of a prompt differs from the built-in one."""
    from lcm_tui.cli import settings as prompts

    return prompts.diff(run, prompt, prompt_dir)


@command("prompts export", examples=("prompts export leaf --to ~/prompts",))
def export(
    run: Run,
    *,
    prompt: PromptArguments = (),
    prompt_dir: PromptFolder = None,
    to: PromptsFolder = None,
    force: Overwrite = False,
) -> Answer:
    """Write built-in prompts to files for editing. Existing files stay unless --force is given."""
    from lcm_tui.cli import settings as prompts

    return prompts.export(run, prompt, prompt_dir if to is None else to, force=force)


# -- report ---------------------------------------------------------------------------------------------
# ``report``: what a bug report needs, and nothing of what the database, the log or the settings say.

ReportFile: TypeAlias = Annotated[
    Path | None,
    Option("--to", "The output file (default: a new file in this folder).", FilePath(text=True), "PATH"),
]


@command("report")
def report(run: Run, *, to: ReportFile = None) -> Answer:
    """Write a bug report: versions, schema, counts, masked settings, errors; no content."""
    from lcm_tui.cli import report

    return report.report(run, to)


# -- demo -----------------------------------------------------------------------------------------------
# ``demo``: the app on a demonstration.

DemoFolder: TypeAlias = Annotated[
    Path | None,
    Option(
        "--to",
        "Write the demo database to this folder for trying commands, and do not open the app.",
        FilePath(),
        "DIR",
    ),
]


@command("demo", examples=("demo", "demo --to try"))
def demo(run: Run, *, to: DemoFolder = None) -> Outcome:
    """Open the app on a copy of a demonstration database; without a terminal, print some of it."""
    from lcm_tui.cli import demo

    return demo.demo(run) if to is None else demo.leave_copy(run, to)


# -- completion -----------------------------------------------------------------------------------------
# ``completion``: the script with which a shell completes our command lines.

SHELLS: Final = ("bash", "zsh", "fish", "powershell")

ShellArgument: TypeAlias = Annotated[
    str | None, Argument("SHELL", f"One of {', '.join(SHELLS)}; else your shell.", Completed(*SHELLS))
]


@command("completion", examples=("completion bash >> ~/.bashrc",))
def completion(run: Run, *, shell: ShellArgument = None) -> Answer:
    """Print the shell's completion script, for example: lcm-tui completion bash >> ~/.bashrc."""
    from lcm_tui.cli.answer import Answer
    from lcm_tui.cli.help import script_for
    from lcm_tui.tables.blocks import Verbatim

    name = shell or Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        problem = f"{name} has no completion script" if name else "Your shell cannot be determined"
        raise UsageError(f"{problem}; name one of {', '.join(SHELLS)}.", details={"shell": name})
    script = script_for(name)
    return Answer("completion", {"shell": name, "script": script}, [Verbatim(script)], {})


# -- help -----------------------------------------------------------------------------------------------
# ``help``: what there is, and what a command takes.

CommandArguments: TypeAlias = Annotated[
    tuple[str, ...], Argument("COMMAND", "The words of a command; else all are listed.", Raw(), several=True)
]


@command("help", examples=("help", "help history undo"))
def help_(run: Run, *, words: CommandArguments = ()) -> Outcome:
    """List the commands, or explain one; the same as --help."""
    from lcm_tui.cli import registry
    from lcm_tui.cli.main import main

    form = ["--json"] if run.presentation.json else []
    if words and registry.are_unknown(words):
        return main([*words, *form])  # which is refused by their name
    return main([*words, "--help", *form])
