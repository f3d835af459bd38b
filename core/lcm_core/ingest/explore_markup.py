"""YAML and XML in a few lines: their keys and elements, read by libraries that open nothing else."""

from __future__ import annotations

import io
import itertools
import re
from collections import Counter
from typing import Final
from xml.etree.ElementTree import Element, ParseError

import yaml
from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import iterparse

#: Keys and elements that are listed at most.
_LISTED: Final = 24
#: Characters that are parsed at most: these parsers take a second for some megabytes.
_YAML_CHARACTERS: Final = 100_000
_YAML_NESTING: Final = 100
_BRACKET: Final = re.compile(r"[\[{\]}]")
_XML_ELEMENTS: Final = 200_000


def explore_yaml(text: str) -> str:
    """The top-level keys of the first document; empty when it is none.

    Only events are read, so that no alias is ever expanded and no tag makes anything.
    """
    if _nesting(text) > _YAML_NESTING:  # each level makes every token dearer
        return ""
    keys: list[str] = []
    kind, entries = "scalar", 0
    depth, expect_key = 0, True
    try:
        for event in yaml.parse(_beginning(text), Loader=yaml.SafeLoader):
            closing = isinstance(event, yaml.CollectionEndEvent)
            depth -= closing
            if depth == 0 and isinstance(event, yaml.CollectionStartEvent):
                kind = "mapping" if isinstance(event, yaml.MappingStartEvent) else "sequence"
            elif depth == 1 and isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
                if kind == "sequence":
                    entries += not closing
                elif isinstance(event, yaml.ScalarEvent) and expect_key:
                    keys.append(str(event.value))
                # A node that begins here is whole only when its end has come.
                if not isinstance(event, yaml.CollectionStartEvent):
                    expect_key = not expect_key
            elif isinstance(event, yaml.DocumentEndEvent):
                break
            depth += isinstance(event, yaml.CollectionStartEvent)
    except (yaml.YAMLError, ValueError):
        if len(text) <= _YAML_CHARACTERS:
            return ""
    if kind == "scalar":
        return ""
    what = f"Top-level keys ({len(keys)}): {_named(keys)}." if kind == "mapping" else f"Entries: {entries:,}."
    cut = [f"Read: the first {_YAML_CHARACTERS:,} characters."] if len(text) > _YAML_CHARACTERS else []
    return "\n".join(["Structured summary (YAML):", f"Top-level type: {kind}.", what, *cut])


def _nesting(text: str) -> int:
    """How deep brackets stand in one another, whatever they mean."""
    deepest = depth = 0
    for bracket in _BRACKET.finditer(text, 0, _YAML_CHARACTERS):
        depth += 1 if bracket[0] in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _beginning(text: str) -> str:
    """As much as is parsed, up to the end of a line."""
    return text if len(text) <= _YAML_CHARACTERS else text[: text.rfind("\n", 0, _YAML_CHARACTERS) + 1]


def explore_xml(text: str) -> str:
    """The root and what stands in it; empty when it is no XML that may be read."""
    root: Element | None = None
    below: Counter[str] = Counter()
    depth = elements = 0
    try:
        stream = io.BytesIO(text.strip().encode("utf-8", "replace"))
        for event, element in iterparse(stream, events=("start", "end")):
            if event == "start":
                root = element if root is None else root
                below[str(element.tag)] += depth == 1
                depth, elements = depth + 1, elements + 1
                if elements >= _XML_ELEMENTS:
                    break
            else:
                depth -= 1
                element.clear()
    except (ParseError, DefusedXmlException, ValueError):
        if elements < 2:
            return ""
    if root is None:
        return ""
    children = [f"{tag} ×{count:,}" if count > 1 else tag for tag, count in below.items() if count]
    return "\n".join(
        [
            "Structured summary (XML):",
            f"Root element: {root.tag}.",
            f"Child elements ({sum(below.values()):,}): {_named(children)}.",
            f"Elements: {elements:,}{' or more' if elements >= _XML_ELEMENTS else ''}.",
        ]
    )


def _named(names: list[str]) -> str:
    shown = ", ".join(" ".join(name.split())[:160] for name in itertools.islice(names, _LISTED))
    return (f"{shown}, …" if len(names) > _LISTED else shown) or "none"
