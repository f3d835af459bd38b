"""How engines of different versions turn a context into messages: values, no code.

docs/engine/assembly.md tells them; it names them "present" and "0.1".
"""

from __future__ import annotations

from dataclasses import dataclass

from lcm_core.tokens import Estimator


@dataclass(frozen=True, slots=True)
class AssemblyRules:
    """What an engine's assembler does, step by step."""

    tail_of_items: bool  #: the fresh tail counts items, summaries among them; else raw messages
    trusts_stored_tokens: bool  #: a stored count above 0 is used; else everything sent is estimated anew
    estimator: Estimator
    prompt_aware: bool  #: it can choose by the prompt (0.6.0 on); whether it does is a setting
    prompt_aware_by_default: bool  #: 0.6.0 to 0.9.1
    stubs_payloads: bool  #: it can send a reference for a large tool result (0.10.0 on); a setting, too
    mends_messages: bool  #: what says nothing, calls without a result and repeated calls go (0.1: stay)
    rebuilds_tools: bool  #: calls and results are made anew from columns; else the host's block is sent
    names_results: bool  #: what metadata say of a result counts: its call, its tool, whether that failed
    names_authors: bool  #: the model that wrote an answer, and who in a group said something, are sent
    skips_void_answers: bool  #: an answer with neither text nor parts is not there
    restores_reasoning_items: bool  #: OpenAI's, which the host keeps as a signature
    signatures_need_identity: bool  #: of reasoning: sent only when the message names its model
    clamp_share: float | None  #: of the budget, to which what is still too large is cut; None: no clamp
    counts_serialized: bool  #: the engine reports the size of whole messages as JSON
    sends_static_policy: bool  #: the same system prompt addition always; else one that fits the summaries


ASSEMBLY_0_1 = AssemblyRules(
    tail_of_items=True,
    trusts_stored_tokens=True,
    estimator=Estimator.UTF16,
    prompt_aware=False,
    prompt_aware_by_default=False,
    stubs_payloads=False,
    mends_messages=False,
    rebuilds_tools=False,
    names_results=False,
    names_authors=False,
    skips_void_answers=False,
    restores_reasoning_items=False,
    signatures_need_identity=False,
    clamp_share=None,
    counts_serialized=False,
    sends_static_policy=False,
)
ASSEMBLY_PRESENT = AssemblyRules(
    tail_of_items=False,
    trusts_stored_tokens=False,
    estimator=Estimator.WEIGHTED,
    prompt_aware=True,
    prompt_aware_by_default=False,
    stubs_payloads=True,
    mends_messages=True,
    rebuilds_tools=True,
    names_results=True,
    names_authors=True,
    skips_void_answers=True,
    restores_reasoning_items=True,
    signatures_need_identity=True,
    clamp_share=0.9,
    counts_serialized=True,
    sends_static_policy=True,
)
