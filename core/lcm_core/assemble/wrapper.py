"""The exact text in which the engine hands a summary to the model.

Source: docs/engine/assembly.md, "The element of a summary".

Equal byte for byte to all 92 wrapped summaries that were recorded of 0.1.2 and 0.15.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

from lcm_core.assemble.xml import escaped, escaped_attribute, time_attribute
from lcm_core.engine_rules import EngineRules
from lcm_core.records import Summary, SummaryId


def wrap_summary(
    summary: Summary, content: str, sources: Sequence[SummaryId], rules: EngineRules, zone: tzinfo | None
) -> str:
    """A summary as the model gets it, in a message of the role user.

    *sources* are those that have a row, in the order of condensation; times are shown in *zone* (None: that
    of this machine). A time that is not recorded or cannot be read leaves its attribute out.
    """
    in_attribute = escaped_attribute if rules.wrapper.escapes else str
    attributes = [
        f'id="{in_attribute(summary.summary_id)}"',
        f'kind="{in_attribute(summary.kind)}"',
        f'depth="{summary.depth}"',
        f'descendant_count="{max(0, summary.descendant_count or 0)}"',
        'trust="untrusted"' if rules.wrapper.has_trust else "",
        time_attribute("earliest_at", summary.earliest_at, zone),
        time_attribute("latest_at", summary.latest_at, zone),
    ]
    lines = [f"<summary {' '.join(one for one in attributes if one)}>"]
    if sources and summary.kind == "condensed":
        lines.append("  <parents>")
        lines += [f'    <summary_ref id="{in_attribute(source)}" />' for source in sources]
        lines.append("  </parents>")
    text = escaped(content) if rules.wrapper.escapes else content
    lines += ["  <content>", text, "  </content>", "</summary>"]
    return "\n".join(lines)
