"""What ``backfill`` does behind the import when asked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

from lcm_core.records import ConversationId

from lcm_tui.cli.declaring import Option
from lcm_tui.cli.kinds import WholeNumber
from lcm_tui.cli.options import CONVERSATION, Chunk, Tail, rules_option

if TYPE_CHECKING:
    from lcm_core.settings import EngineSettings

_PANEL: Final = "Compaction"

Recompact: TypeAlias = Annotated[
    bool, Option("--recompact", "Compact the conversation after the import, even if nothing was missing.")
]
SingleRoot: TypeAlias = Annotated[
    bool,
    Option("--single-root", "Compact it to one summary, without a fresh tail unless --tail sets one."),
]
TransplantTo: TypeAlias = Annotated[
    ConversationId | None,
    Option(
        "--transplant-to",
        "Then copy its summaries to the front of another conversation.",
        CONVERSATION,
        "CONV",
    ),
]


def _number(flag: str, words: str, least: int) -> Option:
    return Option(flag, words, WholeNumber(least), "N", section=_PANEL)


LeafTarget: TypeAlias = Annotated[int | None, _number("--leaf-target-tokens", "Maximum tokens of a leaf.", 1)]
CondensedTarget: TypeAlias = Annotated[
    int | None, _number("--condensed-target-tokens", "Target tokens of a condensed summary.", 1)
]
LeafFanout: TypeAlias = Annotated[
    int | None, _number("--leaf-fanout", "Minimum number of leaves to condense together.", 2)
]
CondensedFanout: TypeAlias = Annotated[
    int | None, _number("--condensed-fanout", "Minimum number of condensed summaries to condense further.", 2)
]
HardFanout: TypeAlias = Annotated[int | None, _number("--hard-fanout", "The same minimum under pressure.", 2)]

Rules: TypeAlias = Annotated[str | None, rules_option(section=_PANEL)]


@dataclass(frozen=True, slots=True)
class AfterImport:
    """What is to be done behind the import."""

    recompact: Recompact = False
    single_root: SingleRoot = False
    transplant_to: TransplantTo = None
    chunk: Chunk = None
    leaf_target_tokens: LeafTarget = None
    condensed_target_tokens: CondensedTarget = None
    leaf_fanout: LeafFanout = None
    condensed_fanout: CondensedFanout = None
    hard_fanout: HardFanout = None
    tail: Tail = None
    rules: Rules = None

    @property
    def compact(self) -> bool:
        """Whether it is to be compacted."""
        return self.recompact or self.single_root

    def settings(self) -> EngineSettings:
        """The engine's settings that the options name."""
        from lcm_core.settings import EngineSettings, SettingSource, Sourced

        given = {
            "leaf_chunk_tokens": (self.chunk, "--chunk"),
            "leaf_target_tokens": (self.leaf_target_tokens, "--leaf-target-tokens"),
            "condensed_target_tokens": (self.condensed_target_tokens, "--condensed-target-tokens"),
            "leaf_min_fanout": (self.leaf_fanout, "--leaf-fanout"),
            "condensed_min_fanout": (self.condensed_fanout, "--condensed-fanout"),
            "condensed_min_fanout_hard": (self.hard_fanout, "--hard-fanout"),
            "fresh_tail_count": (self.tail, "--tail"),
        }
        if self.single_root and self.tail is None:
            given["fresh_tail_count"] = (0, "--single-root")
        named: dict[str, Any] = {
            name: Sourced(value, SettingSource.COMMAND_LINE, option)
            for name, (value, option) in given.items()
            if value is not None
        }
        return replace(EngineSettings(), **named)
