"""Anthropic's /v1/messages and count_tokens, on parrots. Usage: test_messages.py TENON DATA"""
import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from client import Server
from parrots import OnParrot, SCHEMA, SCRIPT, TEMPLATE, parrot_server

TENON, DATA = sys.argv[1:3]
PATH = "/v1/messages"
ADD = {"name": "add", "description": "adds", "input_schema": SCHEMA}


def ask(content="hi", **fields):
    return {"messages": [{"role": "user", "content": content}], "max_tokens": 100, "temperature": 0, **fields}


class Messages(OnParrot):
    def good(self, body, path=PATH):
        return super().good(body, path)

    def stream(self, body):
        return self.named_events(PATH, body)

    def test_numbers_in_arguments(self):
        """All digits of a float; a number beyond 64 bits comes as one."""
        with tempfile.TemporaryDirectory() as folder:
            numbers = "98765432109876543210, \"b\": 47.12345678901234}}"
            server = parrot_server(TENON, folder, TEMPLATE, [piece.replace("1}}", numbers) for piece in SCRIPT])
            schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "number"}}}
            status, answer = server.post(PATH, ask(tools=[{"name": "add", "input_schema": schema}]))
            assert server.stop() == 0
        self.assertEqual((status, answer["content"][-1]["input"]), (200, {"a": 98765432109876543210.0, "b": 47.12345678901234}))

    def refused(self, body, words, status=400, kind="invalid_request_error", path=PATH):
        got, answer = self.server.post(path, body)
        self.assertEqual((got, answer["type"], answer["error"]["type"]), (status, "error", kind), answer)
        self.assertIn(words, answer["error"]["message"])

    def test_whole(self):
        answer = self.good(ask(tools=[ADD]))
        self.assertEqual((answer["type"], answer["role"], answer["stop_reason"]), ("message", "assistant", "tool_use"))
        thinking, text, call = answer["content"]
        self.assertEqual((thinking["type"], thinking["thinking"]), ("thinking", "Hm."))
        self.assertEqual((text["type"], text["text"].strip()), ("text", "I add."))
        self.assertEqual((call["type"], call["name"], call["input"]), ("tool_use", "add", {"a": 1}))
        self.assertGreater(answer["usage"]["input_tokens"], 0)
        self.assertGreater(answer["usage"]["output_tokens"], 8)

    def test_stream_is_the_whole_answer(self):
        for fields in ({"tools": [ADD]}, {}, {"max_tokens": 4}, {"stop_sequences": ["zz", "dd"]}):
            whole, events = self.good(ask(**fields)), self.stream(ask(**fields))
            message = {}
            for event in events:
                kind, index = event["type"], event.get("index")
                if kind == "message_start":
                    message = event["message"]
                elif kind == "content_block_start":
                    self.assertEqual(index, len(message["content"]))
                    message["content"].append(event["content_block"])
                    arguments = ""
                elif kind == "content_block_delta":
                    block, delta = message["content"][index], event["delta"]
                    if delta["type"] == "input_json_delta":
                        arguments += delta["partial_json"]
                    else:
                        name = delta["type"].split("_")[0]
                        block[name] += delta[name]
                elif kind == "content_block_stop" and arguments:
                    message["content"][index]["input"] = json.loads(arguments)
                elif kind == "message_delta":
                    message.update(event["delta"])
                    message["usage"].update(event["usage"])
            kinds = [event["type"] for event in events]
            self.assertEqual((kinds[:2], kinds[-2:]), (["message_start", "ping"], ["message_delta", "message_stop"]))
            self.assertEqual(kinds.count("content_block_start"), kinds.count("content_block_stop"))
            for answer in (whole, message):
                del answer["id"], answer["usage"]
                for block in answer["content"]:
                    block.pop("id", None)
            self.assertEqual(message, whole)

    def test_stop_reasons(self):
        plain = self.good(ask())
        self.assertEqual((plain["stop_reason"], plain["stop_sequence"]), ("end_turn", None))
        self.assertEqual(self.good(ask(max_tokens=4))["stop_reason"], "max_tokens")
        cut = self.good(ask(stop_sequences=["zz", "dd"]))
        self.assertEqual((cut["stop_reason"], cut["stop_sequence"]), ("stop_sequence", "dd"))
        self.assertEqual(cut["content"][-1]["text"], "I a")
        full = self.good(ask("x" * 500, max_tokens=400))
        self.assertEqual(full["stop_reason"], "model_context_window_exceeded")

    def test_prompt(self):
        def prompt(**fields):
            return self.good({"messages": [], **fields}, PATH + "/count_tokens")["input_tokens"]
        turns = [{"role": "user", "content": "hi"},
                 {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm", "signature": ""},
                                                   {"type": "text", "text": "I add"},
                                                   {"type": "tool_use", "id": "x1", "name": "add", "input": {"a": 1}}]},
                 {"role": "user", "content": [
                     {"type": "tool_result", "tool_use_id": "x1", "content": [{"type": "text", "text": "2"}]},
                     {"type": "text", "text": "and", "cache_control": {"type": "ephemeral"}},
                     {"type": "text", "text": "now?"}]}]
        system = [{"type": "text", "text": "be"}, {"type": "text", "text": "kind"}]
        text = ('tool add;system: be\nkind;user: hi;assistant: HmI add calls add {"a": 1};tool: 2;user: and\nnow?;')
        count = prompt(messages=turns, system=system, tools=[ADD])
        self.assertEqual(count, len(text))
        self.assertEqual(prompt(messages=turns, system=[]), prompt(messages=turns))
        self.assertEqual(prompt(messages=turns, system="be\nkind", tools=[ADD], tool_choice={"type": "none"}),
                         len(text) - len("tool add;"))
        usage = self.good({"messages": turns, "system": system, "tools": [ADD], "max_tokens": 1})["usage"]
        self.assertEqual(usage["input_tokens"] + usage["cache_read_input_tokens"], count)
        for kind, more in (("enabled", "thinks True"), ("disabled", "thinks False"), ("adaptive", "")):
            self.assertEqual(prompt(messages=turns[:1], thinking={"type": kind}), len("user: hi;" + more))

    def test_tool_choice(self):
        for choice in ({"type": "any"}, {"type": "tool", "name": "add"}):
            choice["disable_parallel_tool_use"] = True
            answer = self.good(ask(tools=[ADD], tool_choice=choice))
            self.assertEqual([block["type"] for block in answer["content"]], ["tool_use"])
        answer = self.good(ask(tools=[ADD], tool_choice={"type": "none"}))
        self.assertEqual(answer["stop_reason"], "end_turn")

    def test_schema(self):
        schema = {"enum": [1, 22]}
        wanted = {"format": {"type": "json_schema", "schema": schema}}
        self.assertIn(json.loads(self.good(ask(output_config=wanted))["content"][-1]["text"]), (1, 22))

    def test_turns_and_warming(self):
        turns = [{"role": "user", "content": "a"}, {"role": "user", "content": [{"type": "text", "text": "b"}]}]
        count = self.good({"messages": turns}, PATH + "/count_tokens")["input_tokens"]
        self.assertEqual(count, len("user: a\nb;"))
        warm = self.good({"messages": turns, "max_tokens": 0})
        self.assertEqual((warm["content"], warm["stop_reason"], warm["usage"]["output_tokens"]), ([], "max_tokens", 0))

    def test_refused(self):
        status, answer = self.server.post(PATH, ask(thread={"type": "create"}))
        self.assertEqual((status, answer["error"]["details"]), (400, {"error_code": "thread_unsupported_request"}))
        self.refused({"messages": [{"role": "user", "content": "a"}]}, "max_tokens is missing")
        self.refused({"max_tokens": 3}, "messages is missing")
        self.refused({"messages": [{"role": "system", "content": "a"}], "max_tokens": 1}, "role")
        self.refused(ask([{"type": "image", "source": {}}]), "block 0")
        self.refused(ask([{"type": "tool_result", "content": "a"}]), "tool_use_id")
        self.refused(ask(3), "content")
        self.refused(ask(stop_sequences=[""]), "stop_sequences")
        self.refused(ask(colour=1), "unknown field")
        self.refused(ask(tools=[{"type": "web_search_20250305", "name": "web_search"}]), "web_search_20250305")
        self.refused(ask(tool_choice={"type": "sometimes"}), "tool_choice")
        self.refused(ask(tool_choice={"type": "any"}), "no tools")
        self.refused(ask(thinking={"type": "maybe"}), "thinking")
        self.refused(ask(output_config={"effort": "high"}), "effort")
        begun = ask()
        begun["messages"].append({"role": "assistant", "content": "I"})
        self.refused(begun, "last turn")
        self.refused(ask("x" * 600), "512")
        self.refused(b"{", "not JSON")
        self.refused({}, "there is no", 404, "not_found_error", PATH + "/batches")

    def test_keys_and_ids(self):
        model = os.path.join(DATA, "golden", "llama", "model.gguf")
        with Server(TENON, model, "--api-key", "k") as server:
            for headers, status in (((), 401), (("X-Api-Key: k",), 200), (("X-Api-Key: l",), 401),
                                    (("Authorization: Bearer k",), 200)):
                got, fields, body = server.ask("POST", PATH, ask(max_tokens=2), headers)
                self.assertEqual(got, status, body)
                self.assertRegex(fields["request-id"], "^req_")
                if status == 401:
                    self.assertEqual(json.loads(body)["error"]["type"], "authentication_error")
                    self.assertEqual(json.loads(body)["request_id"], fields["request-id"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
