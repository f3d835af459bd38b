"""Imports that no key waits for."""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module


async def imported(*modules: str) -> None:
    """Import *modules* in a thread: they are large, and keys come first."""
    for name in modules:
        if name not in sys.modules:
            await asyncio.to_thread(import_module, name)
