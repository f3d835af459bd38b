"""``config show``, ``config get`` and the refusal of ``config set``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

from lcm_tui.cli.declaring import Argument, command

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run

PathArgument: TypeAlias = Annotated[
    str, Argument("PATH", "A dotted path such as freshTailCount or raw.summaryModel.")
]
ValueArgument: TypeAlias = Annotated[str, Argument("VALUE", "The value as JSON.")]


@command("config show")
def show(run: Run) -> Answer:
    """Show the settings: values in the files (secrets masked), effective values, and their sources."""
    from lcm_tui.cli import config

    return config.show(run)


@command("config get", examples=("config get freshTailCount",))
def get(run: Run, *, path: PathArgument) -> Answer:
    """Show one setting by its path."""
    from lcm_tui.cli import config

    return config.get(run, path)


@command("config set")
def set_(run: Run, *, path: PathArgument, value: ValueArgument) -> Answer:
    """Refuse: this program does not write the host's configuration."""
    from lcm_core.errors import RefusedError

    raise RefusedError(
        f"lcm-tui does not write the host's configuration; change {path} in {run.settings.config_file.value} "
        "yourself, or with the host's own command.",
        details={"path": path},
    )
