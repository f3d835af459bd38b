"""Rules that a draft keeps, loses and turns into their opposite, and texts whose rules are not checked."""

from __future__ import annotations

from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lcm_core.base.tokens import Estimator
from lcm_core.writers import modality, quantities
from lcm_core.writers.acceptance import judge_text
from lcm_core.writers.modality import clauses
from lcm_core.writers.quantities import _KEYS, Cue, _languages, rule_words
from lcm_core.writers.retention import Rulebook, checked

from benchmarks.retention.rules import LANGUAGES, rule_cases
from tests.support import sampled

HEADER = "[2026-03-02 09:14 UTC | user]\n"


def reversed_in(source: str, draft: str) -> list[tuple[str, str]]:
    found = Rulebook(HEADER + source).compare(draft).reversed
    return [(one.rule.text, one.draft.text) for one in found]


@pytest.mark.parametrize(
    ("sentence", "force"),
    [
        ("You must not restart it.", "forbidden"),
        ("You mustn’t restart the server.", "forbidden"),
        ("You may not restart the server.", "forbidden"),
        ("You need not restart the server.", "optional"),
        ("You don't have to restart the server.", "optional"),
        ("You may restart the server.", "allowed"),
        ("It is not forbidden to restart the server.", "allowed"),
        ("It is not optional to restart the server.", "required"),
        ("Do not forget to restart the server.", "required"),
        ("You must not fail to restart the server.", "required"),
        ("Avoid restarting the server.", "forbidden"),
        ("No restarts of the server on Fridays.", "forbidden"),
        ("No restarts of the server were seen.", "denied"),
        ("Only Ingrid restarts the server.", "restricted"),
        ("You must not only restart the server.", "required"),
        ("You must not restart it if the tests don't pass.", "forbidden"),
        ("If the tests don't pass, you must restart the server.", "required"),
        ("The server **must** _not_ be restarted.", "forbidden"),
        ("Man muss den Server nicht neu starten.", "optional"),
        ("Man darf den Server nicht neu starten.", "forbidden"),
        ("不得不重启服务器。", "required"),
        ("没有必要重启服务器。", "optional"),
        ("特别注意服务器。", "stated"),
    ],
)
def test_the_force_of_a_clause(sentence: str, force):
    assert [one.force for one in clauses(sentence)] == [force]


@pytest.mark.parametrize("question", ["Must we restart it?", "必须重启吗。", "再起動すべきですか。"])
def test_a_question_is_no_rule(question: str):
    assert clauses(question) == []


@pytest.mark.parametrize(
    ("rule", "draft"),
    [
        ("The job must not re-index the table.", "The job must re-index the table."),
        ("Do not delete the staging backups.", "Delete the staging backups."),
        ("Do not delete the staging backups.", "Allowed:\n- delete the staging backups"),
        ("You need not restart the gateway.", "You must restart the gateway."),
        ("Never push to main without approval.", "You may push to main without approval."),
        ("Never deploy unless the tests pass.", "Never deploy if the tests pass."),
        ("Use at most 5 retries for the upload.", "Use at least 5 retries for the upload."),
        (
            "禁止删除配置文件。",
            "必须删除配置文件。",
        ),
        ("Die Tabelle darf nicht neu gebaut werden.", "Die Tabelle muss neu gebaut werden."),
    ],
)
def test_a_reversed_rule_is_named_and_cannot_stand(rule: str, draft: str):
    [(was, now)] = reversed_in(rule, draft)
    assert was == rule
    assert now in draft
    source = f"{HEADER}{rule}\n" + "Nothing else was said that day. " * 20
    verdict = judge_text(draft, source=source, target_tokens=500, estimator=Estimator.WEIGHTED)
    assert verdict.faults == ("reversed",)
    assert f"“{rule}” became" in verdict.sentences[0]


@pytest.mark.parametrize(
    ("rule", "draft"),
    [
        ("Never push without approval from Ingrid.", "Only push with approval from Ingrid."),
        ("Never push without approval from Ingrid.", "Pushing requires approval from Ingrid."),
        ("Never deploy unless the tests pass.", "Deploy only if the tests pass."),
        ("Always run the integration tests first.", "Never skip the integration tests first."),
        ("Do not delete the staging backups.", "Deleted the staging backups."),
        ("Do not delete the staging backups.", "Prohibited:\n- delete the staging backups"),
        ("Must we re-index the table?", "We must not re-index the table."),
        ("Alice must not get access. Bob must get access.", "Bob must get access."),
        ("Never return 403. Always return 404.", "Always return 404, never 403."),
        ("Never deploy on Friday. Now you may deploy on Friday.", "You may deploy on Friday."),
    ],
)
def test_what_is_told_in_other_words_is_no_reversal(rule: str, draft: str):
    assert reversed_in(rule, draft) == []


def test_a_rule_that_is_kept_and_turned_round_in_one_draft_is_named():
    found = reversed_in("Never restart the server.", "Never restart the server. Always restart the server.")
    assert found == [("Never restart the server.", "Always restart the server.")]


@pytest.mark.parametrize(
    ("rule", "draft", "turned"),
    [("Never deploy Fridays.", "Deploy Fridays.", True), ("Never deploy.", "Deploy.", False)],
)
def test_two_words_without_their_never_are_a_reversal_and_one_word_is_not(
    rule: str, draft: str, turned: bool
):
    assert reversed_in(rule, draft) == ([(rule, draft)] if turned else [])


def test_the_opposite_is_none_where_the_previous_context_says_it():
    book = Rulebook("You must not restart the server.", previous="Now you must restart the server.")
    assert not book.compare("You must restart the server.").reversed
    assert not book.compare("Nothing of it.").reversed


def test_rules_that_differ_in_their_object_are_lost_one_by_one():
    source = "Never give Alice access to it. Never give Bob access to it. Never drop the orders table. "
    source += "Never drop the users table."
    kept = Rulebook(source).compare("Never give Alice access to it. Never drop the users table.")
    assert {one.text for one in kept.lost} == {"Never give Bob access to it.", "Never drop the orders table."}


def test_planted_reversals_are_seen_and_faithful_rules_are_not():
    """docs/spec/retention.md, "Reversals": what ``python -m benchmarks.retention`` measures, with fewer."""
    wanted, seen, told, missed, wrong = 0, 0, 0, [], []
    for case in rule_cases(11, 6):
        found = Rulebook(case.source).compare(case.draft).reversed
        turned = {draft for _, draft in case.reversed}
        texts = {one.draft.text.removeprefix("- ").removeprefix("> ") for one in found}
        wanted, seen, told = wanted + len(turned), seen + len(turned & texts), told + case.kept
        missed += turned - texts
        wrong += [one.draft.text for one in found if one.draft.text.strip("-*> ") in case.source]
    assert {one.name.lower() for one in LANGUAGES} == set(_languages())
    assert seen >= 0.97 * wanted, missed
    assert len(wrong) <= 0.01 * told, wrong


OTHERS = {
    "Arabic": "لا يجوز حذف النسخ الاحتياطية. يجب تشغيل الاختبارات أولا.",
    "Danish": "Serveren må aldrig genstartes om dagen. Testene skal altid køres først.",
    "Dutch": "Herstart de server nooit zonder goedkeuring. Het is verboden om een tabel te verwijderen.",
    "French": "Il ne faut jamais redémarrer le serveur. On doit toujours lancer les tests.",
    "Greek": "Μην διαγράφετε ποτέ τα αντίγραφα.",
    "Hebrew": "אסור למחוק את הגיבויים. חייבים להריץ את הבדיקות.",
    "Hindi": "सर्वर को कभी पुनः आरंभ न करें।",
    "Indonesian": "Jangan pernah menghapus cadangan. Selalu jalankan pengujian dulu.",
    "Italian": "Non riavviare mai il server senza approvazione. Bisogna eseguire i test prima.",
    "Korean": "백업을 삭제하면 안 됩니다. 항상 테스트를 먼저 실행하세요.",
    "Polish": "Nie wolno usuwać kopii zapasowych. Zawsze uruchamiaj testy.",
    "Portuguese": "Não deve apagar o arquivo. É proibido reiniciar o servidor.",
    "Russian": "Никогда не удаляйте резервные копии через git push origin main.",
    "Spanish": "No borres el archivo. Nunca hay que reiniciar el servidor.",
    "Thai": "ห้ามลบข้อมูลสำรอง",
    "Turkish": "Sunucuyu asla yeniden başlatma. Testler her zaman önce çalıştırılmalı.",
    "Vietnamese": "Không được xóa bản sao lưu.",
}
KNOWN = {
    "English": "Never delete the backups of staging. The tests must run first.",
    "English, a name": "Zoë and Łukasz said that the naïve retry must not be used with the façade.",
    "English, code": "The retry must stay as it was until the new limits are there.\n"
    "if (attempt > 7) { throw new Error('exhausted'); }",
    "English, short": "Avoid restarts.",
    "German": "Die Sicherungen darf man nicht löschen. Das Team muss zuerst die Tests ausführen.",
    "Chinese": "禁止删除 API 的 token。必须先运行 pytest。",
    "Japanese": "バックアップを削除してはいけない。",
    "Japanese, other signs": "人々のﾊﾞｯｸｱｯﾌﾟを時々削除してはいけない。",
    "German, decomposed": "Die Sicherungen du\u0308rfen nicht gelo\u0308scht werden.",
    "identifiers": "src/api/app.py v1.2.3 OPS-77 a1b2c3d",
    "nothing": "",
}


@pytest.mark.cases(15)
@pytest.mark.parametrize("language", OTHERS)
def test_rules_of_other_languages_are_not_checked_and_not_called_kept(language: str):
    text = OTHERS[language]
    kept = Rulebook(f"{HEADER}{text}").compare("The team went home and that was all.")
    assert (kept.checked, kept.lost, kept.reversed) == ("none", (), ())
    assert Rulebook("Never delete the backups.").compare(text).checked == "none"
    verdict = judge_text(
        text, source=f"{HEADER}{text} " * 20, target_tokens=500, estimator=Estimator.WEIGHTED
    )
    assert "rules not checked" in verdict.cautions
    assert any(one.startswith("Rules not checked: ") for one in verdict.sentences)


@pytest.mark.parametrize("language", KNOWN)
def test_rules_of_known_languages_are_checked(language: str):
    assert checked(KNOWN[language]) == "all"


@pytest.mark.parametrize("language", sampled(OTHERS, ("French", "Korean", "Russian", "Turkish")))
def test_a_mixed_text_is_checked_in_part(language: str):
    source = "Never delete the backups of staging.\nThe tests must run before it.\n" + OTHERS[language]
    if not source.isascii():
        kept = Rulebook(source).compare("You must delete the backups of staging.")
        assert checked(normalize("NFD", source)) == "part"
        assert (kept.checked, bool(kept.lost), len(kept.reversed)) == ("part", True, 1)
    tail = "All of it was done by the team, and that was that. " * 40
    assert checked(f"{tail}\nПривет!") == "all"


def test_a_language_is_a_table_of_the_file():
    others = {"letters", "common", "contrasts", "events", "helpers", "verb_last", "verb_last_letters"}
    others |= {"condition", "question", "behind", "ending", "particles", "past", *Cue}
    for name, language in _languages().items():
        assert set(language) <= _KEYS.keys() | others, name
        assert {"letters", "must", "ban", "only", "not"} <= set(language), name
    assert rule_words().letters.fullmatch("straße")


@pytest.mark.long
@given(st.text(max_size=300), st.text(max_size=300))
def test_any_two_texts_are_compared(source: str, draft: str):
    kept = Rulebook(source, previous=draft[::-1]).compare(draft)
    for one in kept.reversed:
        assert source[slice(*one.rule.place)] == one.rule.text
        assert draft[slice(*one.draft.place)] == one.draft.text
    assert not Rulebook(source).compare(source).reversed


@pytest.mark.long
@pytest.mark.parametrize(
    "piece", ["must ", "never not ", "Never do it. ", "不得", "てはいけない ", "only, ", "do "]
)
def test_much_of_the_same_is_read_in_passing(piece: str):
    text = piece * (60_000 // len(piece))
    Rulebook(text).compare(text)
    Rulebook("You must do it. " + text).compare(text + "\nNever do it.")


def test_a_table_alone_makes_a_language_known(monkeypatch: pytest.MonkeyPatch):
    added = {
        "spanish": {
            "letters": "a-záéíóúñ",
            "common": "el la los las que para con del una por se está hay antes siempre nunca",
            "must": "debe/hay que",
            "ban": "prohibid*",
            "only": "solo",
            "not": "no",
            "never": "nunca",
        },
        "korean": {
            "letters": r"\uac00-\ud7af",
            "ban": "면 ?안 ?(?:된다|됩니다)",
            "must": "해야 ?(?:한다|합니다)",
            "only": "오직",
            "not": "지 ?않",
        },
    }
    tables = {**quantities._languages(), **added}
    monkeypatch.setattr(quantities, "_languages", lambda: tables)
    caches = (quantities.rule_words, modality._phrases)
    for cache in caches:
        cache.cache_clear()
    try:
        for rule, draft in (
            ("Está prohibido borrar los datos.", "Hay que borrar los datos."),
            ("데이터베이스를 삭제하면 안 됩니다.", "데이터베이스를 삭제해야 합니다."),
        ):
            kept = Rulebook(rule).compare(draft)
            assert kept.checked == "all"
            assert [(one.rule.text, one.draft.text) for one in kept.reversed] == [(rule, draft)]
    finally:
        for cache in caches:
            cache.cache_clear()
