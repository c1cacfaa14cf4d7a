"""Connections that misbehave, hang up, don't read or last; a full queue; stopping under load. On a tiny model."""
import json
import os
import select
import socket
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from client import Connection, Server, events, until

TENON, DATA = sys.argv[1:3]
MODEL = os.path.join(DATA, "golden", "llama", "model.gguf")
TEXT = "/v1/completions"
LONG = {"prompt": "ab", "max_tokens": 230, "ignore_eos": True, "n": 64, "temperature": 1}
# A large body all but its last byte.
HALF = b"POST /tokenize HTTP/1.1\r\nHost: test\r\nContent-Length: 1000000\r\n\r\n" + b" " * 999999
SHORT = {"prompt": "ab", "max_tokens": 8, "temperature": 0}


class Connections(unittest.TestCase):
    def is_idle(self, server):
        return (server.metric("requests_running") == server.metric("requests_waiting") ==
                server.metric("kv_pages_used") == 0)

    def test_keep_alive(self):
        with Server(TENON, MODEL) as server, server.connect() as connection:
            first = connection.ask("POST", TEXT, SHORT)
            self.assertEqual(first[0], 200)
            self.assertEqual(connection.ask("GET", "/nowhere")[0], 404)
            stream = connection.ask("POST", TEXT, {**SHORT, "stream": True})
            whole = "".join(e["choices"][0]["text"] for e in events(stream[2]))
            self.assertEqual(whole, json.loads(first[2])["choices"][0]["text"])
            self.assertEqual(connection.ask("POST", TEXT, b"nonsense")[0], 400)
            self.assertEqual(connection.ask("POST", TEXT, SHORT)[0], 200)

    def test_hang_up_cancels(self):
        for stream in (True, False):
            with Server(TENON, MODEL, "--device", "reference") as server:
                connection = server.connect()
                connection.send("POST", TEXT, {**LONG, "stream": stream})
                self.assertTrue(until(lambda: server.metric("requests_running") > 0))
                connection.close()
                self.assertTrue(until(lambda: self.is_idle(server)))
                cancelled = server.metric('requests_finished_total{reason="cancelled"}')
                self.assertGreater(cancelled, 32, "stream: %s" % stream)
                self.assertEqual(server.ask("POST", TEXT, SHORT)[0], 200)

    def test_slow_reader_holds_nobody_up(self):
        with Server(TENON, MODEL, "--stop-timeout", "0") as server:
            slow = Connection(server.port, receive_bytes=2048)
            slow.send("POST", TEXT, {**LONG, "stream": True, "logprobs": 20})
            for _ in range(5):
                self.assertEqual(server.ask("POST", TEXT, SHORT)[0], 200)
            self.assertTrue(until(lambda: self.is_idle(server)))
            self.assertEqual(server.ask("POST", TEXT, SHORT)[0], 200)
        slow.close()  # it didn't hold up the end, either

    def test_long_texts_hold_nobody_up(self):
        """More of them than there are threads for HTTP, and meanwhile everybody else is answered."""
        long = json.dumps({"content": "a sentence of several words, and so on; " * 60000}).encode()
        with Server(TENON, MODEL, "--device", "faulty:cpu,delay-ms=20") as server:
            with server.connect() as stream:
                stream.send("POST", TEXT, {**LONG, "stream": True})
                stream.head()
                chunks = stream.chunks()
                connections = [server.connect() for _ in range(8)]
                for connection in connections:
                    connection.send("POST", "/tokenize", long)
                answered, waiting = 0, [connection.socket for connection in connections]
                while len(select.select(waiting, [], [], 0)[0]) < len(waiting):
                    self.assertEqual(server.ask("GET", "/health")[0], 200)
                    self.assertEqual(server.ask("POST", "/tokenize", {"content": "ab"})[0], 200)
                    next(chunks)
                    answered += 1
                self.assertGreater(answered, 5)
                for connection in connections:
                    status, fields = connection.head()
                    self.assertEqual(status, 200)
                    connection.close()

    def test_prompts_far_too_long(self):
        """A single word of megabytes, which takes long to encode, is refused without that."""
        with Server(TENON, MODEL) as server:
            for path, body in ((TEXT, {"prompt": "a" * (8 << 20)}),
                               ("/v1/chat/completions", {"messages": [{"role": "user", "content": " " * (8 << 20)}]})):
                status, answer = server.post(path, body)
                self.assertEqual((status, answer["error"]["code"]), (400, "context_length_exceeded"))
                self.assertIn("more than 66560 tokens; the context holds 256", answer["error"]["message"])

    @unittest.skipIf(b"san_init" in open(TENON, "rb").read(), "sanitizers keep freed memory")
    def test_bodies_are_let_go(self):
        """JSON takes many times its text: it isn't kept while the answer is made, nor once it is over."""
        lists = b"[" + b"[1]," * (1 << 19) + b"[1]]"
        body = b'{"messages": [{"role": "user", "content": "hi"}], "max_tokens": 200, "ignore_eos": true, ' \
               b'"metadata": {"a": %s}}' % lists
        with Server(TENON, MODEL, "--device", "faulty:cpu,delay-ms=200") as server:  # answers last longer than reading
            before = server.resident_mb()
            connections = [server.connect() for _ in range(6)]
            for connection in connections:
                connection.send("POST", "/v1/chat/completions", body)
            self.assertTrue(until(lambda: server.metric("requests_running") == 6))
            self.assertTrue(until(lambda: server.resident_mb() < before + 150, 30), server.resident_mb())
            for connection in connections:
                connection.close()

    def test_too_many_large_bodies(self):
        """What comes in is bounded over all connections; small bodies are always taken."""
        large = json.dumps({"content": "ab " * 300000}).encode()
        with Server(TENON, MODEL, "--max-body", "1") as server:
            halves = []

            def is_full():  # of those that come at the same moment more than needed may be thrown away
                halves.append(server.connect())
                halves[-1].socket.sendall(HALF)
                return server.ask("POST", "/tokenize", large)[0] == 503 and len(halves) >= 20
            self.assertTrue(until(is_full, 60))
            status, fields, _ = server.ask("POST", "/tokenize", large)
            self.assertEqual((status, fields["retry-after"]), (503, "1"))
            self.assertEqual(server.ask("POST", TEXT, SHORT)[0], 200)
            for half in halves:
                half.close()
            self.assertTrue(until(lambda: server.ask("POST", "/tokenize", large)[0] == 200, 20))

    def test_bodies_without_a_key(self):
        """They are thrown away as they come."""
        with Server(TENON, MODEL, "--max-body", "1", "--api-key", "k") as server:
            halves = [server.connect() for _ in range(20)]
            for half in halves:
                half.socket.sendall(HALF)
            time.sleep(0.5)
            large = json.dumps({"content": "ab " * 300000}).encode()
            self.assertEqual(server.ask("POST", "/tokenize", large, ["X-Api-Key: k"])[0], 200)
            for half in halves:
                half.socket.sendall(b" ")
                self.assertEqual(half.head()[0], 401)
                half.close()

    def test_unread_answers_are_cancelled(self):
        with Server(TENON, MODEL) as server, Connection(server.port, receive_bytes=2048) as slow:
            slow.send("POST", TEXT, {**LONG, "prompt": ["a", "b", "c", "d"], "stream": True, "logprobs": 20})
            self.assertTrue(until(lambda: server.metric("requests_running") > 0))
            self.assertTrue(until(lambda: server.metric('requests_finished_total{reason="cancelled"}') > 0))
            self.assertTrue(until(lambda: self.is_idle(server)))

    def test_garbage(self):
        with Server(TENON, MODEL, "--max-body", "1") as server:
            for data in (b"\0" * 100, b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", os.urandom(3000),
                         b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n",
                         b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                         b"GET / HTTP/1.1\r\nX: " + b"a" * 200000 + b"\r\n\r\n",
                         b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n{\"a"):
                with server.connect() as connection:
                    connection.socket.settimeout(2)
                    try:
                        connection.socket.sendall(data)
                        connection.socket.shutdown(socket.SHUT_WR)
                        answer = connection.file.read()
                        self.assertNotIn(answer[:12], (b"HTTP/1.1 200", b"HTTP/1.1 500"), data[:60])
                    except OSError:
                        pass  # closed without a word is an answer, too
            self.assertEqual(server.ask("POST", TEXT, SHORT)[0], 200)
            deep = b'{"prompt":' + b"[" * 100000 + b"]" * 100000 + b"}"
            self.assertEqual(server.ask("POST", TEXT, deep)[0], 400)
            with server.connect() as connection:
                connection.send("POST", TEXT, headers=["Content-Length: 99999999"])
                self.assertEqual(connection.head()[0], 413)
            with server.connect() as connection:  # larger than its head says
                connection.socket.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                                          + b"10000\r\n" + b" " * 65536 + b"\r\n" * 1
                                          + (b"10000\r\n" + b" " * 65536 + b"\r\n") * 17 + b"0\r\n\r\n")
                self.assertEqual(connection.head()[0], 413)

    def test_two_ends_of_a_body(self):
        """They get an error, and what stands behind either end is no request."""
        hidden = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"
        with Server(TENON, MODEL) as server:
            for lengths in ((b"Content-Length: 0", b"Content-Length: %d" % len(hidden)),
                            (b"Content-Length: 2", b"content-length: 2"),
                            (b"Content-Length: 0", b"Transfer-Encoding: chunked"),
                            (b"Transfer-Encoding: chunked", b"Content-Length: 5"),
                            (b"Content-Length : %d" % len(hidden),),
                            (b"Transfer-Encoding : chunked",),
                            (b"Transfer-Encoding: gzip",),
                            (b"Transfer-Encoding: gzip, chunked",)):
                with server.connect() as connection:
                    connection.socket.sendall(b"POST /tokenize HTTP/1.1\r\nHost: a\r\n" + b"\r\n".join(lengths) +
                                              b"\r\n\r\n" + b"0\r\n\r\n" + hidden)
                    status, headers = connection.head()
                    self.assertEqual((status, headers["connection"]), (400, "close"), lengths)
                    rest = connection.file.read()
                    self.assertIn(b"Content-Length", rest)
                    self.assertNotIn(b"HTTP/1.1", rest)

    def test_requests_that_never_come_whole(self):
        with Server(TENON, MODEL, "--idle-timeout", "1") as server:
            drips = (b"GET /health HTTP/1.1\r\nHost: a\r\nX: %s" % (b"y" * 60),
                     b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n" + b" " * 60)
            slow = [server.connect() for _ in drips]
            answers = [b""] * len(drips)
            for at in range(60):  # a byte each tenth of a second is never silent for a second
                for i, connection in enumerate(slow):
                    try:
                        connection.socket.sendall(drips[i][at:at + 1] if at else drips[i][:-60])
                    except ConnectionError:
                        answers[i] = b"closed"
                if all(answers):
                    break
                time.sleep(0.1)
            self.assertEqual(answers, [b"closed"] * len(drips))
            for connection in slow:
                connection.close()
            self.assertTrue(until(lambda: self.comes_slowly(server), 20))

    def comes_slowly(self, server):
        """Whether a request that is slow but comes whole is answered; on a busy machine it may be too slow."""
        with server.connect() as connection:
            try:
                connection.socket.sendall(b"GET /health HTTP/1.1\r\n")
                time.sleep(0.7)
                connection.socket.sendall(b"Host: a\r\n\r\n")
                return connection.head()[0] == 200
            except (ConnectionError, IndexError):
                return False

    def test_full_queue(self):
        with Server(TENON, MODEL, "--parallel", "1", "--queue", "2") as server:
            status, headers, body = server.ask("POST", TEXT, LONG)
            self.assertEqual((status, headers.get("retry-after")), (429, "1"), body)
            self.assertEqual(json.loads(body)["error"]["type"], "rate_limit_error")
            self.assertTrue(until(lambda: self.is_idle(server)))
            self.assertEqual(server.ask("POST", TEXT, SHORT)[0], 200)

    def load(self, server, count):
        """`count` clients with long answers, every second one streamed; a list of their (status, body) at the end."""
        answers = []

        def one(stream):
            status, _, body = server.ask("POST", TEXT, {**LONG, "n": 4, "stream": stream})
            answers.append((status, body))
        clients = [threading.Thread(target=one, args=(i % 2 == 0,)) for i in range(count)]
        for client in clients:
            client.start()
        finished = ["requests_finished_total{reason=\"%s\"}" % reason for reason in ("stop", "length")]
        self.assertTrue(until(lambda: 4 * count <= sum(map(server.metric, ["requests_running", "requests_waiting",
                                                                           *finished]))))
        return clients, answers

    def test_stop_lets_answers_finish(self):
        with Server(TENON, MODEL, "--device", "reference", "--stop-timeout", "60") as server:
            clients, answers = self.load(server, 4)
            self.assertEqual(server.stop(60), 0)
            for client in clients:
                client.join()
            self.assertEqual([status for status, _ in answers], [200] * 4)
            self.assertTrue(all(b"error" not in body for _, body in answers))

    def test_stop_while_bodies_are_read(self):
        """More large ones than could be read in time: those that wait for it are refused at once."""
        body = json.dumps({"content": "a" * (1 << 20)}).encode()
        with Server(TENON, MODEL, "--stop-timeout", "0") as server:
            connections = [server.connect() for _ in range(24)]
            for connection in connections:
                connection.send("POST", "/tokenize", body)
            self.assertTrue(until(lambda: select.select([c.socket for c in connections], [], [], 0)[0]))
            self.assertEqual(server.stop(), 0)
            statuses = [connection.head()[0] for connection in connections]
            for connection in connections:
                connection.close()
            self.assertEqual(set(statuses), {200, 503})

    def test_stop_cuts_in_time(self):
        with Server(TENON, MODEL, "--device", "reference", "--stop-timeout", "0") as server:
            clients, answers = self.load(server, 8)
            begin = time.monotonic()
            self.assertEqual(server.stop(), 0)
            self.assertLess(time.monotonic() - begin, 10)
            for client in clients:
                client.join()
            self.assertEqual(len(answers), 8)
            for status, body in answers:
                whole = status == 200 and (body.endswith(b"[DONE]\n\n") or b"usage" in body)
                self.assertTrue(whole or b'"error"' in body, (status, body[-200:]))
            self.assertTrue(any(b'"error"' in body for _, body in answers))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
