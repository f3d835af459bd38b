"""``doctor``: what the checks find in a database, and fixes for what can be mended without a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from lcm_core.base.errors import UsageError

from lcm_tui.cli import options
from lcm_tui.cli.command import command
from lcm_tui.cli.kinds import Choice, Raw, Seconds

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Outcome, Run


@command(
    "doctor",
    examples=(
        "doctor",
        "doctor 3 --check A,B1",
        "doctor --fix all --apply",
        "doctor --json --fail-on error",
    ),
)
@options.conversation_options
@click.option(
    "--all", "everything", is_flag=True, help="Check the whole database (default without a conversation)."
)
@click.option(
    "--check",
    type=Raw(),
    metavar="ID",
    multiple=True,
    help="Only these checks (A11, or a family: A); separate several with commas.",
)
@click.option(
    "--whole-file",
    is_flag=True,
    help="Also run the slow checks: search tables and pages of the whole database.",
)
@click.option(
    "--check-seconds",
    type=Seconds(),
    metavar="SECONDS",
    help="Time limit per check without progress; 0: no limit (default: 30).",
)
@click.option(
    "--fix",
    type=Raw(),
    metavar="ID",
    multiple=True,
    help="Fix a finding by its id, all of a check (A4), or everything that is broken (all).",
)
@click.option(
    "--fail-on",
    type=Choice("error", "warning", "info", "never"),
    metavar="error|warning|info|never",
    help="Lowest severity for exit code 6, or never for exit code 0 (default: info).",
)
@options.watch
@click.option(
    "--keep-sources",
    is_flag=True,
    help="If a context contains a summary and everything it covers, remove the summary.",
)
@options.sql_flags()
def doctor(
    run: Run,
    *,
    conversation: options.ConversationOptions,
    everything: bool,
    check: tuple[str, ...],
    whole_file: bool,
    check_seconds: float | None,
    fix: tuple[str, ...],
    fail_on: str | None,
    watch: int | None,
    keep_sources: bool,
    flags: options.SqlFlags,
) -> Outcome:
    """Check the database; --fix fixes what needs no model (previews unless --apply)."""
    from lcm_tui.cli import doctor

    named = conversation.selector("doctor")
    if everything and named.given:
        raise UsageError("Give either a conversation or --all.", details={"option": "all"})
    if not fix and (keep_sources or flags.apply or flags.sql):
        option = "keep-sources" if keep_sources else "apply" if flags.apply else "sql"
        raise UsageError(f"--{option} requires --fix.", details={"option": option})
    asked = doctor.Asked(named, doctor.split(check), whole_file)
    if not fix:
        with_time = doctor.with_seconds(run, check_seconds)
        if watch is None:
            return doctor.examine(with_time, asked, fail_on or "info")
        from lcm_tui.cli.working import watched

        return watched(
            run,
            lambda: doctor.examine(with_time, asked, fail_on or "info"),
            watch,
            ends=fail_on is not None,
        )
    if fail_on or watch:
        option = "fail-on" if fail_on else "watch"
        raise UsageError(f"--{option} cannot be used with --fix.", details={"option": option})
    return doctor.mend(doctor.with_seconds(run, check_seconds), asked, fix, flags, keep_sources=keep_sources)
