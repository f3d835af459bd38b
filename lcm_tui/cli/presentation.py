"""What the command is called, and how its answers are printed."""

from __future__ import annotations

from dataclasses import dataclass

PROGRAM = "lcm-tui"


@dataclass(frozen=True, slots=True)
class Presentation:
    """How an answer or an error is printed."""

    json: bool = False
    engine_table: bool = False  #: the engine's own tab-separated form
    pretty: bool = False
    color: bool = True
    form: str = ""  #: csv, or a form of the command's own
    quiet: bool = False  #: no answer is printed

    @property
    def for_programs(self) -> bool:
        """Whether it is a form of the engine's command, which scripts read: JSON or its table."""
        return self.json or self.engine_table

    @property
    def prints_data(self) -> bool:
        """Whether the data of an answer is printed, not its blocks."""
        return self.for_programs or self.form == "csv"
