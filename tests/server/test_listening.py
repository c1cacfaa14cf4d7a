"""Where the server listens and who may read its answers: TLS, unix sockets, pages of other origins.
Usage: test_listening.py TENON DATA"""
import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from client import Server, events, until

TENON, DATA = sys.argv[1:3]
MODEL = os.path.join(DATA, "golden", "llama", "model.gguf")
TEXT = "/v1/completions"
BODY = {"prompt": "ab", "max_tokens": 20, "temperature": 0}


class Listening(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()

    def tearDown(self):
        self.folder.cleanup()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def fails(self, words, *options, status=2, model=MODEL):
        run = subprocess.run([TENON, "serve", model, "--port", "0", *options], capture_output=True, text=True, timeout=20)
        self.assertEqual(run.returncode, status, run)
        self.assertIn(words, run.stderr)

    def make_pair(self):
        """The files of a self-signed certificate of localhost and its key."""
        files = self.path("cert.pem"), self.path("key.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2", "-out", files[0],
                        "-keyout", files[1]], check=True, capture_output=True)
        return files

    def check_answers(self, server):
        """Whole and streamed answers, several on one connection; and hanging up, noticed."""
        with server.connect() as connection:
            status, _, whole = connection.ask("POST", TEXT, BODY)
            self.assertEqual(status, 200)
            _, _, stream = connection.ask("POST", TEXT, {**BODY, "stream": True})
            text = "".join(event["choices"][0]["text"] for event in events(stream))
            self.assertEqual(text, json.loads(whole)["choices"][0]["text"])
        connection = server.connect()
        connection.send("POST", TEXT, {**BODY, "n": 64, "max_tokens": 230, "ignore_eos": True, "stream": True})
        connection.head()
        connection.close()
        self.assertTrue(until(lambda: server.metric('requests_finished_total{reason="cancelled"}') > 0))
        self.assertTrue(until(lambda: server.metric("kv_pages_used") == 0))

    def test_tls(self):
        certificate, key = self.make_pair()
        context = ssl.create_default_context(cafile=certificate)
        with Server(TENON, MODEL, "--device", "reference", "--tls-cert", certificate, "--tls-key", key,
                    tls=context) as server:
            self.check_answers(server)
            with socket.create_connection(("127.0.0.1", server.port)) as plain:
                plain.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
                self.assertNotIn(b"200", plain.recv(100))
            self.assertEqual(server.ask("GET", "/health")[0], 200)
        self.fails("together", "--tls-cert", certificate)
        self.fails("no pair", "--tls-cert", certificate, "--tls-key", certificate)
        self.fails("nowhere", "--tls-cert", certificate, "--tls-key", self.path("nowhere"), status=1)

    def test_unix_socket(self):
        path = self.path("tenon.sock")
        with socket.socket(socket.AF_UNIX) as left_over:
            left_over.bind(path)
        with Server(TENON, MODEL, "--device", "reference", "--listen", "unix:" + path) as server:
            self.assertEqual(server.port, path)
            self.check_answers(server)
            self.fails("in use", "--listen", "unix:" + path, status=1)
            self.assertEqual(server.ask("GET", "/health")[0], 200)
        self.assertFalse(os.path.exists(path))
        first = Server(TENON, MODEL, "--listen", "unix:" + path)
        os.remove(path)
        with Server(TENON, MODEL, "--listen", "unix:" + path) as second:
            self.assertEqual(first.stop(), 0)
            self.assertEqual(second.ask("GET", "/health")[0], 200)
        with open(path, "w", encoding="utf-8") as file:
            file.write("mine")
        self.fails("in use", "--listen", "unix:" + path, status=1)
        self.assertTrue(os.path.exists(path))
        self.fails("expected a path", "--listen", "unix:" + "x" * 200)
        self.fails("unix:PATH", "--listen", "localhost")

    def test_told_before_the_model_is_loaded(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            for words, status, *options in (("port %s: Address already in use" % port, 1, "--port", port),
                                            ("give --api-key", 2, "--host", "0.0.0.0"),
                                            ("--name: the name is empty", 2, "--name", ""),
                                            *(("--cors: \"%s\" given" % origin, 2, "--cors", origin) for origin in
                                              ("", "example.org", "://a", "http://", "http://a/", "http://a,http://b", "http://a b"))):
                self.fails(words, *options, status=status, model=self.path("none.gguf"))

    def test_other_origins(self):
        asks = ("Origin: http://a.example", "Access-Control-Request-Method: POST",
                "Access-Control-Request-Headers: authorization, content-type")
        with Server(TENON, MODEL) as server:
            status, headers, _ = server.ask("OPTIONS", TEXT, headers=asks)
            self.assertFalse([name for name in headers if name.startswith("access-control")])
            self.assertNotIn("access-control-allow-origin", server.ask("POST", TEXT, BODY, asks)[1])
        for origin in ("http://a.example", "*"):
            with Server(TENON, MODEL, "--cors", origin, "--api-key", "k") as server:
                status, headers, _ = server.ask("OPTIONS", TEXT, headers=asks)
                self.assertEqual((status, headers["access-control-allow-origin"]), (204, origin))
                self.assertEqual(headers["access-control-allow-methods"], "POST")
                self.assertEqual(headers["access-control-allow-headers"], "authorization, content-type")
                for key, expected in (("k", 200), ("l", 401)):
                    status, headers, _ = server.ask("POST", TEXT, BODY, ("Authorization: Bearer " + key, *asks))
                    self.assertEqual((status, headers["access-control-allow-origin"]), (expected, origin))
                    self.assertEqual(headers.get("vary"), None if origin == "*" else "Origin")
                self.assertEqual(server.ask("OPTIONS", "/nowhere", headers=asks)[0], 401)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
