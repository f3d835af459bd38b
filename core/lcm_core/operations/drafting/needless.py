"""When no model is asked for a summary of a batch: there is nothing to ask, or no need to any more."""

from __future__ import annotations

from lcm_core.operations.drafting.items import Item, State
from lcm_core.operations.drafting.material import Material
from lcm_core.operations.repair import CONTAMINATED, kind_of_text


def why_not_asked(item: Item, material: Material, kind: str) -> tuple[State, str] | None:
    """What becomes of an item without a call, and why, a sentence; None: it is asked for.

    *kind* is that of the batch, ``rewrite`` or ``repair``.
    """
    if not material.source.text:
        lost = "are gone" if material.source.gone else "say nothing"
        return State.FAILED, f"Its sources {lost}: there is nothing to make a text from."
    if kind == "repair" and _is_mended(item, material):
        return State.SKIPPED, "It is not broken any more: something else has mended it meanwhile."
    return None


def _is_mended(item: Item, material: Material) -> bool:
    """Whether a summary has another text than when it was listed, and a sound one."""
    if item.reason == CONTAMINATED or item.tokens == material.summary.tokens:
        return False
    return kind_of_text(material.base.content, material.summary.model) is None
