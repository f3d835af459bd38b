"""What decides what is sent, as the operator sets it: the budget, a prompt, the hard limit."""

from __future__ import annotations

from collections.abc import Callable

from lcm_core.budget import parse_budget, step

from lcm_tui.commands import Action
from lcm_tui.frame import CommandScreen
from lcm_tui.screens.context.assembly import Assembly
from lcm_tui.views.units import budget_problem


def budget_actions(
    screen: CommandScreen, assembly: Assembly, changed: Callable[[], None]
) -> tuple[Action, ...]:
    """Set what decides what is sent; *changed* is called when something else does."""

    def set_budget(budget: int | None) -> None:
        assembly.what_if = budget
        changed()

    async def ask_budget() -> None:
        configured = screen.session.budget
        label = f"What if the budget were, in tokens, e.g. 64k (empty: {configured:,}, as configured)"
        text = await screen.ask(label, check=budget_problem)
        if text is not None:
            set_budget(parse_budget(text) if text.strip() else None)

    async def ask_prompt() -> None:
        label = "User message to test eviction with (empty: none)"
        text = await screen.ask(label, assembly.prompt)
        if text is not None and text.strip() != assembly.prompt:
            assembly.prompt = text.strip()
            changed()

    def turn_clamp() -> None:
        assembly.clamps = not assembly.clamps
        changed()

    def why_no_clamp() -> str | None:
        rules = screen.session.rules
        cuts = rules.assembly.clamp is not None
        return None if cuts else f"an engine with these rules ({rules.name}) has no hard limit"

    return (
        Action("budget", ask_budget),
        Action("budget-more", lambda: set_budget(step(assembly.asked, 1))),
        Action("budget-less", lambda: set_budget(step(assembly.asked, -1))),
        Action("prompt", ask_prompt),
        Action("clamp", turn_clamp, why_no_clamp),
    )
