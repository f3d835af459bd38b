"""``show``: the form of an id says what it is of. And times as ages."""

from __future__ import annotations

import pytest

from tests.cli.support import run
from tests.conftest import DatabaseFactory


def test_a_number_without_a_conversation_may_be_a_message(database_file: DatabaseFactory):
    result = run("show", "99999", "--db", database_file("0.15.3"))
    said = "No conversation matched id 99999. A message is shown by m99999.\n"
    assert (result.code, result.out, result.err) == (3, "", said)


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("3", "conversation"),
        ("sum_06d84ef9c70348dc", "summary"),
        ("file_b7b54f0887584669", "file"),
        ("focus_0641", "content"),
        ("m826", "texts"),
    ],
)
def test_the_form_of_an_id_says_what_is_shown(name: str, field: str, database_file: DatabaseFactory):
    shown = run("show", name, "--db", database_file("0.15.3"), "--json").document
    assert shown["command"] == "show"
    assert field in shown["data"]
    if field != "conversation":
        assert "@" in shown["data"]["citation"]
        again = run("show", shown["data"]["citation"], "--db", database_file("0.15.3"), "--json").data
        assert again["verdict"] == "holds"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("m1", "--include-content"),
            "--include-content is only for the kind file; m1 is of the kind message.",
        ),
        (("op_1", "--limit", "3"), "--limit is only for the kind session; op_1 is of the kind operation."),
    ],
)
def test_an_option_of_another_kind_is_refused(words: tuple[str, ...], said: str):
    refused = run("show", *words)
    assert (refused.code, said in refused.err) == (2, True)


def test_since_and_until_take_times_and_ages(database_file: DatabaseFactory):
    listed = ("messages", "list", "1", "--db", database_file("0.15.3"), "--json")
    assert run(*listed, "--since", "1d").data["items"] == []
    assert run(*listed, "--until", "1d").data["items"] == run(*listed).data["items"]
    between = run(*listed, "--since", "2026-03-02T09:00Z", "--until", "2026-03-02T10:00Z").data["items"]
    assert between == run(*listed, "--between", "2026-03-02T09:00Z..2026-03-02T10:00Z").data["items"]
    refused = run(*listed, "--since", "1d", "--after", "2026-03-02T09:00Z")
    assert refused.error["message"] == "--since cannot be combined with --after."


def test_a_word_that_is_no_id_is_refused_with_the_forms_of_ids(database_file: DatabaseFactory):
    refused = run("show", "nothing", "--db", database_file("0.15.3"))
    assert refused.code == 3
    assert refused.err.startswith("Nothing has the id nothing: ids are m12, sum_..., ")
    assert "`conversations list`, `sessions`" in refused.err


def test_a_conversation_is_shown_by_its_session_key(database_file: DatabaseFactory):
    path = database_file("0.15.3")
    for name in ("1", "agent:ops:main"):
        shown, same = (
            run(*words, name, "--db", path, "--json") for words in (("show",), ("conversations", "show"))
        )
        assert shown.data == same.data
    assert run("show", "agent:ops:main", "--limit", "1", "--db", path).code == 3
