"""``doctor``: what the checks find in a database, and fixes for what can be mended without a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

from lcm_core.base.errors import UsageError

from lcm_tui.cli.declaring import Option, Outcome, command
from lcm_tui.cli.kinds import Choice, Raw, Seconds
from lcm_tui.cli.options import ConversationOptions, SqlFlags, Watch

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Run

All: TypeAlias = Annotated[
    bool, Option("--all", "Check the whole database (default without a conversation).")
]
Checks: TypeAlias = Annotated[
    tuple[str, ...],
    Option(
        "--check",
        "Only these checks (A11, or a family: A); separate several with commas.",
        Raw(),
        "ID",
        several=True,
    ),
]
WholeFile: TypeAlias = Annotated[
    bool,
    Option("--whole-file", "Also run the slow checks: search tables and pages of the whole database."),
]
CheckSeconds: TypeAlias = Annotated[
    float | None,
    Option(
        "--check-seconds",
        "Time limit per check without progress; 0: no limit (default: 30).",
        Seconds(),
        "SECONDS",
    ),
]
FixOption: TypeAlias = Annotated[
    tuple[str, ...],
    Option(
        "--fix",
        "Fix a finding by its id, all of a check (A4), or everything that is broken (all).",
        Raw(),
        "ID",
        several=True,
    ),
]
FailOn: TypeAlias = Annotated[
    str | None,
    Option(
        "--fail-on",
        "Lowest severity for exit code 6, or never for exit code 0 (default: info).",
        Choice("error", "warning", "info", "never"),
        "error|warning|info|never",
    ),
]
KeepSources: TypeAlias = Annotated[
    bool,
    Option("--keep-sources", "If a context contains a summary and everything it covers, remove the summary."),
]


@command(
    "doctor",
    examples=(
        "doctor",
        "doctor 3 --check A,B1",
        "doctor --fix all --apply",
        "doctor --json --fail-on error",
    ),
)
def doctor(
    run: Run,
    *,
    conversation: ConversationOptions,
    everything: All = False,
    check: Checks = (),
    whole_file: WholeFile = False,
    check_seconds: CheckSeconds = None,
    fix: FixOption = (),
    fail_on: FailOn = None,
    watch: Watch = None,
    keep_sources: KeepSources = False,
    flags: SqlFlags,
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
