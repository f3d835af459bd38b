"""The input of the search, and its hits by conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import ClassVar, TypeAlias

from lcm_core.recall.find import Found, Hit
from lcm_core.records import Conversation, ConversationId
from lcm_core.store.searched import DocumentKind
from textual.binding import Binding, BindingType
from textual.widgets import Input

from lcm_tui.views.hits import conversation_line, hit_lines, is_cut, nothing_text, recent_line
from lcm_tui.widgets.lines import LineView
from lcm_tui.widgets.spans import Line


@dataclass(frozen=True, slots=True)
class OwnerKey:
    """The heading of a conversation."""

    conversation_id: ConversationId


@dataclass(frozen=True, slots=True)
class HitKey:
    """A hit, the same in the answer of a later search."""

    kind: DocumentKind
    id: str


@dataclass(frozen=True, slots=True)
class RecentKey:
    """A search that was made before, while nothing is typed."""

    text: str


RowKey: TypeAlias = OwnerKey | HitKey | RecentKey


class HitList(LineView[RowKey]):
    """Hits under the conversations that they are in, the best first."""

    def __init__(self) -> None:
        super().__init__(self._draw_row, tall=True, empty="", id="hits")
        self.zone: tzinfo | None = None
        self.names: Mapping[ConversationId, Conversation] = {}
        self._hits: dict[HitKey, Hit] = {}
        self._counts: dict[ConversationId, int] = {}
        self._cut = False  #: not all hits are listed
        self._put: RowKey | None = None  #: where the cursor was put: from there nobody has moved it

    @property
    def hit(self) -> Hit | None:
        """The selected hit; on a heading the first one below it."""
        key = self.selected
        if isinstance(key, OwnerKey):
            key = next((one for one in self.keys[self.cursor :] if isinstance(one, HitKey)), None)
        return self._hits.get(key) if isinstance(key, HitKey) else None

    def hit_at(self, key: RowKey) -> Hit | None:
        """The hit of a row; None on any other row."""
        return self._hits.get(key) if isinstance(key, HitKey) else None

    def counted_keys(self) -> tuple[int, int]:
        """The hits, without the headings; what was searched before when nothing is searched."""
        rows = [place for place, key in enumerate(self.keys) if not isinstance(key, OwnerKey)]
        return (rows.index(self.cursor) + 1 if self.cursor in rows else 0), len(rows)

    @property
    def recent(self) -> str | None:
        """The selected recent search."""
        return self.selected.text if isinstance(self.selected, RecentKey) else None

    def show_recent(self, searches: Sequence[str]) -> None:
        """List searches that were made before, the newest first."""
        self._hits, self._counts, self.empty = {}, {}, ""
        self.replace([RecentKey(text) for text in searches])

    def show(self, found: Found | None, *, searching: bool) -> None:
        """List what was found; the cursor stays on the hit that it was moved to, else on the best one."""
        hits = () if found is None else found.hits
        by_owner: dict[ConversationId, list[Hit]] = {}
        for hit in hits:
            by_owner.setdefault(hit.conversation_id, []).append(hit)
        self._hits = {HitKey(hit.kind, hit.id): hit for hit in hits}
        self._counts = {owner: len(some) for owner, some in by_owner.items()}
        self._cut = found is not None and is_cut(found)
        keys: list[RowKey] = []
        for owner, some in by_owner.items():
            keys.append(OwnerKey(owner))
            keys += [HitKey(hit.kind, hit.id) for hit in some]
        self.empty = "" if found is None or searching else nothing_text(found)
        if self.selected == self._put or self.selected not in self._hits:
            self._put = keys[1] if keys else None
            self.replace(keys, select=self._put)
            self._show_from(0)
        else:
            self.replace(keys)

    def _draw_row(self, key: RowKey, width: int) -> Sequence[Line]:
        if isinstance(key, OwnerKey):
            owner = key.conversation_id
            count = self._counts[owner]
            return (conversation_line(owner, self.names.get(owner), count, width, cut=self._cut),)
        if isinstance(key, RecentKey):
            return (recent_line(key.text, width),)
        return hit_lines(self._hits[key], width, self.zone)


class QueryInput(Input):
    """Where the words are typed; arrows and pages move in the hits meanwhile."""

    moves = (
        (("query-up", "query-down"), "the hit above, the hit below"),
        (("query-page-up", "query-page-down"), "a page of hits up, down"),
    )

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "move(1)", "Down", show=False, id="query-down"),
        Binding("up", "move(-1)", "Up", show=False, id="query-up"),
        Binding("pagedown", "page(1)", "Page down", show=False, id="query-page-down"),
        Binding("pageup", "page(-1)", "Page up", show=False, id="query-page-up"),
    ]
    DEFAULT_CSS = """
    QueryInput { height: 1; border: none; padding: 0 1; background: $panel; }
    QueryInput:focus { border: none; background: $primary 30%; }
    """

    def __init__(self, hits: HitList) -> None:
        super().__init__(placeholder='a word, several words, "a phrase", the start of a word*', id="query")
        self._hit_list = hits

    def action_move(self, step: int) -> None:
        """Go to the next hit, or the one before."""
        self._hit_list.action_move(step)

    def action_page(self, direction: int) -> None:
        """Go a page on."""
        self._hit_list.action_page(direction)
