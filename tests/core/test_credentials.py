"""Which key belongs to whom, and which provider and model go together: decided before anything is sent."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from lcm_core.api import ConfigurationError, Options, resolve
from lcm_core.base.setting_values import SettingSource
from lcm_core.base.settings import SummarySettings
from lcm_core.base.settings_listed import config_view
from lcm_core.writers.cost import FREE, price_of
from lcm_core.writers.keys import CredentialError, KeyKind, KeySource
from lcm_core.writers.request import ModelError
from lcm_core.writers.writer import choose_model

from tests.databases import connect

KEY = "sk-test-0123456789abcdef-SECRET"
OTHER = "sk-other-0123456789abcdef-OTHER1"


def settled(tmp_path: Path, environ: dict[str, str], **options: Any):
    return resolve(Options(**options), environ, home=tmp_path)


def chosen(tmp_path: Path, environ: dict[str, str], state: Path | None = None, **flags: Any):
    settings = settled(tmp_path, environ).summary.with_flags(**flags)
    return choose_model(settings, KeySource(environ, state))


def secret_of(one) -> str:
    assert one.credential is not None
    return one.credential.secret_for(one.choice)


# -- provider and model ----------------------------------------------------------------------------------


def test_without_a_key_and_without_settings_nobody_is_asked(tmp_path: Path):
    one = chosen(tmp_path, {})
    assert (one.choice.provider.name, one.choice.base_url, one.credential) == ("extractive", "", None)
    assert one.price == FREE
    assert "offline" in str(one.choice)


def test_with_a_key_for_anthropic_and_no_settings_anthropic_is_asked(tmp_path: Path):
    one = chosen(tmp_path, {"ANTHROPIC_API_KEY": KEY})
    assert str(one.choice) == "anthropic/claude-haiku-4-5 at https://api.anthropic.com:443"
    assert secret_of(one) == KEY
    assert one.key_origin == "sk-…CRET from ANTHROPIC_API_KEY"
    assert one.price is not None


@pytest.mark.parametrize(
    ("flags", "environ", "config", "plugin", "expected", "source"),
    [
        ({"model": "f"}, {"LCM_TUI_SUMMARY_MODEL": "t"}, "u", "p", "f", SettingSource.COMMAND_LINE),
        (
            {},
            {"LCM_TUI_SUMMARY_MODEL": "t", "LCM_SUMMARY_MODEL": "e"},
            "u",
            "p",
            "t",
            SettingSource.ENVIRONMENT,
        ),
        ({}, {"LCM_SUMMARY_MODEL": "e"}, "u", "p", "e", SettingSource.ENVIRONMENT),
        ({}, {}, "u", "p", "u", SettingSource.USER_CONFIG),
        ({}, {}, "", "p", "p", SettingSource.PLUGIN_CONFIG),
        ({}, {}, "", "", "", SettingSource.DEFAULT),
    ],
)
def test_the_nearest_setting_holds(
    tmp_path: Path,
    flags: dict[str, str],
    environ: dict[str, str],
    config: str,
    plugin: str,
    expected: str,
    source: SettingSource,
):
    (tmp_path / "config.toml").write_text(f'[summary]\nmodel = "{config}"\ninput_price = 2')
    block = {"plugins": {"entries": {"lossless-claw": {"config": {"summaryModel": plugin}}}}}
    (tmp_path / "openclaw.json").write_text(json.dumps(block))
    environ = {
        "LCM_TUI_CONFIG": str(tmp_path / "config.toml"),
        "OPENCLAW_CONFIG_PATH": str(tmp_path / "openclaw.json"),
        **environ,
    }
    summary = settled(tmp_path, environ).summary.with_flags(**flags)
    assert (summary.model.value, summary.model.source) == (expected, source)
    assert summary.input_price.value == 2


def test_a_table_with_mistakes_is_noted_and_passed_over(tmp_path: Path):
    (tmp_path / "config.toml").write_text('[summary]\nmodel = 3\nmodle = "x"\nmax_calls = 0\nmax_cost = 2.5')
    settings = settled(tmp_path, {"LCM_TUI_CONFIG": str(tmp_path / "config.toml")})
    assert settings.summary.model.value == ""
    assert settings.summary.max_cost.value == 2.5
    assert {note.where for note in settings.diagnostics} == {
        "summary.model",
        "summary.modle",
        "summary.max_calls",
    }


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"provider": "openai", "model": "claude-haiku-4-5"}, "openai .* does not serve claude-haiku-4-5"),
        ({"provider": "anthropic", "model": "gpt-5"}, "anthropic .* does not serve gpt-5"),
        ({"provider": "anthropic", "model": "o3-mini"}, "does not serve o3-mini"),
        ({"provider": "openai"}, "needs the name of a model"),
        ({"provider": "github-copilot"}, "There is no provider 'github-copilot'"),
        ({"model": "qwen3:8b"}, "no provider"),
        ({"base_url": "https://gw.example.com"}, "no provider"),
        ({"provider": "ollama", "model": "x", "base_url": "ftp://host"}, "not an http or https address"),
        ({"provider": "ollama", "model": "x", "base_url": "https://me:pw@host/v1"}, "contains a password"),
        (
            {"provider": "ollama", "model": "x", "base_url": "https://host/v1?key=1"},
            "contains a password or a query",
        ),
        (
            {"provider": "ollama", "model": "x", "base_url": "http://host:99999999/"},
            "not an http or https address",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path: Path, flags: dict[str, str], says: str):
    with pytest.raises(ModelError, match=says) as caught:
        chosen(tmp_path, {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": OTHER}, **flags)
    assert caught.value.exit_code == 4
    assert "pw" not in caught.value.message


def test_a_model_of_the_environment_is_not_sent_to_another_provider(tmp_path: Path):
    environ = {
        "LCM_SUMMARY_PROVIDER": "anthropic",
        "LCM_SUMMARY_MODEL": "claude-haiku-4-5",
        "OPENAI_API_KEY": KEY,
    }
    with pytest.raises(ModelError, match="LCM_SUMMARY_MODEL"):
        chosen(tmp_path, environ, provider="openai")


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (
            {"model": "anthropic/claude-sonnet-4-5"},
            "anthropic/claude-sonnet-4-5 at https://api.anthropic.com:443",
        ),
        ({"model": "gpt-4.1"}, "openai/gpt-4.1 at https://api.openai.com:443"),
        (
            {"provider": "openrouter", "model": "anthropic/claude-x"},
            "openrouter/anthropic/claude-x at https://openrouter.ai:443",
        ),
        ({"provider": "Ollama", "model": "qwen3:8b"}, "ollama/qwen3:8b at http://127.0.0.1:11434"),
        (
            {"provider": "anthropic", "base_url": "http://localhost:9/v1/"},
            "anthropic/claude-haiku-4-5 at http://localhost:9",
        ),
        (
            {"provider": "extractive", "model": "gpt-4.1"},
            "extractive (offline, picks sentences from the source)",
        ),
    ],
)
def test_provider_model_and_address_follow_from_each_other(
    tmp_path: Path, flags: dict[str, str], expected: str
):
    environ = {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY, "OPENROUTER_API_KEY": KEY}
    assert str(chosen(tmp_path, environ, **flags).choice) == expected


def test_an_openai_compatible_address_gets_its_path(tmp_path: Path):
    for given in ("http://127.0.0.1:5000", "http://127.0.0.1:5000/", "http://127.0.0.1:5000/v1"):
        one = chosen(tmp_path, {}, provider="openai", model="m", base_url=given)
        assert one.choice.base_url == "http://127.0.0.1:5000/v1"
        assert one.credential is None, "a server on this machine needs no key"


def test_a_password_in_an_address_is_not_shown(tmp_path: Path):
    environ = {"LCM_SUMMARY_BASE_URL": f"https://me:{KEY}@host/v1?token={KEY}"}
    shown = json.dumps(config_view(settled(tmp_path, environ)).effective)
    assert KEY not in shown
    assert "https://***@host/v1?***" in shown


def test_prices_are_known_given_or_unknown_but_never_nothing(tmp_path: Path):
    environ = {"ANTHROPIC_API_KEY": KEY}
    assert chosen(tmp_path, environ, model="claude-never-heard-of").price is None
    assert chosen(tmp_path, environ, provider="ollama", model="qwen3").price == FREE
    gateway = chosen(tmp_path, {}, provider="anthropic", base_url="http://127.0.0.1:4000")
    assert gateway.price not in (None, FREE), "a gateway on this machine may pass the calls on"
    (tmp_path / "config.toml").write_text("[summary]\ninput_price = 2\noutput_price = 8")
    priced = settled(tmp_path, {"LCM_TUI_CONFIG": str(tmp_path / "config.toml")}).summary
    price = price_of(chosen(tmp_path, environ).choice, priced)
    assert price is not None
    assert price.of(1_000_000, 500_000) == 6.0


# -- keys ------------------------------------------------------------------------------------------------


def test_a_key_stays_with_its_own_address(tmp_path: Path):
    environ = {"ANTHROPIC_API_KEY": KEY}
    with pytest.raises(
        CredentialError, match=r"ANTHROPIC_API_KEY belongs to https://api\.anthropic\.com:443"
    ) as caught:
        chosen(tmp_path, environ, provider="anthropic", base_url="https://gateway.example.com")
    assert caught.value.exit_code == 4
    assert KEY not in caught.value.message


def test_a_key_goes_to_the_address_that_its_own_variable_names(tmp_path: Path):
    environ = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": "https://gateway.example.com/"}
    one = chosen(tmp_path, environ)
    assert (one.choice.host, secret_of(one)) == ("https://gateway.example.com:443", KEY)
    with pytest.raises(CredentialError, match=r"belongs to https://gateway\.example\.com:443"):
        chosen(tmp_path, environ, provider="anthropic", base_url="https://api.anthropic.com")


@pytest.mark.parametrize("address", ["http://[bad", "http://host:x", "nonsense"])
def test_a_variable_that_holds_no_address_is_named(tmp_path: Path, address: str):
    with pytest.raises(ModelError, match="ANTHROPIC_BASE_URL is not an http or https address"):
        chosen(tmp_path, {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": address})


def test_a_key_of_one_provider_is_no_key_of_another(tmp_path: Path):
    """The Go tool sends a GitHub token to OpenAI's host."""
    environ = {"ANTHROPIC_API_KEY": KEY, "GITHUB_TOKEN": KEY, "OPENAI_API_KEY": KEY}
    with pytest.raises(CredentialError, match="OPENROUTER_API_KEY"):
        chosen(tmp_path, environ, provider="openrouter", model="x/y")


def test_a_key_is_not_sent_readable_over_a_network(tmp_path: Path):
    environ = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "http://llm.example.com/v1"}
    with pytest.raises(CredentialError, match="use an https address"):
        chosen(tmp_path, environ, provider="openai", model="m")


def test_the_key_of_our_own_variable_belongs_to_the_provider_beside_it(tmp_path: Path):
    environ = {
        "LCM_TUI_SUMMARY_PROVIDER": "openai",
        "LCM_TUI_SUMMARY_MODEL": "m",
        "LCM_TUI_SUMMARY_BASE_URL": "https://gw.example.com/v1",
        "LCM_TUI_SUMMARY_API_KEY": KEY,
        "OPENAI_API_KEY": OTHER,
    }
    assert secret_of(chosen(tmp_path, environ)) == KEY
    with pytest.raises(CredentialError, match="anthropic"):
        chosen(
            tmp_path, environ, provider="anthropic", model="claude-x", base_url="https://api.anthropic.com"
        )
    del environ["LCM_TUI_SUMMARY_PROVIDER"]
    with pytest.raises(CredentialError, match="requires LCM_TUI_SUMMARY_PROVIDER too"):
        chosen(tmp_path, environ, provider="openai")


def test_a_key_that_the_command_line_names_is_for_this_run():
    settings = SummarySettings().with_flags(provider="anthropic", base_url="https://gateway.example.com")
    by_name = KeySource({"MINE": f" {KEY}\n"}, key_variable="MINE")
    assert secret_of(choose_model(settings, by_name)) == KEY
    for bad, says in (
        (KeySource({}, key_variable="MINE"), "MINE is not set"),
        (KeySource({"MINE": "two words"}, key_variable="MINE"), "does not contain a key"),
    ):
        with pytest.raises(CredentialError, match=says) as caught:
            choose_model(settings, bad)
        assert "two words" not in caught.value.message


def profiles(tmp_path: Path, document: Any, agent: str = "main") -> Path:
    path = tmp_path / "agents" / agent / "agent" / "auth-profiles.json"
    path.parent.mkdir(parents=True)
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return tmp_path


def test_a_profile_of_openclaw_is_used_for_its_own_provider_only(tmp_path: Path):
    state = profiles(
        tmp_path,
        {
            "version": 1,
            "profiles": {
                "anthropic:old": {"type": "api_key", "provider": "anthropic", "key": OTHER},
                "anthropic:work": {"type": "api_key", "provider": "anthropic", "key": KEY},
                "copilot:me": {"type": "token", "provider": "github-copilot", "token": OTHER},
            },
            "order": {"anthropic": ["anthropic:none", "anthropic:work"]},
        },
    )
    one = chosen(tmp_path, {}, state)
    assert secret_of(one) == KEY
    assert "the profile anthropic:work in" in (one.key_origin or "")
    with pytest.raises(CredentialError):
        chosen(tmp_path, {}, state, provider="openai", model="gpt-4.1")
    with pytest.raises(CredentialError, match="belongs to"):
        chosen(tmp_path, {}, state, provider="anthropic", base_url="https://gateway.example.com")
    assert secret_of(chosen(tmp_path, {"ANTHROPIC_API_KEY": OTHER}, state)) == OTHER, (
        "the environment is nearer"
    )


def store(path: Path, profiles_: Any, state: Any = None) -> Path:
    """A host's own database with profiles, in WAL mode and without a WAL."""
    path.parent.mkdir(parents=True)
    with connect(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE auth_profile_store (id INTEGER PRIMARY KEY, store_json TEXT)")
        connection.execute("INSERT INTO auth_profile_store VALUES (1, ?)", (json.dumps(profiles_),))
        if state is not None:
            connection.execute("CREATE TABLE auth_profile_state (id INTEGER PRIMARY KEY, state_json TEXT)")
            connection.execute("INSERT INTO auth_profile_state VALUES (1, ?)", (json.dumps(state),))
    return path


def test_the_profiles_of_newer_hosts_are_read_from_their_database_without_a_trace(tmp_path: Path):
    profile = {"type": "api_key", "provider": "anthropic", "key": OTHER}
    path = store(
        tmp_path / "agents" / "main" / "agent" / "openclaw-agent.sqlite",
        {"profiles": {"anthropic:a": profile, "anthropic:work": {**profile, "key": KEY}}},
        {"order": {"anthropic": ["anthropic:work"]}},
    )
    (path.parent / "auth-profiles.json").write_text(json.dumps({"profiles": {"anthropic:z": profile}}))
    before = {one.name: one.stat().st_mtime_ns for one in path.parent.iterdir()}
    one = chosen(tmp_path, {}, tmp_path)
    assert secret_of(one) == KEY
    assert "the profile anthropic:work in" in (one.key_origin or "")
    assert {one.name: one.stat().st_mtime_ns for one in path.parent.iterdir()} == before


def test_the_shared_profiles_are_read_too_and_a_file_of_another_kind_is_passed_over(tmp_path: Path):
    profile = {"type": "api_key", "provider": "anthropic", "key": KEY}
    shared = store(tmp_path / "state" / "openclaw.sqlite", {"profiles": {"anthropic:a": profile}})
    own = tmp_path / "agents" / "main" / "agent" / "openclaw-agent.sqlite"
    own.parent.mkdir(parents=True)
    own.write_bytes(b"no database at all")
    assert secret_of(chosen(tmp_path, {}, tmp_path)) == KEY
    shared.unlink()
    with pytest.raises(CredentialError, match=r"openclaw-agent\.sqlite cannot be read"):
        chosen(tmp_path, {}, tmp_path, provider="anthropic")


def test_an_oauth_token_is_used_as_it_is_until_it_has_expired(tmp_path: Path):
    profile = {
        "type": "oauth",
        "provider": "anthropic",
        "access": KEY,
        "refresh": "r",
        "expires": 4_000_000_000_000,
    }
    state = profiles(tmp_path, {"profiles": {"anthropic:me": profile}})
    one = chosen(tmp_path, {}, state)
    assert one.credential is not None
    assert (one.credential.kind, secret_of(one)) == (KeyKind.OAUTH, KEY)
    profiles(tmp_path / "second", {"profiles": {"anthropic:me": {**profile, "expires": 1_000}}})
    with pytest.raises(CredentialError, match="has expired; only the host can refresh it"):
        chosen(tmp_path, {}, tmp_path / "second", provider="anthropic")
    assert chosen(tmp_path, {}, tmp_path / "second").choice.provider.name == "extractive"


@pytest.mark.parametrize(
    "document",
    [
        "not json",
        "[]",
        '{"profiles": 3}',
        {"profiles": {"a": {"type": "api_key", "provider": "anthropic", "keyRef": "vault:x"}}},
        {"profiles": {"a": {"type": "api_key", "provider": "anthropic", "key": 7}}},
        {"profiles": {"a": []}},
    ],
)
def test_a_profile_file_of_any_shape_is_passed_over(tmp_path: Path, document: Any):
    state = profiles(tmp_path, document)
    assert chosen(tmp_path, {}, state).choice.provider.name == "extractive"
    with pytest.raises(CredentialError, match="There is no key for anthropic"):
        chosen(tmp_path, {}, state, provider="anthropic")


def test_the_flat_shape_of_older_hosts_is_read_too(tmp_path: Path):
    assert secret_of(chosen(tmp_path, {}, profiles(tmp_path, {"anthropic": {"apiKey": KEY}}))) == KEY


def test_what_cannot_be_opened_is_not_waited_for(tmp_path: Path):
    folder = tmp_path / "agents" / "main" / "agent"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "auth-profiles.json")
    assert chosen(tmp_path, {}, tmp_path).choice.provider.name == "extractive"


def test_our_variables_are_told_by_name_and_never_by_value(tmp_path: Path):
    settings = settled(tmp_path, {"LCM_TUI_SUMMARY_API_KEY": KEY, "LCM_TUI_SUMMARY_PROVIDER": "openai"})
    assert "LCM_TUI_SUMMARY_API_KEY" in settings.active_env
    assert KEY not in repr(settings)
    assert issubclass(CredentialError, ConfigurationError)
