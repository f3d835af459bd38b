"""The choice of a model that a server on the loopback plays, and a clock for its writer."""

from __future__ import annotations

from lcm_core.writers.request import PROVIDERS, ModelChoice

from tests.fakes.messages_api import MessagesApi
from tests.fakes.server import ScriptedServer


def choice_for(server: ScriptedServer, model: str | None = None) -> ModelChoice:
    """The model of the provider whose place *server* takes."""
    if isinstance(server, MessagesApi):
        return ModelChoice(PROVIDERS["anthropic"], model or "claude-haiku-4-5", server.url)
    return ModelChoice(PROVIDERS["openai"], model or "gpt-4.1", f"{server.url}/v1")


class Waits:
    """Stands for `asyncio.sleep`: notes how long was waited and lets others run, nothing more."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
