"""The rules of docs/spec/assembly.md told a second time, from the page alone: plain, slow, on JSON.

Nothing here comes from ``lcm_core.engine``; what both say of the same messages is compared in
``test_assembly_model``. A message is the JSON object that is sent, with two members more: ``ordinal``, and
``weight`` where that is asked for.
"""

from __future__ import annotations

import json
import re
from typing import Any

Message = dict[str, Any]
CALLS = ["toolCall", "tool_use", "tool-use", "toolUse", "functionCall", "function_call"]
RESULTS = ["function_call_output", "toolResult", "tool_result"]
BLANKS = "\t\n\v\f\r \xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(
    map(chr, range(0x2000, 0x200B))
)
MISSING = (
    "[lossless-claw] missing tool result in session history; "
    "inserted synthetic error result for transcript repair."
)


def kind(block: Any) -> Any:
    return block.get("type") if isinstance(block, dict) else None


def call_id(block: Any) -> str | None:
    if kind(block) not in CALLS:
        return None
    return next((block[key] for key in ("id", "call_id") if is_word(block.get(key))), None)


def is_word(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def is_blank_text(block: Any) -> bool:
    return kind(block) == "text" and isinstance(block.get("text"), str) and not block["text"].strip(BLANKS)


def ids(message: Message) -> list[str]:
    if message["role"] != "assistant" or isinstance(message["content"], str):
        return []
    return list(dict.fromkeys(found for block in message["content"] if (found := call_id(block)) is not None))


def is_made_up(message: Message) -> bool:
    said = message["content"] if isinstance(message["content"], list) else []
    return message.get("isError") is True and any(
        kind(block) == "text" and block["text"] == MISSING for block in said
    )


# -- Blocks ----------------------------------------------------------------------------------------------


def read(text: str | None) -> tuple[bool, Any]:
    """Whether a text is JSON, and its value."""
    try:
        return True, json.loads(text or "", parse_constant=lambda _: 1 / 0)
    except (ValueError, ZeroDivisionError):
        return False, None


def blocks(rows: list[dict[str, Any]], *, is_assistant: bool) -> list[Any]:
    """What the present engine makes of parts."""
    noted = [value if isinstance(value := read(row["metadata"])[1], dict) else {} for row in rows]
    who = ("modelProvider", "modelApi", "modelId")
    vouched = is_assistant and any(all(is_word(one.get(key)) for key in who) for one in noted)
    found = []
    for row, metadata in zip(rows, noted, strict=True):
        if metadata.get("topLevelReasoningOnly") is not True:
            found += block(row, metadata, vouched=vouched)
    return found


def block(row: dict[str, Any], metadata: dict[str, Any], *, vouched: bool) -> list[Any]:
    raw = metadata.get("raw")
    raw_type = metadata["rawType"] if is_word(metadata.get("rawType")) else None
    if isinstance(raw, list) and raw_type not in CALLS + RESULTS:
        return [raw]
    if isinstance(raw, dict):
        signature = raw.get("thinkingSignature")
        named = raw["type"] if isinstance(raw.get("type"), str) else raw_type
        if raw.get("type") == "thinking" and isinstance(signature, str) and signature.startswith("{"):
            item = read(signature)[1]
            if isinstance(item, dict) and item.get("type") == "reasoning" and isinstance(item.get("id"), str):
                return [item]
        if named == "thinking" and isinstance(signature, str) and not vouched:
            rest = {key: raw[key] for key in raw if key != "thinkingSignature"}
            return [] if signature == "reasoning_content" else [rest]
        if named not in CALLS + RESULTS:
            return [raw]
    else:
        raw = {}
    text, part_type = row["text"], row["part_type"]
    row = {**row, **filled(row, raw)}
    if part_type == "reasoning":
        name, key = ("thinking", "thinking") if raw_type == "thinking" else ("reasoning", "text")
        return [{"type": name, key: text} if text else {"type": name}]
    answers = metadata.get("originalRole") == "toolResult" or raw_type == "function_call_output"
    if (part_type == "tool" and answers) or (part_type != "tool" and raw_type in RESULTS):
        return [result(row, raw, raw_type)]
    if part_type == "tool" or raw_type in CALLS:
        return [call(row, raw_type)]
    if part_type == "text" or text:
        return [{"type": "text", "text": text or ""}]
    value = read(row["metadata"])[1]
    said = (
        json.dumps(value, ensure_ascii=False, separators=(",", ":")) if isinstance(value, dict | list) else ""
    )
    return [{"type": "text", "text": said}]


def filled(row: dict[str, Any], raw: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for column, keys in (("tool_call_id", ("id", "call_id")), ("tool_name", ("name",))):
        found[column] = row[column] or next((raw[key] for key in keys if is_word(raw.get(key))), None)
    key = "input" if raw.get("arguments") is None else "arguments"
    if not row["tool_input"] and key in raw:
        found["tool_input"] = raw[key] if isinstance(raw[key], str) else json.dumps(raw[key])
    return found


def value_or_text(text: str) -> Any:
    is_json, value = read(text)
    return value if is_json else text


def call(row: dict[str, Any], raw_type: str | None) -> Any:
    named = raw_type if raw_type in CALLS else "toolCall"
    found: dict[str, Any] = {"type": named}
    if named != "function_call":
        found["id"] = row["tool_call_id"] or "toolu_lcm_" + row["part_id"]
    elif row["tool_call_id"]:
        found["call_id"] = row["tool_call_id"]
    if row["tool_name"]:
        found["name"] = row["tool_name"]
    if row["tool_input"]:
        key = "arguments" if named in ("toolCall", "functionCall", "function_call") else "input"
        found[key] = value_or_text(row["tool_input"])
    return found


def result(row: dict[str, Any], raw: dict[str, Any], raw_type: str | None) -> Any:
    plain = raw.get("text")
    bare = not {"output", "content"} & raw.keys() and not row["tool_output"]
    if isinstance(plain, str) and bare and row["text"] in (None, plain):
        return {"type": "text", "text": plain}
    named = raw_type if raw_type in RESULTS else "tool_result"
    found: dict[str, Any] = {"type": named}
    if row["tool_name"]:
        found["name"] = row["tool_name"]
    if row["tool_output"]:
        found["output"] = value_or_text(row["tool_output"])
    elif row["text"] is not None:
        found["output"] = row["text"]
    else:
        key = next((key for key in ("output", "content") if key in raw), None)
        found[key or "output"] = raw[key] if key else ""
    error = next((key for key in ("is_error", "isError") if isinstance(raw.get(key), bool)), None)
    if error:
        found[error] = raw[error]
    if row["tool_call_id"]:
        found["call_id" if named == "function_call_output" else "tool_use_id"] = row["tool_call_id"]
    return found


# -- What is sent ----------------------------------------------------------------------------------------


def terms(text: str) -> list[str]:
    return [one for one in re.split("[^a-z0-9]+", text.lower()) if len(one) >= 2]


def chosen(texts: list[str], weights: list[int], room: int, prompt: str | None) -> list[int]:
    """The places of what is sent before the tail, of items by ordinal."""
    room = max(0, room)
    if sum(weights) <= room:
        return list(range(len(weights)))
    asked = list(dict.fromkeys(terms(prompt or "")))
    found: list[int] = []
    if not asked:
        for at in reversed(range(len(weights))):
            if weights[at] > room:
                break
            room -= weights[at]
            found.append(at)
        return sorted(found)

    def score(at: int) -> float:
        held = terms(texts[at])
        return sum(held.count(term) / len(held) for term in asked) if held else 0.0

    for at in sorted(range(len(weights)), key=lambda at: (score(at), at), reverse=True):
        if weights[at] <= room:
            room -= weights[at]
            found.append(at)
    return sorted(found)


# -- Calls without a result, messages that say nothing ----------------------------------------------------


def without_calls(sent: list[Message], tail_from: int | None, in_context: set[str]) -> list[Message]:
    found = []
    for message in sent:
        gone = set()
        for name in ids(message):
            if not any(
                other["role"] == "toolResult"
                and other["toolCallId"] == name
                and other["ordinal"] > message["ordinal"]
                for other in sent
            ) and (tail_from is None or message["ordinal"] < tail_from or name in in_context):
                gone.add(name)
        if gone:
            left = [block for block in message["content"] if call_id(block) not in gone]
            if not left:
                continue
            message = {**message, "content": left}
        found.append(message)
    return found


def without_silence(sent: list[Message]) -> list[Message]:
    found = []
    for message in sent:
        said = message["content"]
        if message["role"] == "assistant":
            said = [{"type": "text", "text": said}] if isinstance(said, str) else said
            said = [block for block in said if not is_blank_text(block)]
            if all(kind(block) in ("thinking", "redacted_thinking", "reasoning") for block in said):
                continue
        if said == [] or (isinstance(said, str) and not said.strip(BLANKS)):
            continue
        found.append({**message, "content": said})
    return found


# -- Tool pairing ------------------------------------------------------------------------------------------


def made_up(caller: Message, name: str) -> Message:
    tool = next(block.get("name") for block in caller["content"] if call_id(block) == name)
    said = [{"type": "text", "text": MISSING}]
    return {
        "role": "toolResult",
        "toolCallId": name,
        "toolName": tool if is_word(tool) else "unknown",
        "content": said,
        "isError": True,
    }


def prepared(message: Message, sent: set[str]) -> tuple[Message | None, bool]:
    """Steps 1 and 2 of an assistant's message: what is left, and whether anything was done."""
    said = message["content"]
    if isinstance(said, str):
        return message, False
    done = False
    kinds = [kind(block) for block in said]
    thoughts = [at for at, one in enumerate(kinds) if one in ("reasoning", "thinking")]
    calls = [at for at, one in enumerate(kinds) if one in CALLS]
    single = sum(one in ("functionCall", "function_call") for one in kinds) == 1
    if single and len(thoughts) + len(calls) == len(said) and any(at > calls[0] for at in thoughts):
        said, done = [said[at] for at in thoughts + calls], True
    left, seen, repeated = [], set(sent), False
    for one in said:
        name = call_id(one)
        if name is not None and name in seen:
            repeated = True
            continue
        if name is not None:
            seen.add(name)
        left.append(one)
    silent = ("reasoning", "thinking", "redacted_thinking")
    if repeated and all(kind(one) in silent or is_blank_text(one) for one in left):
        return None, True
    return ({**message, "content": left} if done or repeated else message), done or repeated


def paired(messages: list[Message]) -> list[Message]:
    """The rule of the present engine."""
    rest, out, sent, changed = list(messages), list[Message](), set[str](), False
    while rest:
        message = rest.pop(0)
        if message["role"] == "user":
            out.append(message)
        elif message["role"] == "toolResult":
            changed = True
        else:
            ready, done = prepared(message, sent)
            changed = changed or done
            if ready is not None:
                wanted = ids(ready)
                sent |= set(wanted)
                out.append(ready)
                changed = (bool(wanted) and answered(ready, wanted, rest, sent, out)) or changed
    return out if changed else messages


def answered(
    caller: Message, wanted: list[str], rest: list[Message], sent: set[str], out: list[Message]
) -> bool:
    """Steps 4 to 7 of a message that was just sent; whether anything but its own place is changed."""
    changed = False
    new = [at for at, one in enumerate(rest) if set(ids(one)) - sent]
    end = new[0] if new else len(rest)
    span, rest[:end] = rest[:end], []
    got: dict[str, Message] = {}
    kept: list[Message] = []
    for one in span:
        if one["role"] == "toolResult":
            changed = taken(one, wanted, got) or changed
        else:
            ready, done = prepared(one, sent) if one["role"] == "assistant" else (one, False)
            changed = changed or done
            kept += [] if ready is None else [ready]
    changed = changed or bool(got and kept)
    if rest and set(ids(rest[0])) & sent:
        known = sent | set(ids(rest[0]))
        until = next((at for at in range(1, len(rest)) if set(ids(rest[at])) - known), len(rest))
        for one in [one for one in rest[1:until] if one.get("toolCallId") in wanted]:
            remove(rest, one)
            taken(one, wanted, got)
            changed = True
    for name in wanted:
        if name not in got or is_made_up(got[name]):
            later = [one for one in rest[1:] if one.get("toolCallId") == name]
            real = [one for one in later if not is_made_up(one)]
            if real or (later and name not in got):
                got[name] = (real or later)[0]
                remove(rest, got[name])
                changed = True
    out += [got.get(name) or made_up(caller, name) for name in wanted] + kept
    return changed or len(got) < len(wanted)


def taken(one: Message, wanted: list[str], got: dict[str, Message]) -> bool:
    """Take a result for its call; whether one was dropped."""
    name = one["toolCallId"]
    if name in wanted and name not in got:
        got[name] = one
        return False
    if name in wanted and is_made_up(got[name]) and not is_made_up(one):
        got[name] = one
    return True


def remove(messages: list[Message], one: Message) -> None:
    del messages[next(at for at, other in enumerate(messages) if other is one)]


def paired_as_0_1(messages: list[Message]) -> list[Message]:
    out, answered, changed, at = [], set[str](), False, 0
    while at < len(messages):
        message = messages[at]
        at += 1
        if message["role"] == "toolResult":
            changed = True
            continue
        out.append(message)
        said = message["content"] if message["role"] == "assistant" else []
        calls = [
            block
            for block in said
            if kind(block) in ("toolCall", "toolUse", "functionCall") and is_word(block.get("id"))
        ]
        if not calls:
            continue
        span = []
        while at < len(messages) and messages[at]["role"] != "assistant":
            span.append(messages[at])
            at += 1
        names = [block["id"] for block in calls]
        results = [one for one in span if one["role"] == "toolResult"]
        others = [one for one in span if one["role"] != "toolResult"]
        mine = [one for one in results if one["toolCallId"] in names]
        changed = changed or len(mine) < len(results) or bool(mine and others)
        for name in names:
            first = next((one for one in mine if one["toolCallId"] == name), None)
            changed = changed or first is None or name in answered
            if name not in answered:
                out.append(first or made_up(message, name))
            answered.add(name)
        out += others
    return out if changed else messages


# -- The final clamp ---------------------------------------------------------------------------------------


def clamped(messages: list[Message], budget: int, *, early: bool, delivered: bool) -> list[Message]:
    """The rule of 0.15.3; *early*: that of 1.0."""
    goal = max(1, budget * 9 // 10)
    if sum(one["weight"] for one in messages) <= (budget * 9 // 10 if early else budget):
        return messages
    left = messages[-1:]
    for one in reversed(messages[:-1]):
        if sum(other["weight"] for other in left) + one["weight"] > goal:
            break
        left = [one, *left]
    while len(left) > 1 and left[0]["role"] == "toolResult":
        left = left[1:]
    if not any(one["role"] == "user" for one in left):
        users = [one for one in messages[: len(messages) - len(left)] if one["role"] == "user"]
        left = users[-1:] + left
    ended = list(left)
    while ended and ended[-1]["role"] == "assistant" and not (delivered and says(ended[-1])):
        ended.pop()
    return ended if ended or delivered else left


def clamped_by_turns(messages: list[Message], budget: int, *, delivered: bool) -> list[Message]:
    """The rule of 1.1; a result of the host may have the role ``tool``."""
    rest = without_orphans(messages)
    goal = budget * 9 // 10
    if sum(one["weight"] for one in rest) <= goal:
        return rest
    kept = {len(rest) - 1}
    while min(kept) > 0 and sum(rest[at]["weight"] for at in {*kept, min(kept) - 1}) <= goal:
        kept.add(min(kept) - 1)
    known = -1
    while known != len(kept):
        known = len(kept)
        wanted = {name for at in kept for name in of_exchange(rest[at])}
        kept |= {at for at, one in enumerate(rest) if wanted & set(of_exchange(one))}
    roles = [one["role"] for one in rest]
    begin = [rest[at] for at in sorted(kept)]
    users = [at for at, one in enumerate(begin) if one["role"] == "user"]
    if not users or any(is_exchange(one) for one in begin[: users[0]]):
        kept |= set([at for at in range(min(kept)) if roles[at] == "user"][-1:])
    leading = next((at for at, role in enumerate(roles) if role not in ("system", "developer")), len(rest))
    left = [rest[at] for at in sorted(kept | set(range(leading)))]
    ended = list(left)
    while ended and ended[-1]["role"] == "assistant" and not (delivered and says(ended[-1])):
        ended.pop()
    left = ended if ended or delivered else left
    left = [{**one, "role": "toolResult"} if one["role"] == "tool" else one for one in left]
    last = left[-1:] if left and left[-1]["role"] == "assistant" else []
    return without_orphans(paired(left[: len(left) - len(last)]) + last)


def without_orphans(messages: list[Message]) -> list[Message]:
    first = next((at for at, one in enumerate(messages) if one["role"] == "user"), 0)
    head, rest = messages[:first], messages[first:]
    if not any(is_exchange(one) for one in head):
        return messages
    dropped = {name for one in head for name in ids(one)}
    found = [one for one in head if one["role"] in ("system", "developer")]
    for at, one in enumerate(rest):
        again = {name for before in rest[:at] for name in ids(before)}
        if not (one["role"] in ("tool", "toolResult") and one.get("toolCallId") in dropped - again):
            found.append(one)
    return found


def is_exchange(message: Message) -> bool:
    return message["role"] in ("tool", "toolResult") or bool(ids(message))


def of_exchange(message: Message) -> list[str]:
    answers = message["role"] in ("tool", "toolResult") and is_word(message.get("toolCallId"))
    return [message["toolCallId"]] if answers else ids(message)


def measured(message: Message) -> int:
    """What the engines from 1.0.0 on say that a message weighs."""
    bare = {key: value for key, value in message.items() if key != "__openclaw"}
    whole, payloads = compact(bare), 0
    for text in opaque(bare, ""):
        whole, payloads = whole.replace(compact(text), compact("[opaque binary payload]"), 1), payloads + 1
    tokens = -(-quarters(whole) // 4) + 1_600 * payloads
    if message["role"] not in ("tool", "toolResult") and message.get("type") != "toolResult":
        return tokens
    content, parts = message.get("content"), 0
    if isinstance(content, list):
        for one in content:
            plain = kind(one) == "text" and isinstance(one.get("text"), str)
            text = one if isinstance(one, str) else one["text"] if plain else compact(one)
            parts += (0 if isinstance(one, str) else 6) + 2 * -(-quarters(text) // 4)
    else:
        parts = 2 * -(-quarters(content if isinstance(content, str) else compact(content)) // 4)
    name = next((message[key] for key in ("toolName", "tool_name") if key in message), None)
    named = 0 if name is None else (4 * -(-quarters(compact(name)) // 4) + 2) // 3
    return max(tokens, -(-12 * (12 + parts + named) // 10))


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def quarters(text: str) -> int:
    """Without ideographs and what is above U+FFFF."""
    return len(text)


def opaque(value: Any, key: str) -> list[str]:
    if isinstance(value, str):
        keys = ("data", "image", "imageData", "image_data", "base64", "bytes", "source")
        packed = re.fullmatch(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9+/=]+", value[:512]) and key in keys
        return [value] if len(value) >= 4_096 and (packed or value.startswith("data:")) else []
    if isinstance(value, dict):
        return [one for name, inner in value.items() for one in opaque(inner, name)]
    return [one for inner in value for one in opaque(inner, "")] if isinstance(value, list) else []


def says(message: Message) -> bool:
    if isinstance(message["content"], str):
        return bool(message["content"].strip(BLANKS))
    quiet = ("thinking", "reasoning", "redacted_thinking")
    return any(kind(block) not in quiet and not is_blank_text(block) for block in message["content"])
