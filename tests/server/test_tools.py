"""Tools and reasoning over HTTP, on parrots: models that answer with chosen texts. Usage: test_tools.py TENON DATA"""
import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from client import events
from parrots import CALL, OnParrot, SCHEMA, SCRIPT, parrot_server

TENON = sys.argv[1]
CHAT = "/v1/chat/completions"
TEMPLATE = ("{# <tool_call> <think> </think> #}{% for t in tools or [] %}tool {{ t.function.name }}\n{% endfor %}"
            "{% for m in messages %}{{ m.role }}: {{ m.reasoning_content }}{{ m.content }}{% for c in m.tool_calls %}"
            " calls {{ c.function.name }} {{ c.function.arguments | tojson }}{% endfor %}\n{% endfor %}")
ADD = {"type": "function", "function": {"name": "add", "parameters": SCHEMA}}


def chat(**fields):
    return {"messages": [{"role": "user", "content": "hi"}], "temperature": 0, "tools": [ADD], **fields}


class Tools(OnParrot):
    template, script = TEMPLATE, [*SCRIPT, "\n", *CALL]

    def good(self, body):
        return super().good(body, CHAT)["choices"][0]

    def stream(self, body):
        status, _, data = self.server.ask("POST", CHAT, {**body, "stream": True})
        self.assertEqual(status, 200, data)
        return [chunk["choices"][0] for chunk in events(data)]

    def refused(self, body, parameter, words):
        status, answer = self.server.post(CHAT, body)
        self.assertEqual(status, 400, answer)
        self.assertEqual(answer["error"]["param"], parameter, answer)
        self.assertIn(words, answer["error"]["message"])

    def check_calls(self, calls, count):
        self.assertEqual(len(calls), count)
        self.assertEqual(len({call["id"] for call in calls}), count)
        for call in calls:
            self.assertEqual((call["type"], call["function"]["name"]), ("function", "add"))
            self.assertEqual(json.loads(call["function"]["arguments"]), {"a": 1})

    def test_whole(self):
        choice = self.good(chat())
        self.assertEqual(choice["finish_reason"], "tool_calls")
        message = choice["message"]
        self.assertEqual((message["content"].strip(), message["reasoning_content"]), ("I add.", "Hm."))
        self.check_calls(message["tool_calls"], 2)
        for body in (chat(tool_choice="none"), chat(tools=[]), chat(tools=None)):
            plain = self.good(body)
            self.assertNotIn("tool_calls", plain["message"])
            self.assertIn("<tool_call>", plain["message"]["content"])
            self.assertEqual(plain["finish_reason"], "stop")
        self.check_calls(self.good(chat(parallel_tool_calls=False))["message"]["tool_calls"], 1)

    def test_stream(self):
        whole, chunks = self.good(chat(logprobs=True)), self.stream(chat(logprobs=True))
        calls, text, reasoning, entries, pieces = [], "", "", [], 0
        for chunk in chunks:
            delta = chunk["delta"]
            text += delta.get("content") or ""
            reasoning += delta.get("reasoning_content", "")
            entries += (chunk["logprobs"] or {"content": []})["content"]
            for call in delta.get("tool_calls", []):
                if call["index"] == len(calls):
                    self.assertEqual(call["function"]["arguments"], "")
                    calls.append(call)
                else:
                    self.assertEqual(set(call), {"index", "function"})
                    pieces += 1
                    calls[call["index"]]["function"]["arguments"] += call["function"]["arguments"]
        self.check_calls(calls, 2)
        self.assertGreater(pieces, 2)  # arguments come while they are written
        self.assertEqual((text, reasoning), (whole["message"]["content"], whole["message"]["reasoning_content"]))
        self.assertEqual([c["finish_reason"] for c in chunks], [None] * (len(chunks) - 1) + ["tool_calls"])
        self.assertEqual(entries, whole["logprobs"]["content"])

    def test_cut_call_is_no_call(self):
        choice = self.good(chat(max_tokens=7))
        self.assertEqual(choice["finish_reason"], "length")
        self.assertNotIn("tool_calls", choice["message"])
        self.assertIn("<tool_call>", choice["message"]["content"])

    def test_required(self):
        for choice in ("required", {"type": "function", "function": {"name": "add"}}):
            answer = self.good(chat(tool_choice=choice, parallel_tool_calls=False))
            self.assertEqual(answer["finish_reason"], "tool_calls")
            self.check_calls(answer["message"]["tool_calls"], 1)

    def test_usage_and_results(self):
        calls = self.good(chat())["message"]["tool_calls"]
        said = {"role": "assistant", "content": None, "reasoning_content": "Hm.", "tool_calls": calls}
        results = [{"role": "tool", "tool_call_id": call["id"], "content": "2"} for call in calls]
        body = chat(messages=[{"role": "developer", "content": "s"}, {"role": "user", "content": "hi"}, said, *results])
        status, answer = self.server.post(CHAT, body)
        self.assertEqual(status, 200, answer)
        prompt = "tool add\nsystem: suser: hiassistant: Hm." + ' calls add {"a": 1}' * 2 + "tool: 2" * 2
        self.assertEqual(answer["usage"]["prompt_tokens"], len(prompt))  # a byte, a token
        self.assertGreater(answer["usage"]["completion_tokens_details"]["reasoning_tokens"], 0)

    def test_refused(self):
        self.refused(chat(tool_choice="always"), "tool_choice", "always")
        self.refused(chat(tool_choice={"type": "function"}), "tool_choice", "names a function")
        self.refused(chat(tool_choice="required", tools=[]), "tool_choice", "no tools")
        self.refused(chat(tool_choice={"type": "function", "function": {"name": "rm"}}), "tool_choice", "no such tool")
        self.refused(chat(tools=[ADD, ADD]), "tools", "twice")
        self.refused(chat(tools=[{"type": "web_search"}]), "tools", "tools[0]")
        self.refused(chat(functions=[ADD["function"]]), "functions", "use tools")
        self.refused(chat(messages=[{"role": "function", "name": "add", "content": "2"}]), "messages", "tool")
        bad = {"type": "function", "function": {"name": "bad", "parameters": {"not": {"type": "object"}}}}
        self.refused(chat(tools=[bad], tool_choice="required"), "tools", "not")
        self.good(chat(tools=[bad]))
        bad["function"]["strict"] = True
        self.refused(chat(tools=[bad]), "tools", "not")
        self.good(chat(tools=[bad], tool_choice="none"))
        bad["function"].update(strict=False, parameters={"type": "string"})
        self.refused(chat(tools=[bad]), "tools", "expected object")
        messages = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9}
        for path, body, words in (("/v1/messages", messages, {"input_schema": {"type": "object", "not": {}}}),
                                  ("/v1/responses", {"input": "hi"}, {"type": "function", "parameters": {"not": {}}})):
            for strict, status in ((False, 200), (True, 400)):
                tool = {"name": "add", "strict": strict, **words}
                self.assertEqual(self.server.post(path, {**body, "tools": [tool]})[0], status, (path, strict))

    def test_arguments_are_an_object(self):
        """Also where the schema would allow something else."""
        tool = {"type": "function", "function": {"name": "add", "parameters": {
            "type": ["string", "object"], "properties": {"a": {"type": "integer"}}, "required": ["a"],
            "additionalProperties": False}}}
        answer = self.good(chat(tools=[tool], tool_choice="required", parallel_tool_calls=False))
        self.check_calls(answer["message"]["tool_calls"], 1)


class NoSyntax(unittest.TestCase):
    def test_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            template = "{% for m in messages %}{{ m.content }}{% endfor %}"
            with parrot_server(TENON, folder, template, ["ok"]) as server:
                status, answer = server.post(CHAT, chat())
                self.assertEqual((status, answer["error"]["code"]), (400, "unsupported_value"), answer)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
