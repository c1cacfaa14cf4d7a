"""10,000 requests that nobody should send: bytes that are nearly HTTP, and bodies made from the table of fields, with wrong
types, numbers out of range, unknown names and legal values in odd mixtures. The server never crashes, never answers 500, and
answers 400 to what the table forbids. On a tiny model. Usage: test_fuzz.py TENON DATA [COUNT [SEED]]"""
import json
import os
import random
import re
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from client import Server, until

TENON, DATA = sys.argv[1:3]
COUNT = int(sys.argv[3]) if len(sys.argv) > 3 else 10000
SEED = int(sys.argv[4]) if len(sys.argv) > 4 else 1
MODEL = os.path.join(DATA, "golden", "llama", "model.gguf")
THREADS = 8

PATHS = ["/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize", "/v1/models", "/health", "/metrics", "/",
         "/v1/messages", "/v1/messages/count_tokens", "/v1/responses", "/openapi.json", "/%00", "/v1/../v1/models", "//",
         "/v1/completions?x=%ff", "*", "http://x/health"]
VALID = [b'{"prompt": "ab", "max_tokens": 3}', b'{"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}',
         b'{"prompt": "ab", "max_tokens": 3, "stream": true, "stream_options": {"include_usage": true}}',
         b'{"content": "text"}', b'{"tokens": [1, 2, 3]}']
PIECES = [b"\r\n", b"\n", b"\r", b"\0", b" ", b":", b"\t", b"Content-Length: 5\r\n", b"Content-Length: -1\r\n", b"%",
          b"Content-Length: 99999999999999999999\r\n", b"Transfer-Encoding: chunked\r\n", b"ffffffffffffffff\r\n",
          b"Transfer-Encoding: gzip\r\n", b"Connection: close\r\n", b"Expect: 100-continue\r\n", b"HTTP/1.0", b"HTTP/2.0",
          b"X: " + b"a" * 9000 + b"\r\n", b"\xff\xfe", b"{", b"[" * 3000, b'"', b"\\u0000", b"\\ud800", b"1e999", b"null",
          b"Upgrade: h2c\r\n", b"Host:\r\n", b"Cookie: a=b; c\r\n", b"Authorization: Bearer \xc3\x28\r\n"]


def raw_request(chance):
    body = chance.choice(VALID)
    lines = [b"%s %s HTTP/1.1" % (chance.choice([b"POST"] * 5 + [b"GET", b"PUT", b"HEAD", b"OPTIONS", b"", b"G\0T"]),
                                  chance.choice(PATHS).encode()), b"Host: a"]
    if chance.random() < 0.3:
        at = sorted(chance.randrange(len(body)) for _ in range(2))
        parts = [body[:at[0]], body[at[0]:at[1]], body[at[1]:]]
        lines.append(b"Transfer-Encoding: chunked")
        body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts if part) + b"0\r\n\r\n"
    else:
        lines.append(b"Content-Length: %d" % max(0, len(body) + chance.choice([0] * 8 + [1, -1, 1 << 30])))
    data = bytearray(b"\r\n".join(lines) + b"\r\n\r\n" + body)
    for _ in range(chance.choice([0, 1, 1, 2, 3, 8])):
        at = chance.randrange(len(data))
        kind = chance.randrange(5)
        if kind == 0:
            data[at] = chance.randrange(256)
        elif kind == 1:
            data[at:at] = chance.choice(PIECES)
        elif kind == 2:
            del data[at:at + chance.randrange(1, 12)]
        elif kind == 3:
            data[at:at] = data[chance.randrange(len(data)):][:chance.randrange(40)]
        else:
            del data[at + 1:]
        if not data:
            data = bytearray(b"\0")
    return bytes(data)


def fields_of_table():
    """{path: {field: (type, minimum, maximum, treatment)}} of what `tenon serve --fields` prints."""
    table, path = {}, None
    for line in subprocess.run([TENON, "serve", "--fields"], capture_output=True, text=True, check=True).stdout.splitlines():
        if line.startswith("### "):
            path = line[4:].strip().split(" ")[-1].strip("`")
            table[path] = {}
        match = re.match(r"\| `(\w+)` \| ([^|]*) \| ([^|]*) \| (\w+) \|", line)
        if match and path:
            numbers = re.findall(r"-?[\d.]+(?:e\+?\d+)?", match.group(3))
            least, most = (float(numbers[0]), float(numbers[1])) if len(numbers) == 2 else (None, None)
            table[path][match.group(1)] = (match.group(2).strip(), least, most, match.group(4))
    return table


KINDS = {"integer": (int,), "number": (int, float), "boolean": (bool,), "text": (str,), "object": (dict,), "array": (list,)}
ODD = [0, 1, -1, 2, 3.5, -0.0, 1e308, 1 << 40, True, False, "", "x", "\u0000", "\ud7ff\uffff", "a" * 3000, [], {}, [[]], [1, 2],
       ["a", "b"], [None], {"a": 1}, {"type": "json_object"}, {"type": "text"}, {"include_usage": True}, ["a", 1], [-1], [1 << 50],
       {"1": 5, "2": -100}, {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "integer"}}},
       {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "nonsense"}}}, "root ::= [a-c]+", "root ::= (",
       [{"role": "user", "content": "hi"}], [{"role": "user", "content": [{"type": "text", "text": "x"}]}],
       [{"role": "tool", "content": None}], [{"role": 3}], [{"role": "assistant", "tool_calls": [{}]}],
       [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}}],
       [{"type": "function", "function": {"name": 7}}], "auto", "required", "none", {"type": "function", "function": {"name": "g"}}]


def is_of(kind, value):
    if kind not in KINDS and " or " not in kind:
        return True  # anything
    wanted = tuple(k for word in kind.split(" or ") for k in KINDS.get(word, ()))
    if isinstance(value, bool):
        return bool in wanted
    if isinstance(value, float) and int in wanted and float not in wanted:
        return value == int(value) if abs(value) < 1e300 else False
    return isinstance(value, wanted)


def size_of(value):
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


class Fuzz(unittest.TestCase):
    def each(self, count, one):
        """Runs one(connection-making server, chance) `count` times on several threads; collects what it objects to."""
        objections = []

        def work(number):
            chance = random.Random(SEED * 1000 + number)
            for _ in range(count // THREADS):
                try:
                    one(chance)
                except Exception as fault:  # pylint: disable=broad-except
                    objections.append(repr(fault)[:500])
                    if len(objections) > 10:
                        return
        threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return objections

    def check_end(self, server):
        self.assertIsNone(server.process.poll())
        self.assertEqual(server.ask("GET", "/health")[0], 200)
        self.assertTrue(until(lambda: server.metric("requests_running") == server.metric("kv_pages_used") == 0))
        self.assertEqual(server.metric('http_replies_total{status="5xx"}'), 0, server.log[-5:])

    def test_bytes(self):
        statuses = {}
        with Server(TENON, MODEL, "--idle-timeout", "5") as server:
            def one(chance):
                data = raw_request(chance)
                with server.connect() as connection:
                    answer = b""
                    try:
                        connection.socket.sendall(data)
                        if chance.random() < 0.1:
                            connection.socket.shutdown(1)
                        connection.socket.settimeout(0.02)  # half a request gets no answer
                        answer = connection.socket.recv(400)
                    except (ConnectionError, TimeoutError):
                        pass
                status = answer[9:12]
                statuses[status] = statuses.get(status, 0) + 1
                if status.startswith(b"5") and status != b"505":  # the version of HTTP may be one that isn't spoken
                    raise AssertionError((data, answer))
            self.assertEqual(self.each(COUNT // 2, one), [])
            self.check_end(server)
        self.assertTrue({b"200", b"400", b"404", b"405"} <= set(statuses), statuses)
        print(statuses)

    def test_fields(self):
        table = fields_of_table()
        self.assertLessEqual({"/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize"}, set(table))
        base = {"/v1/chat/completions": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4},
                "/v1/completions": {"prompt": "ab", "max_tokens": 4}, "/tokenize": {"content": "a"},
                "/detokenize": {"tokens": [5]}, "/v1/messages": {"messages": [{"role": "user", "content": "a"}],
                                                                 "max_tokens": 4, "model": "m"},
                "/v1/messages/count_tokens": {"messages": [{"role": "user", "content": "a"}], "model": "m"}}
        statuses = {}
        with Server(TENON, MODEL) as server:
            def one(chance):
                path = chance.choice([path for path in table if path in base])
                body, wrong = dict(base[path]), []
                for name in chance.sample(sorted(table[path]), min(len(table[path]), chance.choice([1, 1, 2, 3, 6]))):
                    kind, least, most, treatment = table[path][name]
                    legal = [v for v in ODD if is_of(kind, v)] if chance.random() < 0.8 else []
                    value = chance.choice(legal or ODD + [None])
                    if least is not None and chance.random() < 0.6:
                        value = chance.choice([least, most, (least + most) / 2] * 3 + [least - 1, most + 1])
                        value = int(value) if "integer" in kind and abs(value) < 1e18 else value
                    if name in ("max_tokens", "max_completion_tokens", "min_tokens", "n", "best_of") and size_of(value) and value > 3:
                        value = 2  # the length of answers isn't what is tried here
                    body[name] = value
                    number = size_of(value)
                    if value is None:
                        continue
                    if treatment == "refused" or not is_of(kind, value) or \
                            (number is not None and least is not None and not least <= number <= most):
                        wrong.append(name)
                if chance.random() < 0.1:
                    name = "field_%d" % chance.randrange(100)
                    body[name] = 1
                    wrong.append(name)
                status, _, answer = server.ask("POST", path, body)
                statuses[status] = statuses.get(status, 0) + 1
                if status not in (200, 400) or (wrong and status == 200):
                    raise AssertionError((path, body, wrong, status, answer[:300]))
                if status == 400 and "error" not in json.loads(answer):
                    raise AssertionError(answer)
            self.assertEqual(self.each(COUNT // 2, one), [])
            self.check_end(server)
        self.assertLessEqual({200, 400}, set(statuses))
        print(statuses)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
