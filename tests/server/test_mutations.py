"""Valid requests of every API with parts of them exchanged, dropped or doubled: never a crash, never a 5xx, and an answer
only to what is understood. Usage: test_mutations.py TENON DATA"""
import copy
import json
import os
import random
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from parrots import SCHEMA, parrot_server

TENON = sys.argv[1]
ROUNDS = 2500
TEMPLATE = ("{# <tool_call> <think> </think> #}{% for t in tools or [] %}tool {{ t.function.name }};{% endfor %}"
            "{% for m in messages %}{{ m.role }}: {{ m.content }}{% for c in m.tool_calls %}"
            " calls {{ c.function.name }} {{ c.function.arguments | tojson }}{% endfor %};{% endfor %}")
FUNCTION = {"name": "add", "description": "d", "parameters": SCHEMA}
BODIES = {
    "/v1/chat/completions": {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]},
                     {"role": "assistant", "content": None, "tool_calls": [
                         {"id": "x", "type": "function", "function": {"name": "add", "arguments": "{\"a\": 1}"}}]},
                     {"role": "tool", "tool_call_id": "x", "content": "2"}],
        "tools": [{"type": "function", "function": FUNCTION}], "max_tokens": 6, "stop": ["zz"], "stream": True,
        "tool_choice": {"type": "function", "function": {"name": "add"}}, "stream_options": {"include_usage": True},
        "logit_bias": {"5": 1}, "logprobs": True, "top_logprobs": 2, "temperature": 0, "n": 2},
    "/v1/completions": {"prompt": ["ab", "cd"], "max_tokens": 3, "logprobs": 2, "echo": True, "stop": "zz",
                        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}},
    "/v1/responses": {
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
                  {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm"}]},
                  {"type": "function_call", "call_id": "c", "name": "add", "arguments": "{}"},
                  {"type": "function_call_output", "call_id": "c", "output": "2"}],
        "tools": [{"type": "function", **FUNCTION}], "tool_choice": {"type": "function", "name": "add"},
        "text": {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA}}, "reasoning": {"effort": "none"},
        "include": ["message.output_text.logprobs"], "top_logprobs": 2, "max_output_tokens": 6, "stream": True},
    "/v1/messages": {
        "messages": [{"role": "user", "content": "hi"},
                     {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm", "signature": ""},
                                                       {"type": "tool_use", "id": "x", "name": "add", "input": {"a": 1}}]},
                     {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": [
                         {"type": "text", "text": "2"}]}, {"type": "text", "text": "now"}]}],
        "system": [{"type": "text", "text": "be kind"}], "max_tokens": 6, "stop_sequences": ["zz"],
        "tools": [{"name": "add", "input_schema": SCHEMA}], "tool_choice": {"type": "tool", "name": "add"},
        "thinking": {"type": "enabled", "budget_tokens": 2000}, "stream": True,
        "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
}
BODIES["/v1/messages/count_tokens"] = {name: BODIES["/v1/messages"][name] for name in ("messages", "system", "tools")}
ODD = [None, True, False, 0, -1, 1.5, 1e300, 2 ** 53, "", "x", "auto", "none", "function", "text", "json_schema", [], {}, [[]],
       [None], {"type": None}, {"type": "text"}, {"type": "text", "text": 3}, ["x"] * 5, {"": {}}]


def places(value, path=()):
    """The path of every value inside a body."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield path + (key,)
        yield from places(inner, path + (key,))


def mutate(body, dice):
    body = copy.deepcopy(body)
    for _ in range(dice.choice((0, 1, 1, 1, 2, 3))):
        *way, last = dice.choice(list(places(body)) or [("x",)])
        at = body
        for key in way:
            at = at[key]
        kind = dice.randrange(4)
        if kind == 0 or last not in (at if isinstance(at, dict) else range(len(at))):
            if isinstance(at, list):
                at.append(copy.deepcopy(dice.choice(ODD)))
            else:
                at[last] = copy.deepcopy(dice.choice(ODD))
        elif kind == 1:
            at[last] = copy.deepcopy(dice.choice(ODD))
        elif kind == 2:
            del at[last]
        else:
            *other, key = dice.choice(list(places(body)))
            inner = body
            for step in other:
                inner = inner[step]
            at[last] = copy.deepcopy(inner[key])
    return body


def main():
    dice = random.Random(1)
    seen = {}
    with tempfile.TemporaryDirectory() as folder:
        with parrot_server(TENON, folder, TEMPLATE, ["<think>", "Hm", "</think>", "I add", "."]) as server:
            for _ in range(ROUNDS):
                path = dice.choice(list(BODIES))
                body = mutate(BODIES[path], dice)
                status, _, answer = server.ask("POST", path, body)
                seen[status] = seen.get(status, 0) + 1
                assert status in (200, 400, 429), (path, status, json.dumps(body), answer)
                if status != 200:
                    assert json.loads(answer)["error"]["message"], answer
            assert server.metric("kv_pages_used") == 0
    assert seen[200] > ROUNDS / 20 and seen[400] > ROUNDS / 4, seen


if __name__ == "__main__":
    main()
