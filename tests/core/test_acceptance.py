"""What models put around a summary, texts that are none (docs/spec/models.md, "What counts as a draft")."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lcm_core.base.tokens import Estimator
from lcm_core.writers.acceptance import judge_text, without_wrapping

BODY = (
    "The importer moved to the queue.\nIt must never drop a message: see `a.py`.\n"
    "Files: a.py (changed)\nExpand for details about: the tests"
)
WRAPS = [
    "```\n{}\n```",
    "```markdown\n{}\n```\n",
    "~~~text\n{}\n~~~",
    "````\n{}\n````",
    "```\n{}",
    "<summary>\n{}\n</summary>",
    "<summary>{}</summary>",
    "<Summary id=3>\n{}",
    "<summary>\n{}\n</summary>\n\nLet me know if you need more.",
    "```xml\n<summary>\n{}\n</summary>\n```",
    "Here is the summary:\n\n{}",
    "Here's a concise summary of the conversation:\n{}",
    "Sure! Here is the summary:\n```\n{}\n```",
    "Here is the updated summary.\n\n{}",
    "Here is the summary: {}",
    "# Summary\n{}",
    "**Summary:**\n{}",
    "Hier ist die Zusammenfassung:\n{}",
    "Voici le résumé :\n{}",
    "Aquí tienes el resumen:\n{}",
    "Aqui está o resumo:\n{}",
    "Ecco il riassunto:\n{}",
    "Вот краткое резюме:\n{}",
    "以下是对话的摘要：\n{}",
    "以下は会話の要約です。\n{}",
    "다음은 대화 요약입니다:\n{}",
]


@pytest.mark.parametrize("wrap", WRAPS)
def test_what_stands_around_a_summary_is_taken_off(wrap: str):
    assert without_wrapping(wrap.format(BODY)) == BODY


@pytest.mark.long
@given(st.lists(st.sampled_from([one for one in WRAPS if one != "```\n{}"]), max_size=2))
@settings(max_examples=80, deadline=None)
def test_one_around_another_is_taken_off_too_and_nothing_inside_is_lost(wraps: list[str]):
    text = BODY
    for wrap in wraps:
        text = wrap.format(text)
    found = without_wrapping(text)
    assert all(line in found for line in BODY.split("\n"))
    assert without_wrapping(found) == found


@pytest.mark.parametrize(
    "text",
    [
        BODY,
        "```py\na = 1\n```\nThen it ran:\n```\nb\n```",
        "```\nfirst\n```\nand\n```\nsecond\n```",
        "Here the team read the summary of incident 4: it was wrong.",
        "<summary> tags are read by parser.py now.",
        "<summary>one</summary> and more was said\n<summary>two</summary> of it",
        "Summarising the log took 3 s.",
        "Summary tables were dropped in v2.",
        "The result: <output> is empty.",
        "It was done. Let me know, said Alice.",
        "Here is the summary:",
        "```\n```",
        "```",
        "",
        ".",
    ],
)
def test_what_is_part_of_a_text_stays(text: str):
    assert without_wrapping(text) == text


@pytest.mark.long
@given(st.text(alphabet="`~<>/summary\n :.Herist", max_size=60))
@settings(max_examples=300, deadline=None)
def test_nothing_is_made_up_and_something_is_left(text: str):
    found = without_wrapping(text)
    assert found in text
    assert bool(found.strip()) == bool(text.strip())


def faults(text: str):
    source = "Move the importer to the queue. " * 60
    return judge_text(text, source=source, target_tokens=400, estimator=Estimator.WEIGHTED).faults


@pytest.mark.parametrize(
    "text", [".", "...", "…", "42", "1.\n2.\n", "🎉", "— — —", "N/A", "None.", "(null)", "TODO"]
)
def test_a_text_without_words_is_none(text: str):
    assert faults(text) == ("no words",)


@pytest.mark.cases(12)
@pytest.mark.parametrize(
    "text",
    [
        "User: please move the importer",
        "Human: hi\n\nAssistant: hello",
        "Assistant: I will move it now.",
        "**User:** and then?",
        "### Assistant: done",
        "[2026-03-02 09:14 UTC] User: move it",
        "It moved.\nUser: why?\nAssistant: because",
        "<|im_start|>user\nmove it",
        "It moved.<|im_end|>",
        "[INST] summarise [/INST]",
        "<user>\nmove it\n</user>",
        "System: You are a helpful assistant.",
        "You are an AI coding assistant.",
        "Benutzer: verschieben",
        "用户：移动导入器",
        "ユーザー：移動して",
        "Пользователь: перенеси",
    ],
)
def test_a_text_that_speaks_as_another_role_is_none(text: str):
    assert "another role" in faults(text)


@pytest.mark.parametrize(
    "text",
    [
        BODY,
        "The user: Alice, who said no.",
        "- User: prefers dark mode",
        "Users: 40 of them moved.",
        "Decided: the template writes <|im_start|> before and <|im_end|> behind a turn, then stops.",
        "System: Debian 12, Python 3.11",
        "Assistant managers were told.",
        "导入器已迁移到新的队列。",
        "Ok, done",
    ],
)
def test_an_account_of_roles_is_no_turn_of_one(text: str):
    assert faults(text) == ()
