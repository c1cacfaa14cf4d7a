"""64 clients at once: good ones, ones that hang up, ones that read a byte a second, ones that send garbage; and 2,000 idle
connections. The good ones see no error and get what the same requests got alone, and at the end the server holds what it
held at the start. On a tiny model. Usage: test_load.py TENON DATA [SECONDS [MODEL [serve options]]]; SECONDS of load (4)."""
import json
import os
import random
import resource
import socket
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from client import Connection, Server, events, until

TENON, DATA = sys.argv[1:3]
# What the address sanitizer keeps aside of freed memory is none of the server's.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=8"
SECONDS = float(sys.argv[3]) if len(sys.argv) > 3 else 4
MODEL = sys.argv[4] if len(sys.argv) > 4 else os.path.join(DATA, "golden", "llama", "model.gguf")
OPTIONS = sys.argv[5:]
CLIENTS = 64
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
LONG = {"prompt": "a long one", "max_tokens": 200, "ignore_eos": True, "n": 2, "temperature": 1}


def requests():
    """Different greedy requests, streamed and whole."""
    for i in range(12):
        body = {"max_tokens": 4 + 5 * i % 37, "temperature": 0, "stream": i % 2 == 0, "ignore_eos": i % 4 < 2}
        if i % 3 == 0:
            yield CHAT, {**body, "messages": [{"role": "user", "content": "question %d" % i}], "logprobs": i % 2 == 1}
        else:
            yield TEXT, {**body, "prompt": "number %d %s" % (i, "and more " * i), "n": 1 + i % 2}


def content(answer, stream):
    """What must be equal each time: all but ids and times."""
    if not stream:
        body = json.loads(answer)
        return body["choices"], body["usage"]["completion_tokens"]
    texts = {}
    for event in events(answer):
        if "error" in event:
            raise AssertionError(event)
        choice = event["choices"][0]
        texts.setdefault(choice["index"], []).append((choice.get("delta", {}).get("content") or choice.get("text"),
                                                      choice["finish_reason"]))
    # how the text is cut into events depends on the time; the text and the reason of its end don't
    return {i: ("".join(text or "" for text, _ in parts), parts[-1][1]) for i, parts in texts.items()}


class Crowd:
    def __init__(self, server, alone, end):
        self.server, self.alone, self.end = server, alone, end
        self.faults, self.counts, self.lock = [], {}, threading.Lock()

    def count(self, what):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    def good(self, random):
        with self.server.connect() as connection:  # kept alive
            while time.monotonic() < self.end:
                number = random.randrange(len(self.alone))
                path, body, wanted = self.alone[number]
                status, _, answer = connection.ask("POST", path, body)
                if status != 200 or content(answer, body["stream"]) != wanted:
                    raise AssertionError((number, status, answer[-300:], wanted))
                self.count("good")

    def hanging_up(self, random):
        while time.monotonic() < self.end:
            with self.server.connect() as connection:
                stream = random.random() < 0.7
                connection.send("POST", TEXT, {**LONG, "stream": stream})
                if stream and random.random() < 0.7:
                    connection.socket.recv(random.randrange(1, 4000))
                else:
                    time.sleep(random.random() * 0.02)
            time.sleep(random.random() * 0.04)  # or the queue is full of those whose end isn't noticed yet
            self.count("hung up")

    def slow(self, random):
        with Connection(self.server.port, receive_bytes=2048) as connection:
            connection.send("POST", TEXT, {**LONG, "stream": True, "logprobs": 5})
            got = b""
            while time.monotonic() < self.end:
                got += connection.socket.recv(1)
                time.sleep(min(1, max(0, self.end - time.monotonic())))
            if not b"HTTP/1.1 200 OK".startswith(got[:15]):
                raise AssertionError(got)
            self.count("slow")

    def garbage(self, random):
        while time.monotonic() < self.end:
            with self.server.connect() as connection:
                kind = random.randrange(4)
                if kind == 0:
                    data = random.randbytes(random.randrange(1, 2000))
                elif kind == 1:
                    data = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (
                        TEXT.encode(), random.randrange(1 << 40))
                elif kind == 2:
                    body = bytearray(json.dumps(LONG).encode())
                    body[random.randrange(len(body))] = random.randrange(256)
                    body[random.randrange(len(body))] = random.randrange(256)
                    data = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (
                        TEXT.encode(), len(body), body)
                else:
                    data = b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * random.randrange(3)
                try:
                    connection.socket.sendall(data)
                    time.sleep(random.random() * 0.02)
                except ConnectionError:
                    pass
            self.count("garbage")

    def role(self, number):
        if number % 3 == 0:
            return self.hanging_up
        return self.slow if number % 16 == 1 else self.garbage if number % 8 == 2 else self.good

    def client(self, number):
        try:
            self.role(number)(random.Random(number))
        except Exception as fault:  # pylint: disable=broad-except
            self.faults.append((number, self.role(number).__name__, repr(fault)[:600]))

    def run(self):
        clients = [threading.Thread(target=self.client, args=(number,)) for number in range(CLIENTS)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()


def descriptors(server):
    return len(os.listdir("/proc/%d/fd" % server.process.pid))


def is_idle(server):
    return server.metric("requests_running") == server.metric("requests_waiting") == 0 == server.metric("kv_pages_used")


class Load(unittest.TestCase):
    def test_crowd(self):
        # a queue that those who have hung up can't fill before it is noticed, on a machine that is busy otherwise
        with Server(TENON, MODEL, "--queue", "100000", *OPTIONS) as server:
            alone = []
            for path, body in requests():
                status, _, answer = server.ask("POST", path, body)
                self.assertEqual(status, 200, answer)
                alone.append((path, body, content(answer, body["stream"])))
            Crowd(server, alone, time.monotonic() + 1).run()  # what grows once has grown
            self.assertTrue(until(lambda: is_idle(server)))
            self.assertTrue(until(lambda: descriptors(server) < CLIENTS))
            files, memory = descriptors(server), server.resident_mb()
            crowd = Crowd(server, alone, time.monotonic() + SECONDS)
            crowd.run()
            self.assertEqual(crowd.faults, [])
            self.assertEqual(set(crowd.counts), {"good", "hung up", "slow", "garbage"}, crowd.counts)
            self.assertGreater(crowd.counts["good"], 5)
            self.assertGreater(crowd.counts["hung up"], 5)
            self.assertTrue(until(lambda: is_idle(server)))
            self.assertTrue(until(lambda: descriptors(server) <= files), (descriptors(server), files))
            self.assertLess(server.resident_mb(), memory + 16 + memory / 4)
            self.assertEqual(server.metric('http_replies_total{status="5xx"}'), 0)
            self.assertEqual(server.metric('requests_finished_total{reason="error"}'), 0)
            # two of each that hung up, but those that were answered or left before they were read
            self.assertGreater(server.metric('requests_finished_total{reason="cancelled"}'), crowd.counts["hung up"] / 4)
            for path, body, wanted in alone:  # and it answers as before
                self.assertEqual(content(server.ask("POST", path, body)[2], body["stream"]), wanted)
            print(crowd.counts, "%d files, %.0f MB before, %.0f MB after" % (files, memory, server.resident_mb()))

    def answer_of(self, server, body):
        """Status and body; status 0 if the connection was refused, or ended before a word of an answer."""
        try:
            connection = server.connect()
        except ConnectionError:
            return 0, b""
        with connection:
            try:
                connection.send("POST", TEXT, body)
                status, fields = connection.head()
            except (ConnectionError, IndexError):
                return 0, b""
            try:
                if fields.get("transfer-encoding") == "chunked":
                    return status, b"".join(connection.chunks())
                return status, connection.file.read(int(fields["content-length"]))
            except (ConnectionError, ValueError) as fault:
                return status, b"cut off: " + repr(fault).encode()

    def test_terminated_under_load(self):
        """Each answer that began is whole or ends with an error; the process ends with 0, in time; nobody new gets in."""
        for round_number, options in enumerate((("--stop-timeout", "0"), ("--stop-timeout", "5")) * 2):
            with Server(TENON, MODEL, "--device", "faulty:cpu,delay-ms=2", *options) as server:
                answers, faults, lock = {"whole": 0, "cut": 0}, [], threading.Lock()

                def client(number):
                    stream = number % 2 == 0
                    for _ in range(1000):
                        status, body = self.answer_of(server, {**LONG, "max_tokens": 30, "stream": stream})
                        if not status:
                            return
                        whole = status == 200 and (body.endswith(b"data: [DONE]\n\n") if stream else b'"usage"' in body)
                        with lock:
                            answers["whole" if whole else "cut"] += 1
                            if not whole and (b'"error"' not in body or status not in (200, 503)):
                                faults.append((status, body[-200:]))
                        if not whole:
                            return

                clients = [threading.Thread(target=client, args=(number,)) for number in range(24)]
                for one in clients:
                    one.start()
                self.assertTrue(until(lambda: answers["whole"] > 8 + 3 * round_number))
                begin = time.monotonic()
                self.assertEqual(server.stop(), 0)
                self.assertLess(time.monotonic() - begin, float(options[1]) + 8)
                for one in clients:
                    one.join()
                self.assertEqual(faults, [])
                with self.assertRaises(ConnectionError):
                    server.connect()

    def test_pages_are_free_before_the_next_step(self):
        with Server(TENON, MODEL, "--device", "faulty:cpu,delay-ms=500", *OPTIONS) as server:  # steps of 500 ms
            for stream in (True, False):
                ended = server.metric('requests_finished_total{reason="cancelled"}')
                with server.connect() as connection:
                    connection.send("POST", TEXT, {**LONG, "n": 8, "stream": stream})
                    self.assertTrue(until(lambda: server.metric("kv_pages_used") > 0))
                steps = server.metric("engine_steps_total")
                self.assertTrue(until(lambda: server.metric("kv_pages_used") == 0))
                self.assertLessEqual(server.metric("engine_steps_total"), steps + 1)  # the one that was under way
                self.assertTrue(until(
                    lambda: server.metric('requests_finished_total{reason="cancelled"}') == ended + 8))

    def test_idle_connections(self):
        count = 2000
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if hard != resource.RLIM_INFINITY and hard < count + 200:
            self.skipTest("a process may have %d open files only" % hard)
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + 200), hard))
        with Server(TENON, MODEL) as server:
            before = descriptors(server)
            idle = []
            for _ in range(count):
                one = socket.create_connection(("127.0.0.1", server.port))
                idle.append(one)
            self.assertTrue(until(lambda: descriptors(server) >= before + count))
            for at in range(0, count, 500):
                idle[at].sendall(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
                self.assertIn(b"200", idle[at].recv(100))
            self.assertEqual(server.ask("POST", TEXT, {"prompt": "a", "max_tokens": 5})[0], 200)
            for one in idle:
                one.close()
            self.assertTrue(until(lambda: descriptors(server) <= before + 1))

    def test_connections_past_the_limit(self):
        with Server(TENON, MODEL, "--connections", "8") as server:
            idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(40)]
            for one in idle:
                one.close()
            self.assertTrue(until(lambda: self.health(server) == 200))

    def health(self, server):
        try:
            return server.ask("GET", "/health")[0]
        except (OSError, IndexError):
            return 0


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
