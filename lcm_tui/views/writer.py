"""Who writes summaries."""

from __future__ import annotations

from lcm_tui.views.blocks import Cell
from lcm_tui.writing import Modelling


def writer_facts(model: Modelling) -> list[tuple[str, Cell]]:
    """Who writes summaries and with which key."""
    told = {"Key": model.key, "Headers": model.headers, "Price": model.price_words}
    return [
        ("Written by", model.words),
        *((name, words) for name, words in told.items() if words),
        *(("Prompts", note) for note in model.prompt_notes),
    ]
