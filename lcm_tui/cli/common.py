"""The options of every command, which stand before or after its words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

from lcm_tui.cli.declaring import Option
from lcm_tui.cli.kinds import Choice, Raw

if TYPE_CHECKING:
    from lcm_core.settings import Options

#: Forms of some commands: CSV of what takes `PageOptions`, the others where a command declares them.
FORMS: Final = ("csv",)

COMMON: Final = "Common options"

Db: TypeAlias = Annotated[str | None, Option("--db", "The database file.", Raw(), "PATH", section=COMMON)]
Config: TypeAlias = Annotated[
    str | None, Option("--config", "The host's openclaw.json.", Raw(), "PATH", section=COMMON)
]
OpenclawDir: TypeAlias = Annotated[
    str | None, Option("--openclaw-dir", "The host's state folder.", Raw(), "PATH", section=COMMON)
]
Sessions: TypeAlias = Annotated[
    str | None,
    Option("--sessions", "A sessions folder, or a folder of agents.", Raw(), "DIR", section=COMMON),
]
Format: TypeAlias = Annotated[
    str | None,
    Option(
        "--format",
        "JSON, or the engine's tab-separated table; without it a table for people. Lists also CSV.",
        Choice("json", "table", *FORMS),
        "json|table|csv",
        section=COMMON,
    ),
]
AsJson: TypeAlias = Annotated[bool, Option("--json", "The same as --format json.", section=COMMON)]
Pretty: TypeAlias = Annotated[bool, Option("--pretty", "Indent JSON.", section=COMMON)]
NoColor: TypeAlias = Annotated[bool, Option("--no-color", "No bold and dim text.", section=COMMON)]
Quiet: TypeAlias = Annotated[
    bool, Option("--quiet", "Print only errors; the exit code is the answer.", section=COMMON)
]
Utc: TypeAlias = Annotated[
    bool, Option("--utc", "Show times in UTC; typed ones that name no zone are UTC, too.", section=COMMON)
]
Verbose: TypeAlias = Annotated[
    bool,
    Option(
        "--verbose",
        "Report on standard error which files are used and how long it took; with --version, all versions.",
        section=COMMON,
    ),
]
AllowUnknownSchema: TypeAlias = Annotated[
    bool,
    Option(
        "--allow-unknown-schema",
        "Also change rows to which a table or column refers that lcm-tui does not know.",
        section=COMMON,
    ),
]


@dataclass(frozen=True, slots=True)
class CommonOptions:
    """What every command takes."""

    db: Db = None
    config: Config = None
    openclaw_dir: OpenclawDir = None
    sessions: Sessions = None
    output: Format = None
    as_json: AsJson = False
    pretty: Pretty = False
    no_color: NoColor = False
    quiet: Quiet = False
    utc: Utc = False
    verbose: Verbose = False
    allow_unknown_schema: AllowUnknownSchema = False

    def settings(self) -> Options:
        """The same as the settings want it."""
        from lcm_core.settings import Options, OutputFormat

        given = OutputFormat.JSON if self.as_json else self.output
        chosen = None if given is None else OutputFormat.TABLE if given in FORMS else OutputFormat(given)
        return Options(
            self.db,
            self.config,
            self.openclaw_dir,
            self.sessions,
            output_format=chosen,
            allow_unknown_schema=self.allow_unknown_schema,
            utc=self.utc,
        )
