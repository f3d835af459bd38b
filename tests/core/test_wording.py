"""Sentences agree with their numbers."""

from __future__ import annotations

from lcm_core.base.text import agree, counted, phrase


def test_sentences_agree_with_their_numbers() -> None:
    assert counted(1, "summary") == "1 summary"
    assert counted(1_200, "summary") == "1,200 summaries"
    assert agree(1, "are gone") == "is gone"
    assert agree(2, "are gone") == "are gone"
    assert phrase(1, "message", 7, "have no parts.") == "1 message of conversation 7 has no parts."
    assert phrase(2, "leaf", None, "went away.") == "2 leaves went away."
    assert phrase(1, "leaf", None, "cannot be found.") == "1 leaf cannot be found."
