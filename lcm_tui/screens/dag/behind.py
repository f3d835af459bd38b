"""Reading behind the rows of the tree what comes into sight and what was unfolded."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from lcm_core.store import lineage
from lcm_core.store import summaries as store

from lcm_tui.frame import CommandScreen
from lcm_tui.screens.dag.panes import SummaryTree


class ReadBehind:
    """Readers of a tree, each of which reads until nothing is wanted and runs once at a time."""

    def __init__(self, screen: CommandScreen, tree: SummaryTree) -> None:
        self._screen = screen
        self._tree = tree
        self._running: set[str] = set()

    def start(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run a reader, unless the one of that name runs already."""
        if name not in self._running:
            self._running.add(name)
            self._screen.work_on(name, self._run, name, work, exclusive=False)

    async def _run(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        finally:
            self._running.discard(name)

    def fill(self) -> None:
        """Read what is in sight and what was unfolded, as far as it is not known."""
        self.fill_rows()
        self.start("below", self._read_below)

    def fill_rows(self) -> None:
        """Read the rows in sight that are not known."""
        self.start("rows", self._read_rows)

    async def _read_rows(self) -> None:
        while wanted := self._tree.unread_rows():
            entries = await self._screen.session.read(store.summary_entries, wanted)
            if self._tree.learn_rows(wanted, entries):
                self._screen.refresh_bars()

    async def _read_below(self) -> None:
        tree, session = self._tree, self._screen.session
        while True:
            sources, leaves = tree.unread_below()
            if not sources and not leaves:
                return
            if sources:
                tree.known.learn_sources(await session.read(lineage.sources_in, sources))
            found = await session.read(lineage.messages_under, leaves) if leaves else {}
            if tree.known.learn_messages(found) or sources:
                tree.lay_rows()
                self.fill_rows()
