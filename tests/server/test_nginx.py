"""examples/nginx/tenon.conf with Debian's nginx: streams pass unbuffered, both replicas work, a dead one is skipped, hanging up
reaches the replica. Skipped where there is no nginx."""
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from client import Connection, Server, until

TENON, DATA = sys.argv[1:3]
MODEL = os.path.join(DATA, "golden", "llama", "model.gguf")
EXAMPLE = os.path.join(os.path.dirname(os.path.dirname(DATA)), "examples", "nginx", "tenon.conf")
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
TEXT = "/v1/completions"
MAIN = """
daemon off; pid nginx.pid; error_log stderr error; worker_processes 1; %s
events { worker_connections 256; }
http {
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  include tenon.conf;
}
"""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Nginx(unittest.TestCase):
    def setUp(self):
        if not NGINX:
            self.skipTest("there is no nginx")
        self.replicas = [Server(TENON, MODEL, "--device", "faulty:cpu,delay-ms=20") for _ in range(2)]
        self.port = free_port()
        self.folder = tempfile.TemporaryDirectory()
        with open(EXAMPLE, encoding="utf-8") as file:
            config = file.read()
        ports = {8080: self.port, 8081: self.replicas[0].port, 8082: self.replicas[1].port}
        for shown, real in ports.items():
            self.assertRegex(config, r"(?m)^\s*(listen|server) .*\b%d\b" % shown)
            config = config.replace("listen %d" % shown, "listen 127.0.0.1:%d" % real).replace(":%d " % shown, ":%d " % real)
        for name, text in (("tenon.conf", config), ("nginx.conf", MAIN % ("user root;" if os.geteuid() == 0 else ""))):
            with open(os.path.join(self.folder.name, name), "w", encoding="utf-8") as file:
                file.write(text)
        self.nginx = subprocess.Popen([NGINX, "-p", self.folder.name, "-c", "nginx.conf", "-e", "stderr"],
                                      stderr=subprocess.DEVNULL)
        self.assertTrue(until(lambda: self.nginx.poll() is not None or self.answers()))
        self.assertIsNone(self.nginx.poll())

    def tearDown(self):
        self.nginx.terminate()
        self.nginx.wait(20)
        self.folder.cleanup()
        for replica in self.replicas:
            if replica.process.poll() is None:
                self.assertEqual(replica.stop(), 0)
            else:
                replica.stop()

    def answers(self):
        try:
            with Connection(self.port) as connection:
                return connection.ask("GET", "/health")[0] == 200
        except OSError:
            return False

    def ask(self, number=0):
        with Connection(self.port) as connection:
            status, _, answer = connection.ask("POST", TEXT, {"prompt": "ab", "max_tokens": 6, "temperature": 0})
            return status, json.loads(answer)["choices"][0]["text"] if status == 200 else answer

    def test_streams_pass_unbuffered(self):
        with Connection(self.port) as connection:
            connection.send("POST", TEXT, {"prompt": "ab", "max_tokens": 80, "ignore_eos": True, "stream": True})
            self.assertEqual(connection.head()[0], 200)
            times = [time.monotonic() for _ in connection.chunks()]
        self.assertGreater(len(times), 20)
        # 80 tokens take 1.6 s; of a stream that was held back all would come at the end, or in a few blocks
        self.assertGreater(times[-1] - times[0], 0.4)
        gaps = [after - before for before, after in zip(times, times[1:])]
        self.assertGreater(sum(gap > 0.008 for gap in gaps), 8, gaps)

    def test_both_work_and_a_dead_one_is_skipped(self):
        with ThreadPoolExecutor(8) as pool:
            before = list(pool.map(self.ask, range(24)))
            self.assertEqual({status for status, _ in before}, {200})
            for replica in self.replicas:
                self.assertGreater(replica.metric('requests_finished_total{reason="length"}'), 3)
            self.replicas[0].process.kill()
            self.replicas[0].process.wait()
            after = list(pool.map(self.ask, range(24)))
        self.assertEqual(set(after), set(before))

    def test_a_stopping_one_is_skipped(self):
        with ThreadPoolExecutor(8) as pool:
            asked = [pool.submit(self.ask) for _ in range(80)]
            self.assertTrue(until(lambda: sum(one.done() for one in asked) > 10))
            self.replicas[1].process.terminate()
            self.assertEqual({one.result()[0] for one in asked}, {200})
        self.assertEqual(self.replicas[1].process.wait(20), 0)

    def test_hanging_up_cancels(self):
        with Connection(self.port) as connection:
            connection.send("POST", TEXT, {"prompt": "ab", "max_tokens": 200, "ignore_eos": True, "stream": True})
            connection.head()
        self.assertTrue(until(lambda: sum(r.metric('requests_finished_total{reason="cancelled"}') for r in self.replicas) == 1))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
