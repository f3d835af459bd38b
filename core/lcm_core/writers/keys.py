"""Keys: where they are found, whom they belong to, and that they go nowhere else.

A key belongs to one provider at one address (scheme, name and port). It is shown masked, never logged and
never stored; an address that it does not belong to never gets it. OAuth tokens are used as they are:
refreshing them is the host's business.
"""

from __future__ import annotations

import base64
import html
import json
import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import Final, NoReturn
from urllib.parse import quote

from lcm_core.base.errors import DatabaseError
from lcm_core.base.files import read_limited
from lcm_core.base.setting_values import Json, object_or_empty
from lcm_core.base.settings import API_KEY_VARIABLE
from lcm_core.base.values import Record
from lcm_core.store.opening import Access, choose_way
from lcm_core.writers.request import (
    PROVIDERS,
    ModelChoice,
    Provider,
    ProviderAuthError,
    host_of,
    is_loopback,
    own_address,
)
from lcm_core.writers.wire import RESERVED_HEADERS

# -- keys of the host ------------------------------------------------------------------------------------
# Auth profiles that newer hosts keep in SQLite files, read as best we can (docs/spec/host.md, "Credentials").

#: A host that writes is not waited for longer than that. s
_WAIT: Final = 0.5
#: What is read, by table and column: profiles, and the order in which they are used.
_DOCUMENTS: Final = (("auth_profile_store", "store_json"), ("auth_profile_state", "state_json"))


def profile_documents(path: Path) -> tuple[str, ...]:
    """The JSON documents about auth profiles in a host's own database, profiles first; none is no mistake.

    The file is opened as a conversation database is (docs/spec/decisions.md, "No trace"), so nothing is left
    beside it.

    Raises:
        DatabaseError: it cannot be read without leaving a trace, or at all.
    """
    way = choose_way(path)
    if way.access is Access.COPY:
        raise DatabaseError(f"{path} cannot be read while its -shm cannot.")
    try:
        with closing(way.connect(_WAIT)) as connection:
            return tuple(_documents(connection))
    except sqlite3.Error as error:
        raise DatabaseError(f"{path} cannot be read ({error}).") from None


def _documents(connection: sqlite3.Connection) -> list[str]:
    found: list[str] = []
    for table, column in _DOCUMENTS:
        names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        if column in names:
            rows = connection.execute(f"SELECT {column} FROM {table}")
            found += [row[0] for row in rows if isinstance(row[0], str)]
    return found


# -- credentials -----------------------------------------------------------------------------------------

_MAX_FILE: Final = 4 * 1024 * 1024
#: Where hosts keep their profiles: in SQLite, an agent's own before the shared ones; before 2026.7 as JSON.
_STORES: Final = ("agents/*/agent/openclaw-agent.sqlite", "state/openclaw.sqlite")
_PROFILES: Final = "agents/*/agent/auth-profiles.json"
#: Keys shorter than this are masked whole.
_SHOWN_FROM: Final = 16
#: Shorter ones, and words, are keys by name only: a summary may hold them.
_KEY_FROM: Final = 8
#: Shorter values of headers are switches, not secrets.
_HIDDEN_FROM: Final = 4
_NAMES_A_KEY: Final = re.compile(r"auth|key|token|secret|passw|cookie|cred", re.IGNORECASE)
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class CredentialError(ProviderAuthError):
    """There is no key for what is to be asked, or none that may be sent there."""

    default_code = "CREDENTIAL_MISSING"


class KeyKind(StrEnum):
    """How a key is sent."""

    API_KEY = "API key"
    OAUTH = "OAuth token"


class Secrets:
    """What no text that is shown or stored may contain, found in the forms in which servers repeat it."""

    __slots__ = ("_keys", "_masks")

    def __init__(self, masks: Mapping[str, str], more: Iterable[str] = ()) -> None:
        """*masks*: keys, and what is shown in their place; *more* is hidden too, but may be in an answer."""
        self._keys = tuple(
            form for one in masks if len(one) >= _KEY_FROM and not one.isalpha() for form in _forms(one)
        )
        whole = {form: mask for one, mask in masks.items() for form in _forms(one)}
        whole |= {form: "…" for one in more if len(one) >= _HIDDEN_FROM for form in _forms(one)}
        self._masks = _longest_first(whole)

    def __or__(self, other: Secrets) -> Secrets:
        both = Secrets({})
        both._keys = self._keys + other._keys
        both._masks = _longest_first(self._masks | other._masks)
        return both

    def redacted(self, text: str) -> str:
        """*text* with masks in the place of secrets."""
        for form, mask in self._masks.items():
            if form in text:
                text = text.replace(form, mask)
        return text

    def are_in(self, text: str) -> bool:
        """Whether *text* holds a key; one that is an ordinary word, as local servers take them, is none."""
        return any(form in text for form in self._keys)

    def __repr__(self) -> str:
        return "<secrets>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("secrets are not stored")


def _longest_first(masks: Mapping[str, str]) -> dict[str, str]:
    """The order in which they are looked for: a long one may hold a short one."""
    return dict(sorted(masks.items(), key=lambda one: -len(one[0])))


def _forms(secret: str) -> Iterator[str]:
    """A secret as it is, and as JSON, an address, HTML or base64 have it."""
    if not secret:
        return
    raw = secret.encode("utf-8", "replace")
    encoded = base64.b64encode(raw).decode().rstrip("=")
    forms = (secret, secret.replace("/", "\\/"), quote(secret, safe=""), html.escape(secret), encoded)
    yield from dict.fromkeys(forms)


class OwnHeaders:
    """Headers of the operator's for one address, beside the key. Their values have no way into a text."""

    __slots__ = ("_values", "host", "origin")

    def __init__(self, host: str, origin: str, values: Mapping[str, str]) -> None:
        self.host = host  #: scheme, name and port
        self.origin = origin  #: the variable that they came from
        self._values = dict(values)

    @property
    def names(self) -> tuple[str, ...]:
        """What they are called."""
        return tuple(self._values)

    @property
    def secrets(self) -> Secrets:
        """Their values: hidden where an error repeats them, and those of keys are kept from drafts."""
        keys = {value: "…" for name, value in self._values.items() if _NAMES_A_KEY.search(name)}
        words = [word for value in self._values.values() for word in (value, *value.split())]
        return Secrets({**keys, **{one.split()[-1]: "…" for one in keys}}, words)

    def values_for(self, choice: ModelChoice) -> Mapping[str, str]:
        """The headers, for the address that they belong to; none for another."""
        return self._values if choice.host == self.host else {}

    def __repr__(self) -> str:
        return f"<headers {', '.join(self._values)} for {self.host} from {self.origin}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("headers are not stored")


def find_headers(choice: ModelChoice, source: KeySource) -> OwnHeaders | None:
    """The headers that the environment has for *choice*; None where it has none, or has them for another.

    They are lines of names and values, and belong to the address to which the provider's own keys belong.
    What no header can hold is left out; so are those that say how a request is carried, and the key.
    """
    variable = choice.provider.headers_variable
    given = source.environ.get(variable, "") if variable else ""
    if not given or host_of(own_address(choice.provider, source.environ)) != choice.host:
        return None
    found = {}
    for line in given.split("\n"):
        name, colon, value = (one.strip() for one in line.partition(":"))
        usable = _HEADER_NAME.fullmatch(name) and value.isascii() and value.isprintable() and value
        if colon and usable and name.lower() not in RESERVED_HEADERS:
            found[name] = value
    return OwnHeaders(choice.host, variable, found) if found else None


class Credential:
    """A key of one provider at one address. It has no way into a text, a log or a pickle."""

    __slots__ = ("_secret", "host", "kind", "origin", "provider")

    def __init__(self, provider: str, host: str, kind: KeyKind, origin: str, secret: str) -> None:
        self.provider = provider
        self.host = host  #: scheme, name and port
        self.kind = kind
        self.origin = origin  #: where it came from: a variable, a file, a profile
        self._secret = secret

    def secret_for(self, choice: ModelChoice) -> str:
        """The key itself, for the provider and address that it belongs to.

        Raises:
            CredentialError: it belongs to another one.
        """
        if choice.provider.name != self.provider or choice.host != self.host:
            raise CredentialError(
                f"The key from {self.origin} belongs to {self.provider} at {self.host} and was not sent to "
                f"{choice.host}: give the key of that server with --api-key-env or {API_KEY_VARIABLE}.",
                code="CREDENTIAL_OF_ANOTHER",
                details={"origin": self.origin, "host": choice.host},
            )
        return self._secret

    @property
    def secrets(self) -> Secrets:
        """The key, to be found in what a server says."""
        return Secrets({self._secret: self.masked})

    @property
    def masked(self) -> str:
        """Enough of the key to know it again."""
        if len(self._secret) < _SHOWN_FROM:
            return "…"
        return f"{self._secret[:3]}…{self._secret[-4:]}"

    def __repr__(self) -> str:
        return f"<{self.kind} {self.masked} of {self.provider} at {self.host} from {self.origin}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a credential is not stored")


class KeySource(Record, frozen=True):
    """Where keys are looked for: what the command line names, the environment, OpenClaw's profiles."""

    environ: Mapping[str, str]
    state_dir: Path | None = None  #: OpenClaw's; None: its profiles are not looked at
    key_variable: str | None = None  #: ``--api-key-env``

    @property
    def is_explicit(self) -> bool:
        """Whether the command line names the key for just this run."""
        return self.key_variable is not None


def find_credential(choice: ModelChoice, source: KeySource) -> Credential | None:
    """The key for *choice*; None where none is needed: on this machine, or when nobody is asked.

    Raises:
        CredentialError: there is none, or none that may go to that address.
    """
    if not choice.base_url:
        return None
    found = _named(choice, source) if source.is_explicit else None
    refusals: list[str] = []
    if found is None:
        for one in _known(choice.provider, source, refusals):
            if one.host == choice.host:
                found = one
                break
            refusals.append(f"the one from {one.origin} belongs to {one.host}")
    if found is None and is_loopback(choice.base_url):
        return None
    if found is None:
        raise _missing(choice, refusals)
    if choice.base_url.startswith("http://") and not is_loopback(choice.base_url):
        raise CredentialError(
            f"The key from {found.origin} was not sent to {choice.host}, because the connection is not "
            "encrypted: use an https address.",
            code="CREDENTIAL_UNSAFE",
            details={"origin": found.origin, "host": choice.host},
        )
    return found


def has_anthropic_key(source: KeySource) -> bool:
    """Whether there is a key for Anthropic's own address, so that it can be asked without being named."""
    anthropic = PROVIDERS["anthropic"]
    given = own_address(anthropic, source.environ)
    return any(one.host == host_of(given) for one in _known(anthropic, source, []))


def _missing(choice: ModelChoice, refusals: list[str]) -> CredentialError:
    own = [*choice.provider.keys, *choice.provider.tokens]
    at_own_address = choice.host == host_of(choice.provider.base_url)
    names = " or ".join(own) if own and at_own_address else f"--api-key-env or {API_KEY_VARIABLE}"
    passed_over = f" ({'; '.join(refusals)})" if refusals else ""
    return CredentialError(
        f"There is no key for {choice.provider.name} at {choice.host}{passed_over}: set {names}. Summaries "
        "need none with --provider extractive.",
        details={"provider": choice.provider.name, "host": choice.host},
    )


def _named(choice: ModelChoice, source: KeySource) -> Credential:
    """The key that the command line names; it belongs to what the same command line asks."""
    origin = source.key_variable or ""
    secret = _usable(source.environ.get(origin, ""), origin, "is not set")
    kind = KeyKind.OAUTH if origin in choice.provider.tokens else KeyKind.API_KEY
    return Credential(choice.provider.name, choice.host, kind, origin, secret)


def _known(provider: Provider, source: KeySource, refusals: list[str]) -> Iterator[Credential]:
    """The keys of *provider* that environment and profiles hold, the preferred first."""
    environ = source.environ
    own = environ.get("LCM_TUI_SUMMARY_PROVIDER", "").strip().lower()
    if environ.get(API_KEY_VARIABLE, "").strip():
        address = environ.get("LCM_TUI_SUMMARY_BASE_URL", "").strip() or provider.base_url
        if own == provider.name and address:
            secret = _usable(environ[API_KEY_VARIABLE], API_KEY_VARIABLE, "is empty")
            yield Credential(provider.name, host_of(address), KeyKind.API_KEY, API_KEY_VARIABLE, secret)
        elif not own:
            refusals.append(f"{API_KEY_VARIABLE} requires LCM_TUI_SUMMARY_PROVIDER too")
    address = own_address(provider, environ)
    for kind, names in ((KeyKind.API_KEY, provider.keys), (KeyKind.OAUTH, provider.tokens)):
        for name in names:
            if environ.get(name, "").strip():
                yield Credential(
                    provider.name, host_of(address), kind, name, _usable(environ[name], name, "is empty")
                )
    if source.state_dir is not None:
        for path, read in _profile_files(source.state_dir):
            try:
                documents = [object_or_empty(json.loads(one)) for one in read(path)]
            except (OSError, ValueError, RecursionError, DatabaseError):
                refusals.append(f"{path} cannot be read")
                continue
            yield from _profiles(path, documents, provider, refusals)


def _usable(secret: str, origin: str, problem: str) -> str:
    secret = secret.strip()
    if not secret:
        raise CredentialError(f"{origin} {problem}: there is no key in it.", details={"origin": origin})
    if not (secret.isascii() and secret.isprintable() and " " not in secret):
        raise CredentialError(
            f"{origin} does not contain a key: it has characters that are not allowed in a key.",
            details={"origin": origin},
        )
    return secret


def _read(path: Path) -> str:
    return read_limited(path, _MAX_FILE).decode("utf-8")


def _profile_files(state_dir: Path) -> Iterator[tuple[Path, Callable[[Path], Iterable[str]]]]:
    """Every file in which a host keeps profiles, with how its JSON documents are read."""
    for pattern in _STORES:
        for path in sorted(state_dir.glob(pattern)):
            yield path, profile_documents
    for path in sorted(state_dir.glob(_PROFILES)):
        yield path, lambda path: [_read(path)]


def _profiles(
    path: Path, documents: Iterable[Mapping[str, Json]], provider: Provider, refusals: list[str]
) -> Iterator[Credential]:
    """The keys of *provider* in one file (docs/spec/host.md, "Credentials"), the preferred first.

    A later document adds to an earlier one: newer hosts keep the order of the profiles apart from them.
    """
    root: dict[str, Json] = {}
    for document in documents:
        root |= document
    profiles = {name: object_or_empty(one) for name, one in object_or_empty(root.get("profiles")).items()}
    flat = object_or_empty(root.get(provider.name))
    if flat.get("apiKey"):
        profiles[provider.name] = {"type": "api_key", "provider": provider.name, "key": flat["apiKey"]}
    wanted = {name: one for name, one in profiles.items() if one.get("provider") == provider.name}
    order = object_or_empty(root.get("order")).get(provider.name)
    last = object_or_empty(root.get("lastGood")).get(provider.name)
    first = [*(order if isinstance(order, list) else ()), last]
    for name in dict.fromkeys([*(one for one in first if isinstance(one, str)), *sorted(wanted)]):
        profile = wanted.get(name)
        if profile is None:
            continue
        origin = f"the profile {name} in {path}"
        kind, secret, problem = _of_profile(profile)
        if problem:
            refusals.append(f"{origin} {problem}")
        else:
            yield Credential(provider.name, host_of(provider.base_url), kind, origin, secret)


def _of_profile(profile: Mapping[str, Json]) -> tuple[KeyKind, str, str]:
    """How a profile's key is sent, the key, and why it cannot be used (empty: it can)."""
    kind = KeyKind.API_KEY if profile.get("type") == "api_key" else KeyKind.OAUTH
    field = {"api_key": "key", "token": "token", "oauth": "access"}.get(str(profile.get("type")), "")
    secret = profile.get(field)
    if not isinstance(secret, str) or not secret.strip():
        return (
            kind,
            "",
            "refers to a key that is kept elsewhere" if f"{field}Ref" in profile else "contains no key",
        )
    expires = profile.get("expires")
    if (
        isinstance(expires, int | float)
        and not isinstance(expires, bool)
        and 0 < expires < time.time() * 1000
    ):
        return kind, "", "has expired; only the host can refresh it: let the host use it once"
    try:
        return kind, _usable(secret, "it", "is empty"), ""
    except CredentialError:
        return kind, "", "contains no key"
