"""Where each setting comes from, what is refused, and what must never be kept."""

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import platformdirs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lcm_core.api import (
    ConfigurationError,
    EngineSettings,
    ExitCode,
    NotFoundError,
    Options,
    UsageError,
    resolve,
)
from lcm_core.base import json5
from lcm_core.base.engine_settings import KEYS
from lcm_core.base.errors import FileMissingError
from lcm_core.base.setting_values import OutputFormat, SettingSource
from lcm_core.base.settings import _FIELDS, _KNOWN, ENV_NAMES, default_user_file
from lcm_core.base.settings_listed import config_value, config_view

#: Names and defaults of docs/spec/settings.md, "Settings and defaults": variable, plugin key, default.
ENGINE_TABLE = """
LCM_ENABLED enabled true
LCM_HOST_FALLBACK_MODE hostFallbackMode "error"
LCM_IGNORE_SESSION_PATTERNS ignoreSessionPatterns []
LCM_STATELESS_SESSION_PATTERNS statelessSessionPatterns []
LCM_SKIP_STATELESS_SESSIONS skipStatelessSessions true
LCM_CONTEXT_THRESHOLD contextThreshold 0.75
LCM_FRESH_TAIL_COUNT freshTailCount 64
LCM_FRESH_TAIL_MAX_TOKENS freshTailMaxTokens null
LCM_PROMPT_AWARE_EVICTION_ENABLED promptAwareEviction false
LCM_STUB_LARGE_TOOL_PAYLOADS stubLargeToolPayloads false
LCM_NEW_SESSION_RETAIN_DEPTH newSessionRetainDepth 2
LCM_LEAF_MIN_FANOUT leafMinFanout 8
LCM_CONDENSED_MIN_FANOUT condensedMinFanout 4
LCM_CONDENSED_MIN_FANOUT_HARD condensedMinFanoutHard 2
LCM_SWEEP_MAX_DEPTH sweepMaxDepth 1
LCM_LEAF_CHUNK_TOKENS leafChunkTokens 20000
LCM_SUMMARY_PREFIX_TARGET_TOKENS summaryPrefixTargetTokens null
LCM_MAX_SWEEP_ITERATIONS maxSweepIterations 12
LCM_SWEEP_DEADLINE_MS sweepDeadlineMs 120000
LCM_COMPACT_UNTIL_UNDER_DEADLINE_MS compactUntilUnderDeadlineMs 300000
LCM_BOOTSTRAP_MAX_TOKENS bootstrapMaxTokens 6000
LCM_LEAF_TARGET_TOKENS leafTargetTokens 2400
LCM_CONDENSED_TARGET_TOKENS condensedTargetTokens 2000
LCM_MAX_EXPAND_TOKENS maxExpandTokens 4000
LCM_LARGE_FILE_TOKEN_THRESHOLD largeFileThresholdTokens 25000
LCM_SUMMARY_PROVIDER summaryProvider ""
LCM_SUMMARY_MODEL summaryModel ""
LCM_LARGE_FILE_SUMMARY_PROVIDER largeFileSummaryProvider ""
LCM_LARGE_FILE_SUMMARY_MODEL largeFileSummaryModel ""
LCM_EXPANSION_PROVIDER expansionProvider ""
LCM_EXPANSION_MODEL expansionModel ""
LCM_DELEGATION_TIMEOUT_MS delegationTimeoutMs 120000
LCM_SUMMARY_TIMEOUT_MS summaryTimeoutMs 60000
LCM_PRUNE_HEARTBEAT_OK pruneHeartbeatOk false
LCM_PRESERVE_HEARTBEAT_POLL preserveHeartbeatPoll false
LCM_TRANSCRIPT_GC_ENABLED transcriptGcEnabled false
LCM_ENABLE_SUMMARY_THINKING enableSummaryThinking true
LCM_PROACTIVE_THRESHOLD_COMPACTION_MODE proactiveThresholdCompactionMode "deferred"
LCM_MAX_ASSEMBLY_TOKEN_BUDGET maxAssemblyTokenBudget null
LCM_SUMMARY_MAX_OVERAGE_FACTOR summaryMaxOverageFactor 3.0
LCM_FALLBACK_MAX_TOKENS fallbackMaxTokens 512
LCM_CUSTOM_INSTRUCTIONS customInstructions ""
LCM_REPLAY_FLOOD_THRESHOLD_EXTERNAL replayFloodThresholdExternal 3
LCM_REPLAY_FLOOD_THRESHOLD_INTERNAL replayFloodThresholdInternal 32
LCM_FALLBACK_PROVIDERS fallbackProviders []
LCM_SUMMARY_CALL_WINDOW_MS summaryCallWindowMs 600000
LCM_SUMMARY_MAX_CALLS_PER_WINDOW summaryMaxCallsPerWindow 24
LCM_SUMMARY_SPEND_BACKOFF_MS summarySpendBackoffMs 1800000
LCM_CIRCUIT_BREAKER_THRESHOLD circuitBreakerThreshold 5
LCM_CIRCUIT_BREAKER_COOLDOWN_MS circuitBreakerCooldownMs 1800000
LCM_AUTO_ROTATE_SESSION_FILES_ENABLED autoRotateSessionFiles.enabled true
LCM_AUTO_ROTATE_SESSION_FILES_CREATE_BACKUPS autoRotateSessionFiles.createBackups false
LCM_AUTO_ROTATE_SESSION_FILES_SIZE_BYTES autoRotateSessionFiles.sizeBytes 2097152
LCM_AUTO_ROTATE_SESSION_FILES_STARTUP autoRotateSessionFiles.startup "rotate"
LCM_AUTO_ROTATE_SESSION_FILES_RUNTIME autoRotateSessionFiles.runtime "rotate"
LCM_LOG_FILE_ENABLED independentLogFile.enabled true
LCM_LOG_FILE independentLogFile.file null
LCM_LOG_MAX_FILE_BYTES independentLogFile.maxFileBytes 104857600
LCM_CACHE_AWARE_COMPACTION_ENABLED cacheAwareCompaction.enabled true
LCM_CACHE_TTL_SECONDS cacheAwareCompaction.cacheTTLSeconds 300
LCM_MAX_COLD_CACHE_CATCHUP_PASSES cacheAwareCompaction.maxColdCacheCatchupPasses 2
LCM_HOT_CACHE_PRESSURE_FACTOR cacheAwareCompaction.hotCachePressureFactor 4.0
LCM_HOT_CACHE_BUDGET_HEADROOM_RATIO cacheAwareCompaction.hotCacheBudgetHeadroomRatio 0.2
LCM_COLD_CACHE_OBSERVATION_THRESHOLD cacheAwareCompaction.coldCacheObservationThreshold 3
LCM_CRITICAL_BUDGET_PRESSURE_RATIO cacheAwareCompaction.criticalBudgetPressureRatio 0.9
LCM_DYNAMIC_LEAF_CHUNK_TOKENS_ENABLED dynamicLeafChunkTokens.enabled true
LCM_DYNAMIC_LEAF_CHUNK_TOKENS_MAX dynamicLeafChunkTokens.max 40000
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".openclaw").mkdir()
    return tmp_path


@pytest.fixture
def with_plugin(home: Path):
    """Settings with this plugin config in the default place and nothing else."""

    def configure(block: object):
        write_host(home, {"plugins": {"entries": {"lossless-claw": {"config": block}}}})
        return resolve(Options(), {}, home=home)

    return configure


def write_host(home: Path, document: object) -> Path:
    path = home / ".openclaw" / "openclaw.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def problems(settings):
    return [(each.problem, each.where) for each in settings.diagnostics]


def test_on_a_bare_machine_everything_is_a_default(home: Path):
    settings = resolve(Options(), {}, home=home)
    state = home / ".openclaw"
    assert settings.state_dir.value == state
    assert settings.database.value == state / "lcm.db"
    assert settings.large_files_dir.value == state / "lcm-files"
    assert settings.sessions.value == state / "agents"
    assert settings.config_file.value == state / "openclaw.json"
    assert not settings.config_found
    assert settings.engine == EngineSettings()
    assert not settings.engine.fresh_tail_count.is_set
    assert settings.budget.value is None
    assert settings.output_format.value is OutputFormat.TABLE
    assert (settings.diagnostics, settings.active_env, dict(settings.raw)) == ((), (), {})


def test_the_state_folder_follows_the_documented_order(home: Path):
    environ = {"OPENCLAW_HOME": "/d"}
    assert resolve(Options(), environ, home=home).state_dir.value == Path("/d/.openclaw")
    environ["OPENCLAW_STATE_DIR"] = "~/c"
    assert resolve(Options(), environ, home=home).state_dir.value == home / "c"
    environ["LCM_OPENCLAW_DIR"] = "/b"
    assert resolve(Options(), environ, home=home).state_dir.value == Path("/b")
    named = resolve(Options(openclaw_dir="~"), environ, home=home)
    assert named.state_dir.value == home
    assert (named.state_dir.source, named.state_dir.name) == (SettingSource.COMMAND_LINE, "--openclaw-dir")
    assert named.database.value == home / "lcm.db"
    blank = {"LCM_OPENCLAW_DIR": "  ", "OPENCLAW_STATE_DIR": "", "OPENCLAW_HOME": " "}
    assert not resolve(Options(openclaw_dir=" "), blank, home=home).state_dir.is_set


def test_the_database_follows_the_documented_order_and_says_why(home: Path, with_plugin):
    place = "plugins.entries.lossless-claw.config"
    old = with_plugin({"databasePath": "~/old.db"}).database
    assert (old.value, old.name) == (home / "old.db", f"{place}.databasePath")
    new = with_plugin({"databasePath": "/old.db", "dbPath": "/new.db"}).database
    assert (new.value, new.source, new.name) == (
        Path("/new.db"),
        SettingSource.PLUGIN_CONFIG,
        f"{place}.dbPath",
    )
    environ = {"LCM_DATABASE_PATH": "/env.db"}
    assert resolve(Options(), environ, home=home).database.value == Path("/env.db")
    assert resolve(Options(db="~/x.db"), environ, home=home).database.value == home / "x.db"


def test_a_path_of_another_user_is_left_as_it_is(home: Path):
    assert resolve(Options(db="~other/x.db"), {}, home=home).database.value == Path("~other/x.db")


@pytest.mark.parametrize("options", [Options(db=""), Options(config=" "), Options(sessions="")])
def test_an_empty_option_does_not_mean_the_default(home: Path, options: Options):
    with pytest.raises(UsageError, match="is empty"):
        resolve(options, {}, home=home)


def test_a_relative_path_in_the_plugin_config_is_pointed_out(with_plugin):
    settings = with_plugin({"dbPath": "data/lcm.db", "largeFilesDir": "/files"})
    assert settings.database.value == Path("data/lcm.db")
    assert settings.large_files_dir.value == Path("/files")
    assert problems(settings) == [
        ("relative-path", "plugins.entries.lossless-claw.config.dbPath"),
    ]


def test_names_and_defaults_are_those_of_the_engine():
    attributes = {key.name: attribute for attribute, key in KEYS.items()}
    for line in ENGINE_TABLE.split("\n")[1:-1]:
        variable, name, default = line.split(" ", 2)
        key = KEYS[attributes.pop(name)]
        assert key.env[0] == variable
        assert config_value(defaults(), name).value == json.loads(default), name
    # The zone is this machine's, one has no variable, the default of the last is a list, checked with texts.
    assert list(attributes) == ["timezone", "contextThresholdOverrides", "stripInjectedContextTags"]
    assert not KEYS["context_threshold_overrides"].env
    assert KEYS["sweep_max_depth"].env == ("LCM_SWEEP_MAX_DEPTH", "LCM_INCREMENTAL_MAX_DEPTH")
    assert KEYS["sweep_max_depth"].plugin == ("sweepMaxDepth", "incrementalMaxDepth")


def defaults():
    return resolve(Options(), {}, home=Path("/nowhere"))


@pytest.mark.parametrize(
    ("linked", "zone"),
    [
        ("/usr/share/zoneinfo/Europe/Berlin", "Europe/Berlin"),
        ("/usr/share/zoneinfo/Etc/UTC", "UTC"),
        ("/etc/localtime", "UTC"),
    ],
)
def test_the_zone_of_the_machine_is_shown_where_none_is_set(
    linked: str, zone: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(os.path, "realpath", lambda _: linked)
    found = config_value(defaults(), "timezone")
    assert (found.effective, found.is_set, found.source) == (zone, False, "default")


def test_every_default_would_be_accepted_if_it_were_given():
    for attribute, key in KEYS.items():
        value = getattr(EngineSettings(), attribute).value
        if value not in (None, ""):
            assert key.parse(value) == value, attribute


def test_environment_beats_plugin_config_beats_default(home: Path, with_plugin):
    from_file = with_plugin({"freshTailCount": 32, "incrementalMaxDepth": -1}).engine
    assert (from_file.fresh_tail_count.value, from_file.fresh_tail_count.is_set) == (32, True)
    assert from_file.sweep_max_depth.value == -1
    environ = {"LCM_FRESH_TAIL_COUNT": " 16 ", "LCM_INCREMENTAL_MAX_DEPTH": "3"}
    settings = resolve(Options(), environ, home=home)
    assert settings.engine.fresh_tail_count.value == 16
    assert settings.engine.fresh_tail_count.name == "LCM_FRESH_TAIL_COUNT"
    assert settings.engine.sweep_max_depth.value == 3
    assert settings.engine.leaf_min_fanout.source is SettingSource.DEFAULT
    environ["LCM_SWEEP_MAX_DEPTH"] = "0"
    assert resolve(Options(), environ, home=home).engine.sweep_max_depth.value == 0


def test_a_value_that_does_not_fit_is_noted_and_the_next_source_applies(home: Path, with_plugin):
    with_plugin({"freshTailCount": 32, "contextThreshold": 1.5, "leafMinFanout": True, "timezone": 5})
    environ = {"LCM_FRESH_TAIL_COUNT": "banana", "LCM_LEAF_MIN_FANOUT": "1"}
    settings = resolve(Options(), environ, home=home)
    engine = settings.engine
    assert (engine.fresh_tail_count.value, engine.context_threshold.value) == (32, 0.75)
    assert (engine.leaf_min_fanout.value, engine.leaf_min_fanout.is_set) == (8, False)
    assert engine.timezone.value is None
    place = "plugins.entries.lossless-claw.config"
    assert {where for _, where in problems(settings)} == {
        "LCM_FRESH_TAIL_COUNT",
        "LCM_LEAF_MIN_FANOUT",
        f"{place}.contextThreshold",
        f"{place}.leafMinFanout",
        f"{place}.timezone",
    }
    first = next(each for each in settings.diagnostics if each.where == "LCM_FRESH_TAIL_COUNT")
    assert first.message == 'LCM_FRESH_TAIL_COUNT is "banana", which is not a whole number; it is ignored.'


@pytest.mark.cases(8)
@pytest.mark.parametrize(
    ("name", "accepted", "refused"),
    [
        ("freshTailCount", [1, "7", 64.0], [0, -1, 1.5, "1e3", False, [], {}, "9" * 5000]),
        ("contextThreshold", [0, 1, "0.5"], [-0.1, 1.01, "nan", "inf", True, "half"]),
        ("newSessionRetainDepth", [-1, 0, 5], [-2]),
        ("maxAssemblyTokenBudget", [1000], [999]),
        ("largeFileTokenThreshold", [1000], [999]),
        ("summaryMaxOverageFactor", [1, 2.5], [0.99]),
        ("fallbackMaxTokens", [64], [63]),
        ("promptAwareEviction", [True, False, "TRUE", "false"], [1, 0, "yes"]),
        ("hostFallbackMode", ["error", "capture-only"], ["capture", 1]),
        ("customInstructions", ["be short"], [1, ["x"]]),
        ("ignoreSessionPatterns", [["a", "b"], "a, b"], [[1], {"a": 1}, 5]),
        ("fallbackProviders", [[{"provider": "a", "model": "b/c"}], "a/b,c/d"], ["a", [{"provider": "a"}]]),
        ("timezone", [], ["../../etc/passwd", "No/Where", 5]),
    ],
)
def test_types_and_ranges(with_plugin, name: str, accepted: list[object], refused: list[object]):
    for value in accepted:
        assert with_plugin({name: value}).diagnostics == (), value
    for value in refused:
        assert [problem for problem, _ in problems(with_plugin({name: value}))] == ["invalid-value"], value


def test_a_time_zone_is_one_that_this_machine_knows(with_plugin, monkeypatch: pytest.MonkeyPatch):
    known: list[str] = []
    monkeypatch.setattr("zoneinfo.ZoneInfo", known.append)  # not every machine has the database of zones
    assert with_plugin({"timezone": ":Europe/Berlin"}).engine.timezone.value == "Europe/Berlin"
    assert known == ["Europe/Berlin"]


def test_lists_come_out_the_same_from_either_source(home: Path, with_plugin):
    pairs = [{"provider": "a", "model": "b"}, {"provider": "c", "model": "d/e"}]
    from_file = with_plugin({"fallbackProviders": pairs, "ignoreSessionPatterns": ["x", "y"]})
    environ = {"LCM_FALLBACK_PROVIDERS": "a/b, c/d/e", "LCM_IGNORE_SESSION_PATTERNS": "x,,y,"}
    from_environment = resolve(Options(), environ, home=home)
    for settings in (from_file, from_environment):
        assert settings.engine.fallback_providers.value == ("a/b", "c/d/e")
        assert settings.engine.ignore_session_patterns.value == ("x", "y")


@pytest.mark.parametrize(
    ("plugins", "place", "tail"),
    [
        (
            {"entries": {"lossless-claw": {"config": {"freshTailCount": 1}}}},
            "entries.lossless-claw.config",
            1,
        ),
        ({"config": {"lossless-claw": {"freshTailCount": 2}}}, "config.lossless-claw", 2),
        (
            {
                "entries": {"lossless-claw": {"config": {"freshTailCount": 1}}},
                "config": {"lossless-claw": {"freshTailCount": 2}},
            },
            "entries.lossless-claw.config",
            1,
        ),
        (
            {
                "entries": {"lossless-claw": {"enabled": True}},
                "config": {"lossless-claw": {"freshTailCount": 2}},
            },
            "config.lossless-claw",
            2,
        ),
        (
            {
                "slots": {"contextEngine": "lcm-fork"},
                "entries": {"lcm-fork": {"config": {"freshTailCount": 3}}},
            },
            "entries.lcm-fork.config",
            3,
        ),
    ],
)
def test_the_plugin_block_is_found_where_each_host_keeps_it(
    home: Path, plugins: object, place: str, tail: int
):
    write_host(home, {"plugins": plugins})
    settings = resolve(Options(), {}, home=home)
    assert settings.plugin_place == f"plugins.{place}"
    assert settings.engine.fresh_tail_count.value == tail
    assert settings.raw == {"freshTailCount": tail}


@pytest.mark.parametrize("document", [{}, {"plugins": None}, {"plugins": []}, {"plugins": {"entries": 5}}])
def test_a_config_without_the_plugin_is_an_empty_one(home: Path, document: object):
    write_host(home, document)
    settings = resolve(Options(), {}, home=home)
    assert (settings.config_found, settings.plugin_place, settings.diagnostics) == (True, "", ())


def test_a_block_that_is_no_object_is_noted_and_the_next_place_applies(home: Path):
    entries = {"lossless-claw": {"config": "hunter2"}}
    write_host(home, {"plugins": {"entries": entries, "config": {"lossless-claw": {"freshTailCount": 9}}}})
    settings = resolve(Options(), {}, home=home)
    assert settings.engine.fresh_tail_count.value == 9
    assert problems(settings) == [("invalid-value", "plugins.entries.lossless-claw.config")]
    assert "hunter2" not in repr(settings)


def test_the_context_engine_that_the_host_uses_is_known(home: Path):
    write_host(home, {"plugins": {"slots": {"contextEngine": "legacy"}}})
    assert resolve(Options(), {}, home=home).context_engine == "legacy"


def test_the_config_file_follows_the_documented_order(home: Path, tmp_path: Path):
    for name, tail in (("a.json", 11), ("b.json", 12)):
        block = {"lossless-claw": {"config": {"freshTailCount": tail}}}
        (tmp_path / name).write_text(json.dumps({"plugins": {"entries": block}}))
    environ = {"OPENCLAW_CONFIG_PATH": str(tmp_path / "b.json")}
    assert resolve(Options(), environ, home=home).engine.fresh_tail_count.value == 12
    named = resolve(Options(config="~/a.json"), environ, home=home)
    assert named.engine.fresh_tail_count.value == 11
    assert (named.config_file.value, named.config_file.name) == (home / "a.json", "--config")


BROKEN = [
    *(b'{"plugins": ', b"[]", b"\xff\xfe\x00", b"[" * 100_000, b'{"a": 1} trailing', b"{a: 1 b: 2}"),
    *(
        b"",
        b" \n",
        b'{"plugins": {}}' + bytes(9),
        '{"plugins": "ä"}'.encode("utf-16"),
        "{}".encode("utf-16-be"),
    ),
    *(b"{}\n<<<<<<< HEAD\n", b"{\n=======\n}\n>>>>>>> theirs\n", "{ä: 1}".encode("latin-1"), b"{}{}"),
]


@pytest.mark.cases(3)
@pytest.mark.parametrize("content", BROKEN)
def test_a_broken_config_stops_only_who_named_it(home: Path, content: bytes):
    path = write_host(home, "")
    path.write_bytes(content)
    settings = resolve(Options(), {}, home=home)
    assert problems(settings) == [("unreadable-file", str(path))]
    assert settings.engine == EngineSettings()
    assert settings.config_found
    assert settings.config_unusable
    assert str(path) in settings.unread[0]
    with pytest.raises(ConfigurationError, match="cannot be used") as caught:
        resolve(Options(config=path), {}, home=home)
    assert caught.value.exit_code is ExitCode.CONFIGURATION


@pytest.mark.parametrize("beside", [False, True])
def test_a_link_that_leads_nowhere_is_not_a_missing_config(home: Path, tmp_path: Path, beside: bool):
    """Nor is the config of another folder taken instead of it."""
    folder = tmp_path / "copy" if beside else home / ".openclaw"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "openclaw.json"
    path.symlink_to(tmp_path / "unmounted" / "openclaw.json")
    settings = resolve(Options(db=folder / "lcm.db") if beside else Options(), {}, home=home)
    assert settings.config_file.value == path
    assert settings.config_found
    assert settings.config_unusable == "it is a link to something that is not there"
    assert problems(settings) == [("unreadable-file", str(path))]
    with pytest.raises(ConfigurationError, match="a link to something that is not there"):
        resolve(Options(config=path), {}, home=home)


def test_a_missing_config_is_an_error_only_when_the_command_line_names_it(home: Path):
    missing = home / "none.json"
    assert resolve(Options(), {}, home=home).diagnostics == ()
    settings = resolve(Options(), {"OPENCLAW_CONFIG_PATH": str(missing)}, home=home)
    assert problems(settings) == [("missing-file", str(missing))]
    with pytest.raises(FileMissingError, match=re.escape(str(missing))) as caught:
        resolve(Options(config=missing), {}, home=home)
    assert caught.value.code == "CONFIG_NOT_FOUND"


def test_a_folder_in_the_place_of_a_config_is_noted(home: Path):
    (home / ".openclaw" / "openclaw.json").mkdir()
    settings = resolve(Options(), {}, home=home)
    assert [problem for problem, _ in problems(settings)] == ["unreadable-file"]
    with pytest.raises(ConfigurationError, match="Is a directory"):
        resolve(Options(config=home), {}, home=home)


def test_a_config_as_people_write_it_is_read(home: Path):
    write_host(
        home,
        """\ufeff// my host
        {
          plugins: { /* the
                        context engine */
            slots: {contextEngine: 'lossless-claw',},
            entries: {
              "lossless-claw": {config: {
                freshTailCount: 0x20, contextThreshold: .5, // "not a text"
                largeFilesDir: '~/it\\'s "here"',
                ignoreSessionPatterns: ["a//b", 'c',],
              }},
            },
          },
        }""",
    )
    settings = resolve(Options(), {}, home=home)
    assert settings.diagnostics == ()
    assert settings.context_engine == "lossless-claw"
    assert settings.engine.fresh_tail_count.value == 32
    assert settings.engine.context_threshold.value == 0.5
    assert settings.large_files_dir.value == home / 'it\'s "here"'
    assert settings.engine.ignore_session_patterns.value == ("a//b", "c")


@pytest.mark.parametrize(
    ("document", "value"),
    [
        ("{}", {}),
        ("[1,2,]", [1, 2]),
        ("[1, /* x */ 2 , // y\n ]", [1, 2]),
        ("{$a_1: +1, 'b': -.5e1, c: 5., d: -0xFf}", {"$a_1": 1, "b": -5.0, "c": 5.0, "d": -255}),
        (r"'a\x41\u0042\v\0\z\'\"\\'", "aAB\v\0z'\"\\"),
        ("'two \\\n lines'", "two  lines"),
        ("'\t'", "\t"),
        ("[Infinity, -Infinity, NaN]", ["Infinity", "-Infinity", "NaN"]),
        ("[NaN]", ["NaN"]),
        (r"'\ud83d\ude00'", "\U0001f600"),
        ("{null: null, true: [false]}", {"null": None, "true": [False]}),
    ],
)
def test_json5(document: str, value: object):
    assert json5.loads(document) == value


@pytest.mark.parametrize(
    "document",
    ["", "[,]", "{,}", "[1,,]", "[1,,2]", "{a:,}", "{a}", "'open", "/* open", "[1 2]", "[1/**/2]",
     "a", "{'a' 1}", "[1}", "01x", "'line\nbreak'", "{a: b}", "]", ":", "+"],
)  # fmt: skip
def test_what_is_no_json5_is_refused(document: str):
    with pytest.raises(ValueError, match=r"."):
        json5.loads(document)


def test_the_line_of_a_mistake_is_told():
    with pytest.raises(ValueError, match="line 4"):
        json5.loads("{\n// one\n/* two */ a: 1,\n b: oops }")
    with pytest.raises(ValueError, match="line 3"):
        json5.loads("{\n a: 1,\n b: 'open }")


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.mark.long
@given(JSON_VALUES, st.booleans())
def test_strict_json_keeps_its_meaning_when_read_as_json5(value: object, readable: bool):
    document = json.dumps(value, indent=2 if readable else None, ensure_ascii=readable)
    assert json5.loads(f"// a comment forces the long way\n{document}") == value


@pytest.mark.long
@given(st.text(alphabet="{}[],:'\"/*\\ \nax01.+-", max_size=30))
def test_any_text_is_read_or_refused(document: str):
    with suppress(ValueError):
        json5.loads(document)


SECRETS = {
    "apiKey": "hunter2",
    "api_key": "hunter2",
    "ANTHROPIC_API_KEY": "hunter2",
    "key": "hunter2",
    "token": "hunter2",
    "botToken": "hunter2",
    "access-token": "hunter2",
    "password": "hunter2",
    "dbPassword2": "hunter2",
    "clientSecret": {"inner": "hunter2"},
    "Authorization": "Bearer hunter2",
    "headers": {"x-api-key": "hunter2"},
    "credentials": ["hunter2"],
    "apiKeys": ["hunter2"],
    "authTokens": {"a": "hunter2"},
    "fallbackProviders": [{"provider": "a", "model": "b", "apiKey": "hunter2"}],
    "passphrase": 12345,
}


def test_secrets_are_not_kept(with_plugin):
    settings = with_plugin({**SECRETS, "summaryModel": {"apiKey": "hunter2"}})
    assert "hunter2" not in repr(settings)
    assert "hunter2" not in repr(config_view(settings))
    assert settings.raw["apiKey"] == "***"
    assert settings.raw["passphrase"] == "***"
    assert config_value(settings, "raw.fallbackProviders.0.apiKey").value == "***"
    assert config_value(settings, "raw.headers").value == {"x-api-key": "***"}
    assert settings.engine.fallback_providers.value == ("a/b",)


def test_settings_that_only_sound_like_secrets_are_kept(with_plugin):
    block = {
        "leafTargetTokens": 1200,
        "freshTailMaxTokens": "9000",
        "maxAssemblyTokenBudget": 50_000,
        "dynamicLeafChunkTokens": {"enabled": True, "max": 4},
        "otherTokens": {"enabled": True, "max": 4},
        "someTokens": 5,
        "monkey": "banana",
        "apiKey": None,
    }
    kept = dict(block, otherTokens="***")
    assert with_plugin(block).raw == kept


def test_the_rest_of_the_host_config_is_not_kept(home: Path):
    write_host(
        home, {"channels": {"x": {"name": "hunter2"}}, "plugins": {"entries": {"other": {"a": "hunter2"}}}}
    )
    assert "hunter2" not in repr(resolve(Options(), {}, home=home))


def test_a_block_nested_without_end_is_cut(home: Path):
    nested = '{"a":' * 500 + "1" + "}" * 500
    write_host(home, f'{{"plugins": {{"config": {{"lossless-claw": {nested}}}}}}}')
    settings = resolve(Options(), {}, home=home)
    assert json.dumps(settings.raw).count('"a"') == 51


def test_variables_are_listed_by_name_without_their_values(home: Path):
    environ = {"LCM_SUMMARY_MODEL": "hunter2", "LCM_FRESH_TAIL_COUNT": "5", "LCM_LEAF_CHUNK_TOKENS": " "}
    environ |= {"PATH": "/bin", "LCM_TUI_BUDGET": "1", "TZ": "Here/There", "ANTHROPIC_API_KEY": "hunter3"}
    settings = resolve(Options(), environ, home=home)
    assert settings.active_env == ("LCM_FRESH_TAIL_COUNT", "LCM_SUMMARY_MODEL", "LCM_TUI_BUDGET", "TZ")
    assert "hunter3" not in repr(settings)
    assert {"LCM_DATABASE_PATH", "LCM_TUI_FORMAT", "OPENCLAW_CONFIG_PATH", "LCM_OPENCLAW_DIR"} <= ENV_NAMES


def test_a_time_zone_that_is_not_known_counts_as_utc_as_for_the_engine(home: Path):
    settings = resolve(Options(), {"TZ": "Mars/Olympus"}, home=home)
    assert (settings.engine.timezone.value, settings.engine.timezone.is_set) == ("UTC", True)
    (note,) = [one for one in settings.diagnostics if one.where == "TZ"]
    assert note.message.endswith("known on this machine; UTC is used instead, as in the engine.")


def test_our_own_file_gives_budget_format_theme_and_keys(home: Path, tmp_path: Path):
    path = tmp_path / "own.toml"
    path.write_text(
        'budget = 64000\nformat = "json"\ntheme = "nord"\nbackup_offer_mb = 0\ncheck_seconds = 2.5\n'
        '[keys]\nreload = "f5, ctrl+r"\n'
    )
    environ = {"LCM_TUI_CONFIG": str(path)}
    settings = resolve(Options(), environ, home=home)
    assert (settings.budget.value, settings.budget.source) == (64_000, SettingSource.USER_CONFIG)
    assert settings.output_format.value is OutputFormat.JSON
    assert settings.theme.value == "nord"
    assert settings.backup_offer_mb.value == 0
    assert settings.check_seconds.value == 2.5
    assert dict(settings.keys) == {"reload": "f5, ctrl+r"}
    assert settings.diagnostics == ()
    environ |= {"LCM_TUI_BUDGET": "32000", "LCM_TUI_FORMAT": "Table"}
    settings = resolve(Options(), environ, home=home)
    assert (settings.budget.value, settings.output_format.value) == (32_000, OutputFormat.TABLE)
    options = Options(budget=16_000, output_format=OutputFormat.JSON)
    settings = resolve(options, environ, home=home)
    assert (settings.budget.value, settings.output_format.value) == (16_000, OutputFormat.JSON)


def test_mistakes_in_our_own_file_are_noted_one_by_one(home: Path, tmp_path: Path):
    path = tmp_path / "own.toml"
    path.write_text(
        'budget = 0\nformat = "xml"\ntheme = 5\ncolour = "red"\nbackup_offer_mb = -1\ncheck_seconds = -1\n'
        '[keys]\nup = 3\ndown = "j"\n'
    )
    settings = resolve(Options(), {"LCM_TUI_CONFIG": str(path)}, home=home)
    assert dict(settings.keys) == {"down": "j"}
    assert (settings.budget.value, settings.theme.value) == (None, None)
    assert set(problems(settings)) == {
        ("unknown-key", "colour"),
        ("invalid-value", "budget"),
        ("invalid-value", "format"),
        ("invalid-value", "theme"),
        ("invalid-value", "backup_offer_mb"),
        ("invalid-value", "check_seconds"),
        ("invalid-value", "keys.up"),
    }


#: Values of every type of TOML, also at their limits.
WRITTEN = (
    '"text"', '""', '"   "', "'a\\\\b'", '"""two\nlines"""', '"\\u001b[2J\\u202e"', '"' + "9" * 5000 + '"',
    "0", "-1", "5", "9007199254740992", "9" * 19, "9" * 400, "0x" + "f" * 5000, "0b1", "0o7",
    "0.5", "-0.0", "1e400", "-inf", "nan", "true", "false",
    "1979-05-27T07:32:00Z", "1979-05-27T00:32:00-07:00",
    "1979-05-27T07:32:00.999999", "1979-05-27", "07:32:00",
    "[]", "[1, 1979-05-27]", "[[]]", "{}", "{ a = 1979-05-27 }", "[{ a = 1 }]",
)  # fmt: skip
OURS = (*_KNOWN, *(f"summary.{name}" for name in _FIELDS), "keys.reload", "unknown")


@pytest.mark.cases(2)
@pytest.mark.parametrize("key", OURS)
def test_any_value_of_any_key_of_ours_is_used_or_noted(home: Path, tmp_path: Path, key: str):
    path = tmp_path / "own.toml"
    for written in WRITTEN:
        path.write_text(f"{key} = {written}\n")
        settings = resolve(Options(), {"LCM_TUI_CONFIG": str(path)}, home=home)
        for one in settings.diagnostics:
            assert one.message.endswith(".")
            assert len(one.message) < 300
        if written[:4] in ("1979", "07:3"):
            assert len(settings.diagnostics) == 1
            known = "known" if key == "unknown" else written[:10].replace("T", " ")
            assert known in settings.diagnostics[0].message
        assert settings.budget.value is None or 0 < settings.budget.value <= 1_000_000_000
        config_view(settings)
        json.dumps([settings.theme.value, dict(settings.keys), settings.check_seconds.value])


@pytest.mark.parametrize("content", [b"budget = ", b"\xff", None, b"keys = 5"])
def test_our_own_file_never_stops_anything(home: Path, tmp_path: Path, content: bytes | None):
    path = tmp_path / "own.toml"
    if content is not None:
        path.write_bytes(content)
    settings = resolve(Options(), {"LCM_TUI_CONFIG": str(path)}, home=home)
    assert len(settings.diagnostics) == 1
    assert dict(settings.keys) == {}


def test_bad_variables_of_our_own_fall_back_and_a_bad_option_does_not(home: Path):
    settings = resolve(Options(), {"LCM_TUI_BUDGET": "much", "LCM_TUI_FORMAT": "xml"}, home=home)
    assert (settings.budget.value, settings.output_format.value) == (None, OutputFormat.TABLE)
    assert [where for _, where in problems(settings)] == ["LCM_TUI_BUDGET", "LCM_TUI_FORMAT"]
    with pytest.raises(UsageError, match="at least 1"):
        resolve(Options(budget=0), {}, home=home)


def test_our_own_file_stands_in_the_user_config_folder(home: Path, monkeypatch: pytest.MonkeyPatch):
    found = default_user_file({"XDG_CONFIG_HOME": "/xdg"}, home)
    assert found == Path("/xdg/lcm-tui/config.toml")
    folder = platformdirs.user_config_path("lcm-tui", appauthor=False).relative_to(Path.home())
    assert default_user_file({"XDG_CONFIG_HOME": "relative"}, home) == home / folder / "config.toml"
    monkeypatch.setattr(platformdirs, "user_config_path", lambda *_, **__: Path("/elsewhere/lcm-tui"))
    assert default_user_file({}, home) == home / ".config" / "lcm-tui" / "config.toml"


def test_config_show_has_effective_values_under_the_names_of_the_plugin(with_plugin):
    settings = with_plugin({"freshTailCount": 9, "other": {"deep": [1, {"x": "y"}]}})
    view = config_view(settings)
    assert view.effective["freshTailCount"] == 9
    assert view.effective["dbPath"] == str(settings.database.value)
    assert view.effective["tui"] == {
        "budget": None,
        "format": "table",
        "theme": None,
        "backupOfferMb": 512,
        "writeUnknownSchema": False,
        "checkSeconds": 30.0,
        "searchCache": True,
        "summary": {
            "provider": "",
            "model": "",
            "baseUrl": "",
            "inputPrice": None,
            "outputPrice": None,
            "maxCalls": None,
            "maxCost": None,
            "inFlight": 4,
        },
    }
    assert view.sources["freshTailCount"] == "plugins.entries.lossless-claw.config.freshTailCount"
    assert view.sources["leafMinFanout"] == "default"
    assert json.loads(json.dumps(view.effective)) == view.effective
    assert view.raw == {"freshTailCount": 9, "other": {"deep": [1, {"x": "y"}]}}


def test_config_get_reads_effective_then_raw(with_plugin):
    settings = with_plugin({"freshTailCount": "9", "other": {"deep": [1, {"x": "y"}]}})
    found = config_value(settings, "freshTailCount")
    assert (found.value, found.origin) == (9, "effective")
    assert found.source == "plugins.entries.lossless-claw.config.freshTailCount"
    raw = config_value(settings, "raw.freshTailCount")
    assert (raw.value, raw.origin, raw.path, raw.source) == ("9", "raw", "freshTailCount", None)
    assert config_value(settings, "other.deep.1.x").value == "y"
    assert config_value(settings, "effective.tui.format").value == "table"
    for missing in ("nope", "other.deep.2", "other.deep.x", "raw.leafMinFanout", "effective.other", "", "."):
        with pytest.raises(NotFoundError, match=r"no setting|does not set .leafMinFanout"):
            config_value(settings, missing)


def test_resolving_reads_only_what_it_is_given(home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LCM_DATABASE_PATH", "/from/the/process.db")
    assert resolve(Options(), {}, home=home).database.value == home / ".openclaw" / "lcm.db"


# -- the host's configuration in several files, and its variables ----------------------------------------


def plugin_of(block: object) -> dict[str, object]:
    return {"plugins": {"entries": {"lossless-claw": {"config": block}}}}


def write_files(home: Path, files: Mapping[str, object]) -> None:
    for name, content in files.items():
        path = home / ".openclaw" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))


TAIL = plugin_of({"freshTailCount": 17})
INCLUDES: dict[str, dict[str, object]] = {
    "root": {"openclaw.json": {"$include": "./p.json5"}, "p.json5": TAIL},
    "without a dot": {"openclaw.json": {"$include": "parts/p.json5"}, "parts/p.json5": TAIL},
    "commented": {
        "openclaw.json": "{$include: './p.json5', // mine\n}",
        "p.json5": "/* x */ " + json.dumps(TAIL),
    },
    "nested, relative to the file that includes": {
        "openclaw.json": {"plugins": {"$include": "a/p.json"}},
        "a/p.json": {"entries": {"$include": "./b/e.json"}},
        "a/b/e.json": {"lossless-claw": {"config": {"$include": "../c.json"}}},
        "a/c.json": {"freshTailCount": 17},
    },
    "a value that is no object": {
        "openclaw.json": plugin_of({"freshTailCount": {"$include": "n.json"}}),
        "n.json": "17",
    },
    "a list, in which the later wins": {
        "openclaw.json": {"$include": ["a.json", "b.json"]},
        "a.json": plugin_of({"freshTailCount": 5, "leafChunkTokens": 9}),
        "b.json": TAIL,
    },
    "beside keys, which win": {
        "openclaw.json": {"$include": "a.json", **TAIL},
        "a.json": plugin_of({"freshTailCount": 5, "leafChunkTokens": 9}),
    },
    "keys beside that include": {
        "openclaw.json": {"$include": "a.json", "plugins": {"$include": "p.json"}},
        "a.json": plugin_of({"freshTailCount": 5}),
        "p.json": TAIL["plugins"],
    },
    "the same file twice": {
        "openclaw.json": {"$include": ["a.json", "b.json", "a.json"]},
        "a.json": TAIL,
        "b.json": plugin_of({"freshTailCount": 5}),
    },
    "ten levels": {
        "openclaw.json": {"$include": "1.json"},
        **{f"{n}.json": {"$include": f"{n + 1}.json"} for n in range(1, 10)},
        "10.json": TAIL,
    },
    "an escaped name": {"openclaw.json": '{"\\u0024include": "p.json"}', "p.json": TAIL},
}


@pytest.mark.parametrize("files", INCLUDES.values(), ids=INCLUDES)
def test_the_files_that_a_config_includes_are_read(home: Path, files: dict[str, object]):
    write_files(home, files)
    settings = resolve(Options(), {}, home=home)
    assert settings.diagnostics == ()
    assert settings.engine.fresh_tail_count.value == 17
    assert settings.engine.fresh_tail_count.name.endswith(".config.freshTailCount")


def test_included_lists_are_joined_and_objects_merged(home: Path):
    write_files(
        home,
        {
            "openclaw.json": {
                "agents": {"list": [{"id": "own"}, {"$include": "agent.json"}]},
                "$include": ["a.json", "b.json"],
            },
            "agent.json": {"id": "included"},
            "a.json": {"agents": {"list": [{"id": "a"}]}, "session": {"store": "/a/sessions.json"}},
            "b.json": {"agents": {"list": [{"id": "b"}], "__proto__": 1}, "__proto__": {"plugins": TAIL}},
        },
    )
    settings = resolve(Options(), {}, home=home)
    assert settings.agents.value == ("a", "b", "own", "included")
    assert settings.sessions.value == Path("/a")
    assert settings.diagnostics == ()


UNUSABLE: dict[str, tuple[dict[str, object], str]] = {
    "missing": ({"openclaw.json": {"$include": "./gone.json5"}}, "gone.json5"),
    "missing below": (
        {
            "openclaw.json": {"channels": [{"$include": "a.json"}]},
            "a.json": {"x": {"$include": "gone.json5"}},
        },
        "gone.json5",
    ),
    "broken": ({"openclaw.json": {"$include": "a.json"}, "a.json": "{"}, "a.json"),
    "empty": ({"openclaw.json": {"$include": "a.json"}, "a.json": ""}, "a.json"),
    "itself": ({"openclaw.json": {"$include": "openclaw.json"}}, "circle"),
    "circle": (
        {
            "openclaw.json": {"$include": "a.json"},
            "a.json": {"b": {"$include": "b/b.json"}},
            "b/b.json": [{"$include": "../a.json"}],
        },
        "circle",
    ),
    "eleven levels": (
        {
            "openclaw.json": {"$include": "1.json"},
            **{f"{n}.json": {"$include": f"{n + 1}.json"} for n in range(1, 11)},
            "11.json": TAIL,
        },
        "11.json",
    ),
    "outside": ({"openclaw.json": {"$include": "../p.json"}, "../p.json": TAIL}, "outside"),
    "outside and back": ({"openclaw.json": {"$include": "/etc/hosts"}}, "outside"),
    "a folder": ({"openclaw.json": {"$include": "a"}, "a/b.json": TAIL}, "regular"),
    "too large": ({"openclaw.json": {"$include": "a.json"}, "a.json": " " * (2 << 20) + "{}"}, "2 MB"),
    "no path": ({"openclaw.json": {"$include": 5}}, "neither a path nor a list"),
    "no path in a list": ({"openclaw.json": {"$include": ["p.json", None]}, "p.json": {}}, "no path"),
    "NUL in a path": ({"openclaw.json": {"$include": "a\0b"}}, "null"),
    "keys beside a list": (
        {"openclaw.json": {"x": {"$include": "a.json", "y": 1}}, "a.json": []},
        "no object",
    ),
    "a list in place of all": ({"openclaw.json": {"$include": "a.json"}, "a.json": []}, "object"),
    "ever more": (
        {
            "openclaw.json": {"$include": ["1.json"] * 9},
            **{f"{n}.json": {"$include": [f"{n + 1}.json"] * 9} for n in range(1, 9)},
            "9.json": {},
        },
        "1,000 files",
    ),
}


@pytest.mark.cases(10)
@pytest.mark.parametrize(("files", "words"), UNUSABLE.values(), ids=UNUSABLE)
def test_one_bad_include_makes_a_whole_config_unusable(home: Path, files: dict[str, object], words: str):
    write_files(home, {**files, ".env": "LCM_LEAF_CHUNK_TOKENS=9"})
    path = home / ".openclaw" / "openclaw.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**TAIL, **document, "env": {"LCM_LEAF_MIN_FANOUT": "3"}}))
    settings = resolve(Options(), {}, home=home)
    assert problems(settings) == [("unreadable-file", str(path))]
    assert words in settings.config_unusable
    assert settings.engine.fresh_tail_count.value == 64
    assert settings.engine.leaf_min_fanout.value == 8
    assert settings.engine.leaf_chunk_tokens.value == 9  # of another file
    with pytest.raises(ConfigurationError, match="cannot be used"):
        resolve(Options(config=path), {}, home=home)


def test_an_include_through_a_link_stays_inside_and_has_one_name(home: Path, tmp_path: Path):
    state = home / ".openclaw"
    write_files(home, {"openclaw.json": {"$include": "link.json"}, "parts/p.json": TAIL})
    (state / "link.json").symlink_to(state / "parts" / "p.json")
    assert resolve(Options(), {}, home=home).engine.fresh_tail_count.value == 17
    (state / "link.json").unlink()
    (tmp_path / "elsewhere.json").write_text(json.dumps(TAIL))
    (state / "link.json").symlink_to(tmp_path / "elsewhere.json")
    assert "outside" in resolve(Options(), {}, home=home).config_unusable
    (state / "link.json").unlink()
    (state / "link.json").hardlink_to(state / "parts" / "p.json")
    assert "hard links" in resolve(Options(), {}, home=home).config_unusable
    other = tmp_path / "linked"
    other.symlink_to(state)
    (state / "link.json").unlink()
    (state / "link.json").symlink_to("parts/p.json")
    assert resolve(Options(openclaw_dir=other), {}, home=home).engine.fresh_tail_count.value == 17


VARIABLES = [
    ("${A}", {"A": "17"}, "17"),
    ("x${A}y${A}", {"A": "1"}, "x1y1"),
    ("$${A}", {"A": "17"}, "${A}"),
    ("$$${A}", {"A": "17"}, "$${A}"),
    ("$A ${a} ${} ${A:-b} ${1A} $ {A} $", {"A": "17"}, "$A ${a} ${} ${A:-b} ${1A} $ {A} $"),
    ("${_A1}${B_2}", {"_A1": "${B_2}", "B_2": "é"}, "${B_2}é"),
    ("$${pass:x}", {}, "${pass:x}"),
]


@pytest.mark.parametrize(("written", "environ", "read"), VARIABLES)
def test_variables_in_texts_are_replaced(home: Path, written: str, environ: dict[str, str], read: str):
    write_files(home, {"openclaw.json": plugin_of({"customInstructions": written})})
    settings = resolve(Options(), environ, home=home)
    assert settings.engine.custom_instructions.value == read
    assert settings.raw == {"customInstructions": written}
    assert settings.diagnostics == ()


def test_variables_count_for_paths_lists_agents_and_the_slot(home: Path):
    block = {"dbPath": "${D}/m.db", "ignoreSessionPatterns": ["a:${D}"], "freshTailCount": "${N}"}
    document = {
        "plugins": {"slots": {"contextEngine": "${SLOT}"}, "entries": {"fork": {"config": block}}},
        "session": {"store": "${D}/s/sessions.json"},
        "agents": {"list": [{"id": "${SLOT}"}]},
        "channels": {"x": {"botToken": "${NOT_SET_HERE}"}},
    }
    write_files(home, {"openclaw.json": document})
    settings = resolve(Options(), {"D": "/d", "SLOT": "fork", "N": "3"}, home=home)
    assert settings.database.value == Path("/d/m.db")
    assert settings.sessions.value == Path("/d/s")
    assert settings.agents.value == ("fork",)
    assert settings.engine.ignore_session_patterns.value == ("a:/d",)
    assert settings.engine.fresh_tail_count.value == 3
    assert settings.diagnostics == ()


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("${A_TAIL}", "A_TAIL is not set"),
        ("x ${EMPTY}", "EMPTY is not set"),
        ("${pass:lcm/tail}", "program"),
        ("${gopass:lcm/tail}", "program"),
        ("${SOME_API_KEY}", "secret"),
    ],
)
def test_a_variable_that_is_not_known_or_not_read_is_named_with_its_file(
    home: Path, written: str, words: str
):
    block = {"freshTailCount": written, "customInstructions": written, "leafChunkTokens": 9}
    write_files(home, {"openclaw.json": plugin_of(block), ".env": "SOME_API_KEY=sk-17"})
    settings = resolve(Options(), {"EMPTY": ""}, home=home)
    assert settings.engine.fresh_tail_count.value == 64
    assert settings.engine.leaf_chunk_tokens.value == 9
    assert len(settings.unread) == 2
    assert words in settings.unread[0]
    assert str(settings.config_file.value) in settings.unread[0]
    assert "sk-17" not in repr(settings)


def test_a_form_that_the_host_does_not_replace_is_named_where_it_fits_no_setting(home: Path):
    """A text may hold it: the host leaves it as it is."""
    block = {"freshTailCount": "${A_TAIL:-17}", "customInstructions": "${A_TAIL:-17}"}
    write_files(home, {"openclaw.json": plugin_of(block)})
    settings = resolve(Options(), {"A_TAIL": "18"}, home=home)
    assert settings.engine.fresh_tail_count.value == 64
    assert settings.engine.custom_instructions.value == "${A_TAIL:-17}"
    [said] = settings.unread
    assert "freshTailCount in " in said
    assert (
        '"${A_TAIL:-17}", which is not a whole number: the host replaces only ${NAME}; it is ignored' in said
    )


def test_a_variable_in_place_of_a_number_is_a_text_which_the_setting_judges(home: Path):
    write_files(home, {"openclaw.json": plugin_of({"freshTailCount": "${N}", "enabled": "${B}"})})
    settings = resolve(Options(), {"N": "hunter2", "B": "false"}, home=home)
    assert not settings.engine.enabled.value
    assert problems(settings) == [("invalid-value", "plugins.entries.lossless-claw.config.freshTailCount")]
    assert "${N}" in settings.diagnostics[0].message
    assert "hunter2" not in repr(settings)


def test_the_sources_of_variables_follow_the_documented_order(home: Path):
    block = {"env": {"LCM_FRESH_TAIL_COUNT": "11", "vars": {"LCM_FRESH_TAIL_COUNT": "12"}}}
    gateway = home / ".config" / "openclaw" / "gateway.env"
    gateway.parent.mkdir(parents=True)
    write_files(home, {"openclaw.json": {**plugin_of({"freshTailCount": 13}), **block}})

    def tail(environ: dict[str, str] = {}) -> tuple[int, str]:  # noqa: B006
        found = resolve(Options(), environ, home=home).engine.fresh_tail_count
        return found.value, found.name

    config = home / ".openclaw" / "openclaw.json"
    assert tail() == (11, f"LCM_FRESH_TAIL_COUNT in env of {config}")
    gateway.write_text("LCM_FRESH_TAIL_COUNT=10")
    assert tail() == (10, f"LCM_FRESH_TAIL_COUNT in {gateway}")
    write_files(home, {".env": "LCM_FRESH_TAIL_COUNT=9\nLCM_DATABASE_PATH=~/odd.db"})
    assert tail() == (9, f"LCM_FRESH_TAIL_COUNT in {home / '.openclaw' / '.env'}")
    assert tail({"LCM_FRESH_TAIL_COUNT": "8"}) == (8, "LCM_FRESH_TAIL_COUNT")
    settings = resolve(Options(), {}, home=home)
    assert settings.database.value == home / "odd.db"
    assert settings.state_dir.value == home / ".openclaw"
    assert settings.active_env == ("LCM_DATABASE_PATH", "LCM_FRESH_TAIL_COUNT")
    (home / ".openclaw" / ".env").unlink()
    gateway.unlink()
    assert tail({"LCM_FRESH_TAIL_COUNT": " "})[0] == 11
    write_files(home, {"openclaw.json": {**plugin_of({}), "env": {"LCM_FRESH_TAIL_COUNT": 7, "vars": [1]}}})
    assert tail() == (64, "")


def test_our_own_settings_come_from_our_own_environment(home: Path):
    own = "LCM_TUI_BUDGET=5\nLCM_TUI_FORMAT=json\nLCM_SUMMARY_BASE_URL=http://elsewhere\nOPENCLAW_STATE_DIR=/x\n"
    write_files(home, {".env": own + "OPENCLAW_CONFIG_PATH=/y.json\nLCM_SUMMARY_MODEL=m"})
    settings = resolve(Options(), {}, home=home)
    assert settings.budget.value is None
    assert settings.output_format.value is OutputFormat.TABLE
    assert settings.summary.base_url.value == ""
    assert settings.summary.model.value == "m"
    assert settings.config_file.value == home / ".openclaw" / "openclaw.json"


DOTENV = """\ufeff# of the host
export A=1
B = two words # a comment
C='single $A\\n # kept'
D="double\\nline # kept"
E=`back "tick"`
F=
  G   =  x=y
H: colon
A=last
I="two
lines"
J="unclosed
K='it\\'s'
no equals sign
L.m-n=5
É=6
M="x" y
"""


def test_variables_are_written_as_dotenv_reads_them(home: Path):
    expected = {
        "A": "last",
        "B": "two words",
        "C": "single $A\\n # kept",
        "D": "double\nline # kept",
        "E": 'back "tick"',
        "G": "x=y",
        "H": "colon",
        "I": "two\nlines",
        "J": '"unclosed',
        "M": '"x" y',
    }
    for ending in ("\n", "\r\n", "\r"):
        (home / ".openclaw" / ".env").write_text(DOTENV.replace("\n", ending), newline="")
        for name, value in expected.items():
            write_files(home, {"openclaw.json": plugin_of({"customInstructions": f"<${{{name}}}>"})})
            settings = resolve(Options(), {}, home=home)
            assert settings.engine.custom_instructions.value == f"<{value}>".strip()
        write_files(home, {"openclaw.json": plugin_of({"customInstructions": "${F}"})})
        assert "F is not set" in resolve(Options(), {}, home=home).unread[0]


@pytest.mark.parametrize("content", [b"A=1\0", "LCM_FRESH_TAIL_COUNT=9".encode("utf-16"), b"\xe4=1", None])
def test_a_file_of_variables_that_cannot_be_read_is_named(home: Path, content: bytes | None):
    path = home / ".openclaw" / ".env"
    path.mkdir() if content is None else path.write_bytes(content)
    write_files(home, {"openclaw.json": TAIL})
    settings = resolve(Options(), {}, home=home)
    assert problems(settings) == [("unreadable-file", str(path))]
    assert str(path) in settings.unread[0]
    assert settings.engine.fresh_tail_count.value == 17


def test_no_value_of_a_file_of_variables_is_quoted(home: Path):
    write_files(home, {".env": 'LCM_FRESH_TAIL_COUNT="x\nAPI_KEY=sk-hunter2\n"\nTZ=sk-hunter3\n'})
    settings = resolve(Options(), {}, home=home)
    assert [where.split(" in ")[0] for _, where in problems(settings)] == ["TZ", "LCM_FRESH_TAIL_COUNT"]
    assert "hunter" not in repr(settings)


def test_a_login_shell_is_mentioned_and_not_started(home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("subprocess.Popen", None)
    document = {"env": {"shellEnv": {"enabled": True, "timeoutMs": 5}}}
    write_files(home, {"openclaw.json": document})
    assert problems(resolve(Options(), {}, home=home)) == [("login-shell", "env.shellEnv.enabled")]
    write_files(home, {"openclaw.json": {}})
    assert problems(resolve(Options(), {"OPENCLAW_LOAD_SHELL_ENV": "1"}, home=home)) == [
        ("login-shell", "OPENCLAW_LOAD_SHELL_ENV")
    ]


def test_a_named_database_brings_the_variables_beside_its_config(home: Path, tmp_path: Path):
    write_files(home, {"openclaw.json": TAIL, ".env": "LCM_FRESH_TAIL_COUNT=5"})
    other = tmp_path / "copy"
    other.mkdir()
    (other / "openclaw.json").write_text(json.dumps(plugin_of({"leafChunkTokens": "${N}"})))
    (other / ".env").write_text("N=9")
    settings = resolve(Options(db=other / "lcm.db"), {}, home=home)
    assert settings.engine.leaf_chunk_tokens.value == 9
    assert settings.engine.fresh_tail_count.value == 64


STORES = [
    ("/data/agents/{agentId}/sessions/sessions.json", "/data/agents"),
    ("/data/agents/{agentId}/agent/openclaw-agent.sqlite", "/data/agents"),
    ("/data/oc-{agentId}.sqlite", "/data"),
    ("~/kept/{agentId}/x.sqlite", "kept"),
    ("/data/store/sessions.json", "/data/store"),
    ("/data/one.sqlite", "/data/one.sqlite"),
    ("/data/one.db", "/data/one.db"),
]


@pytest.mark.parametrize(("store", "folder"), STORES)
def test_where_the_host_was_told_to_keep_its_sessions(store: str, folder: str, tmp_path: Path) -> None:
    config = tmp_path / "openclaw.json"
    config.write_text(json.dumps({"session": {"store": store}}))
    found = resolve(Options(config=config), {}, home=tmp_path)
    assert found.sessions.value == tmp_path / folder  # an absolute path stays one
    assert found.sessions.name == "session.store"
    named = resolve(Options(config=config, sessions="/other"), {}, home=tmp_path)
    assert named.sessions.value == Path("/other")


@pytest.mark.parametrize("store", [7, ["/data"], {"path": "/data"}, "", None])
def test_a_store_that_is_no_path_is_passed_over(store: object, tmp_path: Path) -> None:
    config = tmp_path / "openclaw.json"
    config.write_text(json.dumps({"session": {"store": store}}))
    found = resolve(Options(config=config), {}, home=tmp_path)
    assert found.sessions.value == tmp_path / ".openclaw" / "agents"
    assert bool(found.diagnostics) == (not (store is None or store == ""))


BUDGET = {"plugins": {"entries": {"lossless-claw": {"config": {"freshTailCount": 9}}}}}


@pytest.mark.parametrize("mark", ["lcm-files", "agents", "openclaw.json"])
@pytest.mark.parametrize("variable", [True, False])
def test_a_named_database_brings_its_state_folder(
    home: Path, tmp_path: Path, mark: str, variable: bool
) -> None:
    """docs/configuration.md, "A database in another state folder"."""
    folder = tmp_path / "copy"
    folder.mkdir()
    database = folder / "lcm.db"
    options = Options() if variable else Options(db=database)
    environ = {"LCM_DATABASE_PATH": str(database)} if variable else {}
    bare = resolve(options, environ, home=home)
    assert (bare.state_dir.value, bare.knows_large_files) == (home / ".openclaw", False)
    if mark == "openclaw.json":
        (folder / mark).write_text(json.dumps(BUDGET))
    else:
        (folder / mark).mkdir()
    found = resolve(options, environ, home=home)
    assert (found.state_dir.value, found.knows_large_files) == (folder, True)
    assert (found.large_files_dir.value, found.sessions.value) == (folder / "lcm-files", folder / "agents")
    assert (found.engine.fresh_tail_count.value == 9) == (mark == "openclaw.json")
    assert (
        found.config_file.value
        == (folder if mark == "openclaw.json" else home / ".openclaw") / "openclaw.json"
    )
    assert found.credentials_dir == home / ".openclaw"
    named = resolve(options, {**environ, "OPENCLAW_STATE_DIR": "/named"}, home=home)
    assert named.state_dir.value == Path("/named")


def test_a_database_that_the_host_names_keeps_the_folders_of_the_host(
    home: Path, tmp_path: Path, with_plugin
) -> None:
    (tmp_path / "data" / "lcm-files").mkdir(parents=True)
    database = tmp_path / "data" / "lcm.db"
    with_plugin({"dbPath": str(database)})
    found = resolve(Options(db=database), {}, home=home)
    assert found.state_dir.value == home / ".openclaw"


@pytest.mark.parametrize(
    ("variable", "in_block", "on"),
    [
        (None, None, False),
        (None, True, True),
        ("true", None, True),
        (" TRUE ", None, True),
        ("1", None, True),
        ("1", False, True),
        ("false", True, False),
        ("0", True, False),
        ("yes", True, False),  # as every other text
        ("", True, True),  # not set
    ],
)
def test_heartbeat_polls_are_preserved_where_the_variable_or_else_the_block_says_so(
    home: Path, variable: str | None, in_block: bool | None, on: bool
):
    block = {} if in_block is None else {"preserveHeartbeatPoll": in_block}
    write_host(home, {"plugins": {"entries": {"lossless-claw": {"config": block}}}})
    environ = {} if variable is None else {"LCM_PRESERVE_HEARTBEAT_POLL": variable}
    settings = resolve(Options(), environ, home=home)
    assert settings.engine.preserve_heartbeat_poll.value is on
    assert not settings.diagnostics


def test_a_heartbeat_setting_that_is_no_boolean_is_skipped(with_plugin):
    settings = with_plugin({"preserveHeartbeatPoll": 1})
    assert settings.engine.preserve_heartbeat_poll.value is False
    assert problems(settings)


def test_retired_settings_are_shown_as_retired_whether_they_are_set_or_not(with_plugin):
    for block in ({}, {"transcriptGcEnabled": True, "autoRotateSessionFiles": {"enabled": False}}):
        settings = with_plugin(block)
        view = config_view(settings)
        assert (
            view.retired["transcriptGcEnabled"] == view.retired["autoRotateSessionFiles.startup"] == "1.0.0"
        )
        assert view.retired["cacheAwareCompaction.enabled"] == "0.10.0"
        assert set(view.retired) < set(view.without_effect)
        assert config_value(settings, "transcriptGcEnabled").retired == "1.0.0"
        assert config_value(settings, "freshTailCount").retired is None
