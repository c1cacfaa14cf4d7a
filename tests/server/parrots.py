"""Servers whose model is a parrot: it answers with a chosen text, piece by piece."""
import json
import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "e2e")]
import parrot
from client import Server

# A template that shows all it is given, and an answer of reasoning, text and a call.
TEMPLATE = ("{# <tool_call> <think> </think> #}{% for t in tools or [] %}tool {{ t.function.name }};{% endfor %}"
            "{% for m in messages %}{{ m.role }}: {{ m.reasoning_content }}{{ m.content }}{% for c in m.tool_calls %}"
            " calls {{ c.function.name }} {{ c.function.arguments | tojson }}{% endfor %};{% endfor %}"
            "{% if enable_thinking is defined %}thinks {{ enable_thinking }}{% endif %}")
CALL = ["<tool_call>", '\n{"name": "add", "arguments": {"a": ', "1}}", "\n</tool_call>"]
SCRIPT = ["<think>", "Hm", ".</think>", "I add", ".\n", *CALL]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


def parrot_server(tenon, folder, template, script, *options):
    """A server of a parrot whose file lies in the folder."""
    model = os.path.join(folder, "parrot.gguf")
    parrot.write(model, template, script)
    return Server(tenon, model, *options)


class OnParrot(unittest.TestCase):
    """Tests that share one such server."""
    tenon, template, script = sys.argv[1], TEMPLATE, SCRIPT

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.server = parrot_server(cls.tenon, cls.folder.name, cls.template, cls.script)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0
        cls.folder.cleanup()

    def good(self, body, path):
        status, answer = self.server.post(path, body)
        self.assertEqual(status, 200, answer)
        return answer

    def named_events(self, path, body):
        """The events of a streamed answer, each checked to bear the name of its type."""
        status, headers, data = self.server.ask("POST", path, {**body, "stream": True})
        self.assertEqual((status, headers["content-type"]), (200, "text/event-stream"), data)
        events = []
        for event in data.decode().split("\n\n")[:-1]:
            name, line = event.split("\n")
            events.append(json.loads(line[6:]))
            self.assertEqual((name, line[:6]), ("event: " + events[-1]["type"], "data: "))
        return events
