"""Marking what the engine's own cleaners would delete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lcm_core.records import ConversationId
from lcm_core.wording import counted

from lcm_tui.commands import Action
from lcm_tui.frame import CommandScreen
from lcm_tui.panes.marks import Marks
from lcm_tui.widgets.text import Block

if TYPE_CHECKING:  # it is asked for seldom
    from lcm_core.operations.cleaners import Cleaned

_ALL = "a"


def cleaner_action(screen: CommandScreen, marks: Marks[ConversationId]) -> Action:
    """Ask by which cleaner, and mark what it selects; what becomes of it is asked for by other keys."""

    async def ask() -> None:
        from lcm_core.operations.cleaners import Cleaner, Cleaning
        from lcm_core.operations.prune import Criteria, selection

        from lcm_tui.dialogs.question import Question

        criteria = Criteria(cleaning=Cleaning(agents=screen.session.settings.agents.value))
        junk = (await screen.session.read(selection, criteria, sizes=False)).cleaned
        assert junk is not None
        by_key = {str(number): cleaner for number, cleaner in enumerate(Cleaner, 1)}

        def answered(answer: str | None) -> None:
            if answer:
                cleaner = by_key.get(answer)
                chosen = [one for one, by in junk.chosen.items() if cleaner is None or cleaner in by]
                marks.turn([one for one in chosen if one not in marks])
                screen.refresh_bars()

        answers = [(key, _answer(junk, cleaner)) for key, cleaner in by_key.items()]
        answers.append((_ALL, f"all of them: {counted(len(junk.chosen), 'conversation')}"))
        question = Question("Mark by a cleaner of the engine", _about(screen, junk), answers, decides=False)
        screen.app.push_screen(question, answered)

    return Action("mark-by-cleaner", ask)


def _about(screen: CommandScreen, junk: Cleaned) -> tuple[Block, ...]:
    agents = ", ".join(junk.cleaning.agents)
    said = [
        f"The engine's doctor clean would delete these conversations of its agents ({agents}).",
        f"Nothing is deleted here: {screen.key_of('archive')} archives the marked ones, "
        f"{screen.key_of('delete')} exports and deletes them.",
    ]
    if junk.others:
        others = ", ".join(sorted(junk.others))
        said.append(f"Of other agents ({others}) it would delete none.")
    return tuple(map(Block, said))


def _answer(junk: Cleaned, cleaner: str) -> str:
    from lcm_core.operations.cleaners import MEANINGS, Cleaner

    count = sum(cleaner in by for by in junk.chosen.values())
    return f"{MEANINGS[Cleaner(cleaner)]}: {counted(count, 'conversation')}"
