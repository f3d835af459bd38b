"""Where the program starts: ctrl-C is heeded from here on, before anything that takes time is imported.

To be terminated, or to lose the terminal, ends a command as ctrl-C does: in order, no temporary file left.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from types import FrameType

_CANCELLED = 10
_REFUSED = 9


def main() -> int:
    """Run the program; the result is its exit code (docs/configuration.md, "Exit codes")."""
    try:
        import fcntl  # noqa: F401
    except ImportError:
        return _without_locks()
    own = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else ignored, as under nohup
    if own:
        signal.signal(signal.SIGINT, _leave)
    gc.disable()  # what an import makes lives on: to look through it for garbage took a tenth of its time
    from lcm_tui.cli import presentation as failures
    from lcm_tui.cli.main import main as run

    gc.freeze()
    gc.enable()
    if own:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for kind in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(kind) is signal.SIG_DFL:
            signal.signal(kind, failures.end_by_signal)
    try:
        return run()
    except KeyboardInterrupt:  # pressed again while the first was told
        return failures.exit_code(_CANCELLED)


def _without_locks() -> int:
    """What is left where there are none, as on Windows: to say which version it is, and what it needs."""
    if "--version" in sys.argv[1:] or "-v" in sys.argv[1:]:
        from lcm_core import __version__

        sys.stdout.write(f"lcm-tui {__version__}\n")
        return 0
    sys.stderr.write("lcm-tui needs POSIX locks: run it on Linux or macOS, on Windows inside WSL.\n")
    return _REFUSED


def _leave(number: int, frame: FrameType | None) -> None:
    """Nothing was begun yet, so there is nothing to end in order and nothing to say."""
    os._exit(_CANCELLED)


if __name__ == "__main__":
    sys.exit(main())
