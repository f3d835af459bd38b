"""Parameters of commands that stand for several options: a dataclass whose fields are annotated with them.

A field that is annotated with no option keeps its default; a subclass may make an option of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from functools import cache
from inspect import Parameter
from typing import Annotated, Any, get_origin, get_type_hints


def expanded(parameter: Parameter) -> Iterator[Parameter]:
    """The options of a parameter: those of the fields of a dataclass, at any depth; else itself."""
    if _stands_for_several(parameter.annotation):
        for one in _fields(parameter.annotation):
            yield from expanded(one)
    else:
        yield parameter


def gathered(parameter: Parameter, values: Mapping[str, Any]) -> Any:
    """The value of a parameter, of the *values* of its options by name."""
    kind: Any = parameter.annotation
    if not _stands_for_several(kind):
        return values[parameter.name]
    return kind(**{one.name: gathered(one, values) for one in _fields(kind)})


def _stands_for_several(annotation: Any) -> bool:
    return dataclasses.is_dataclass(annotation)


@cache
def _fields(kind: Any) -> tuple[Parameter, ...]:
    hints = get_type_hints(kind, include_extras=True)
    return tuple(
        Parameter(one.name, Parameter.KEYWORD_ONLY, default=_default(one), annotation=hints[one.name])
        for one in dataclasses.fields(kind)
        if get_origin(hints[one.name]) is Annotated or _stands_for_several(hints[one.name])
    )


def _default(field: dataclasses.Field[Any]) -> Any:
    return Parameter.empty if field.default is dataclasses.MISSING else field.default
