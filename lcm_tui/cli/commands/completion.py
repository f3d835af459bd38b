"""``completion``: the script with which a shell completes our command lines."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

from lcm_core.errors import UsageError

from lcm_tui.cli.declaring import Argument, command
from lcm_tui.cli.kinds import Completed

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run

SHELLS: Final = ("bash", "zsh", "fish", "powershell")

ShellArgument: TypeAlias = Annotated[
    str | None, Argument("SHELL", f"One of {', '.join(SHELLS)}; else your shell.", Completed(*SHELLS))
]


@command("completion", examples=("completion bash >> ~/.bashrc",))
def completion(run: Run, *, shell: ShellArgument = None) -> Answer:
    """Print the shell's completion script, for example: lcm-tui completion bash >> ~/.bashrc."""
    from lcm_tui.cli.answer import Answer
    from lcm_tui.cli.completing import script_for
    from lcm_tui.views.blocks import Verbatim

    name = shell or Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        problem = f"{name} has no completion script" if name else "Your shell cannot be determined"
        raise UsageError(f"{problem}; name one of {', '.join(SHELLS)}.", details={"shell": name})
    script = script_for(name)
    return Answer("completion", {"shell": name, "script": script}, [Verbatim(script)], {})
