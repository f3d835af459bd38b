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
    """Not supported: lcm-tui does not write the host's configuration."""
    from lcm_core.errors import RefusedError

    key = path.removeprefix("raw.").removeprefix("effective.")
    place = run.settings.plugin_place or "plugins.entries.lossless-claw.config"
    raise RefusedError(
        "lcm-tui does not write the host's configuration: the file is the host's, and writing it anew would "
        f"lose its comments. Set {place}.{key} in {run.settings.config_file.value} yourself, or with the "
        f"engine's own command (from 0.14.0): lcm config set {key} VALUE. `lcm-tui config get {key}` then "
        "shows what applies.",
        details={"path": path},
    )
