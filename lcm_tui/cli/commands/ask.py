"""``ask``: a question to the memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

from lcm_tui.cli import options
from lcm_tui.cli.commands.grep import Agent
from lcm_tui.cli.declaring import Argument, Option, command
from lcm_tui.cli.kinds import Raw, WholeNumber

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run

#: Those of `recall.asking.AskLimits`.
_TOKENS, _SECONDS, _CALLS, _ANSWER = 8_000, 120, 4, 1_000
_MAX_QUESTION = 4_000

Question: TypeAlias = Annotated[str, Argument("QUESTION", "Your question.", Raw())]
Tokens: TypeAlias = Annotated[
    int,
    Option(
        "--tokens",
        f"Maximum tokens of evidence; {_TOKENS:,} by default.",
        WholeNumber(100, 200_000),
        "N",
    ),
]
AnswerTokens: TypeAlias = Annotated[
    int,
    Option(
        "--answer-tokens",
        f"Maximum tokens of the answer; {_ANSWER:,} by default.",
        WholeNumber(50, 16_000),
        "N",
    ),
]
Looks: TypeAlias = Annotated[
    int,
    Option(
        "--steps",
        f"Maximum model calls, the last one for the answer; {_CALLS} by default.",
        WholeNumber(1, 20),
        "N",
    ),
]
Timeout: TypeAlias = Annotated[
    int,
    Option(
        "--timeout",
        f"Time limit for the model in seconds; {_SECONDS} by default.",
        WholeNumber(1, 3_600),
        "SECONDS",
    ),
]
FailEmpty: TypeAlias = Annotated[bool, Option("--fail-empty", "Exit with code 3 if there is no evidence.")]


@command(
    "ask",
    examples=('ask "Why is the lease 45 s?"', 'ask "Which port?" --model claude-haiku-4-5 --max-cost 0.05'),
)
def ask(
    run: Run,
    *,
    question: Question,
    conversation_id: options.ByConversationId = None,
    session_key: options.WholeSession = None,
    agent: Agent = None,
    tokens: Tokens = _TOKENS,
    answer_tokens: AnswerTokens = _ANSWER,
    steps: Looks = _CALLS,
    timeout: Timeout = _SECONDS,
    fail_empty: FailEmpty = False,
    model: options.ModelOptions,
    yes: options.Yes = False,
) -> Answer:
    """Answer a question from the memory, with citations; a model is called only if you name one and
    confirm."""
    from lcm_core.errors import UsageError
    from lcm_core.recall.asking import AskLimits

    from lcm_tui.cli.asking import AskWork, flagged_model

    if not question.strip() or len(question) > _MAX_QUESTION:
        raise UsageError(
            f"A question has from 1 to {_MAX_QUESTION:,} characters, not {len(question.strip()):,}.",
            details={"option": "QUESTION"},
        )
    limits = AskLimits(tokens, steps, answer_tokens=answer_tokens, seconds=float(timeout))
    work = AskWork(
        run, question.strip(), (conversation_id, session_key, agent), limits, flagged_model(run, model), yes
    )
    return work.do(fail_empty=fail_empty)
