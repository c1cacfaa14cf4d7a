"""curl against the server. Usage: test_curl.py TENON DATA"""
import json
import subprocess
import sys
import tempfile
import time
import unittest

import clients
from client import Server, until

TENON, DATA = sys.argv[1:3]
HI = [{"role": "user", "content": "hi"}]
ADD = {"type": "function", "function": {"name": "add", "parameters": {
    "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}}


def curl(*arguments, status=0):
    run = subprocess.run(["curl", "--silent", "--show-error", "--max-time", "60", *arguments], capture_output=True, text=True,
                         timeout=90)
    assert run.returncode == status, (run.returncode, run.stdout, run.stderr)
    return run.stdout


class Curl(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.parrot = clients.parrot_server(TENON, cls.folder.name)
        cls.tiny = Server(TENON, clients.tiny_model(DATA), "--device", "reference")

    @classmethod
    def tearDownClass(cls):
        assert cls.parrot.stop() == 0 and cls.tiny.stop() == 0
        cls.folder.cleanup()

    def url(self, server, path):
        return "http://127.0.0.1:%d%s" % (server.port, path)

    def test_tools(self):
        body = json.dumps({"messages": HI, "tools": [ADD]})
        answer = json.loads(curl(self.url(self.parrot, "/v1/chat/completions"), "--json", body))
        call = answer["choices"][0]["message"]["tool_calls"][0]
        self.assertEqual(json.loads(call["function"]["arguments"]), {"a": 1})

    def test_stream(self):
        body = json.dumps({"prompt": "ab", "max_tokens": 8, "stream": True})
        lines = curl("--no-buffer", self.url(self.tiny, "/v1/completions"), "-d", body).split("\n\n")
        self.assertEqual(lines[-2:], ["data: [DONE]", ""])
        self.assertTrue(all(json.loads(line[6:])["object"] == "text_completion" for line in lines[:-2]))

    def test_schema(self):
        wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"enum": ["yes", "no"]}}}
        body = json.dumps({"messages": HI, "response_format": wanted})
        answer = json.loads(curl(self.url(self.tiny, "/v1/chat/completions"), "-d", body))
        self.assertIn(json.loads(answer["choices"][0]["message"]["content"]), ("yes", "no"))

    def test_errors(self):
        for path, body, code in (("/v1/completions", "{", 400), ("/v1/completions", '{"prompt": 3}', 400),
                                 ("/nowhere", "{}", 404), ("/v1/models", "{}", 405), ("/v1/messages", "{}", 400)):
            answer, status = curl("--write-out", "\n%{http_code}", self.url(self.tiny, path), "-d", body).rsplit("\n", 1)
            self.assertEqual(int(status), code)
            self.assertIn("message", json.loads(answer)["error"])
        curl("--fail", self.url(self.tiny, "/nowhere"), status=22)

    def test_cancel(self):
        body = json.dumps({"prompt": "ab", "n": 8, "max_tokens": 240, "ignore_eos": True, "stream": True})

        def hangs_up():  # on a busy machine the answer may be whole before
            talk = subprocess.Popen(["curl", "--silent", "--no-buffer", self.url(self.tiny, "/v1/completions"), "-d", body],
                                    stdout=subprocess.PIPE)
            talk.stdout.readline()
            talk.kill()
            talk.wait()
            talk.stdout.close()
            return until(lambda: self.tiny.metric("kv_pages_used") == 0) and \
                self.tiny.metric('requests_finished_total{reason="cancelled"}') > 0
        self.assertTrue(until(hangs_up))
        self.assertTrue(until(lambda: self.tiny.metric("kv_pages_used") == 0))
        curl("--max-time", "0.05", self.url(self.tiny, "/v1/completions"), "-d", body, status=28)
        self.assertTrue(until(lambda: self.tiny.metric("kv_pages_used") == 0))

    def test_unix_socket(self):
        path = self.folder.name + "/tenon.sock"
        with Server(TENON, clients.tiny_model(DATA), "--listen", "unix:" + path):
            answer = json.loads(curl("--unix-socket", path, "http://tenon/v1/completions", "-d", '{"prompt": "ab"}'))
            self.assertEqual(answer["object"], "text_completion")

    def test_many_at_once(self):
        body = json.dumps({"prompt": "ab", "max_tokens": 20, "temperature": 0})
        each = [self.url(self.tiny, "/v1/completions"), "-d", body, "--next", "--silent"]
        alone = json.loads(curl(*each[:-2]))["choices"]
        begin = time.monotonic()
        answers = curl("--parallel", "--parallel-immediate", "--silent", *(each * 16)[:-2])
        self.assertLess(time.monotonic() - begin, 30)
        decoder, at, count = json.JSONDecoder(), 0, 0
        while at < len(answers):
            answer, at = decoder.raw_decode(answers, at)
            self.assertEqual(answer["choices"], alone)
            count += 1
        self.assertEqual(count, 16)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
