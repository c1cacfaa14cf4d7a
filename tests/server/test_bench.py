"""tenon bench serve: its requests, its numbers recomputed from its own records, its files; against a server of this test
whose every answer is known, and against tenon's own."""
import csv
import http.server
import json
import math
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from client import Server

TENON, DATA = sys.argv[1:3]
MODEL = os.path.join(DATA, "golden", "llama", "model.gguf")


class Known(http.server.BaseHTTPRequestHandler):
    """Answers "delay" seconds after the request with "parts" parts, "gap" seconds apart, each of two tokens."""
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    delay, gap, parts, fault = 0.02, 0.002, 5, None
    bodies, paths, keys = [], [], []

    def log_message(self, *_):
        pass

    def whole(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.whole(200, {"data": [{"id": "known"}]})

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def event(self, body, end="\n\n"):
        self.chunk(("data: " + json.dumps(body) + end).encode())

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        number = len(self.bodies)
        self.bodies.append(body)
        self.paths.append(self.path)
        self.keys.append(self.headers["Authorization"])
        if self.fault == "status" and number % 2:
            return self.whole(429, {"error": {"message": "too many"}})
        time.sleep(self.delay)
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        chat = "messages" in body
        try:
            self.chunk(b": a comment\r\n")
            self.event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
            for i in range(self.parts):
                self.event({"choices": [{"index": 0, **({"delta": {"content": "x y"}} if chat else {"text": "x y"})}]},
                           "\r\n\r\n" if i % 2 else "\n\n")
                time.sleep(self.gap)
            if self.fault == "event" and number % 2:
                self.event({"error": {"message": "broken off"}})
            elif self.fault == "cut" and number % 2:
                self.close_connection = True
                return None
            else:
                data = b"data: " + json.dumps({"choices": [], "usage": {
                    "prompt_tokens": 7, "completion_tokens": 2 * self.parts,
                    "prompt_tokens_details": {"cached_tokens": 3}}}).encode() + b"\n\ndata: [DONE]\n\n"
                self.chunk(data[:20])  # events come in pieces, too
                self.chunk(data[20:])
            self.chunk(b"")
        except (ConnectionError, BrokenPipeError):
            self.close_connection = True
        return None


def percentile(values, p):
    values = sorted(values)
    at = p / 100 * (len(values) - 1)
    below = math.floor(at)
    return values[below] + (at - below) * (values[min(below + 1, len(values) - 1)] - values[below])


def most_at_once(requests):
    """How many of the requests were under way at the same time."""
    changes = [(r["sent_ms"], 1) for r in requests] + [(r["sent_ms"] + r["e2el_ms"], -1) for r in requests]
    now = most = 0
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    return most


class Bench(unittest.TestCase):
    def setUp(self):
        self.handler = type("Handler", (Known,), {"bodies": [], "paths": [], "keys": []})
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,)).start()
        self.url = "http://127.0.0.1:%d" % self.server.server_port

    def tearDown(self):
        self.server.shutdown()
        self.server.server_close()

    def run_bench(self, *options, status=0):
        run = subprocess.run([TENON, "bench", "serve", "--url", self.url, "--json", *options], capture_output=True,
                             text=True, timeout=60)
        self.assertEqual(run.returncode, status, run.stderr)
        return json.loads(run.stdout) if run.stdout else run.stderr

    def test_numbers_follow_from_the_records(self):
        goals = {"ttft": 40, "tpot": 2.3, "e2el": 60}
        report = self.run_bench("-n", "30", "-c", "1,4", "--details", "--percentiles", "25,99.9", "--goodput",
                                ",".join("%s:%g" % goal for goal in goals.items()))
        self.assertEqual([p["max_concurrency"] for p in report["results"]], [1, 4])
        for point in report["results"]:
            requests = point["requests"]
            self.assertTrue(point["complete"])
            self.assertEqual((point["completed"], point["failed"], len(requests)), (30, 0, 30))
            self.assertEqual((point["total_input_tokens"], point["total_cached_tokens"], point["total_output_tokens"]),
                             (210, 90, 300))
            times = {"ttft": [r["ttft_ms"] for r in requests], "e2el": [r["e2el_ms"] for r in requests],
                     "itl": [gap for r in requests for gap in r["itl_ms"]],
                     "tpot": [(r["e2el_ms"] - r["ttft_ms"]) / 9 for r in requests]}
            self.assertEqual(len(times["itl"]), 120)
            self.assertGreaterEqual(min(times["ttft"]), 20)
            self.assertGreaterEqual(min(times["e2el"]), 28)
            for request in requests:  # parts that come while the machine is busy come together
                self.assertAlmostEqual(sum(request["itl_ms"]), request["e2el_ms"] - request["ttft_ms"], 2)
            self.assertGreaterEqual(max(sum(request["itl_ms"]) for request in requests), 4)
            self.assertEqual(most_at_once(requests), point["max_concurrency"])
            for name, values in times.items():
                for key, value in (("mean", statistics.mean(values)), ("median", statistics.median(values)),
                                   ("std", statistics.pstdev(values)), ("p25", percentile(values, 25)),
                                   ("p99.9", percentile(values, 99.9))):
                    self.assertAlmostEqual(point["%s_%s_ms" % (key, name)], value, 3, (key, name))
            good = sum(all(times[name][i] <= goal for name, goal in goals.items()) for i in range(30))
            duration = point["duration"]
            self.assertAlmostEqual(point["request_goodput"], good / duration, 3)
            self.assertAlmostEqual(point["output_throughput"], 300 / duration, 3)
            self.assertAlmostEqual(point["total_token_throughput"], 510 / duration, 3)
            self.assertAlmostEqual(point["request_throughput"], 30 / duration, 3)
            last = max(r["sent_ms"] + r["e2el_ms"] for r in requests)
            self.assertLess(abs(1000 * duration - last), 50)

    def test_requests(self):
        self.run_bench("-n", "5", "--warm-up", "0", "--model", "m", "--output-tokens", "9", "--ignore-eos",
                       "--extra", '{"top_k": 3}', "--api-key", "secret", "--seed", "5")
        first = list(self.handler.bodies)
        for body in first:
            self.assertEqual((body["model"], body["max_tokens"], body["temperature"], body["stream"], body["top_k"],
                              body["ignore_eos"], body["stream_options"]),
                             ("m", 9, 0, True, 3, True, {"include_usage": True}))
        self.assertEqual(len({body["messages"][0]["content"] for body in first}), 5)
        self.assertEqual(set(self.handler.paths), {"/v1/chat/completions"})
        self.assertEqual(set(self.handler.keys), {"Bearer secret"})
        for seed, same in (("5", True), ("6", False)):
            self.handler.bodies.clear()
            self.run_bench("-n", "5", "--warm-up", "0", "--model", "m", "--output-tokens", "9", "--ignore-eos",
                           "--extra", '{"top_k": 3}', "--seed", seed)
            self.assertEqual(self.handler.bodies == first, same)
        self.handler.bodies.clear()
        self.run_bench("-n", "40", "-c", "8", "--range", "0.5", "--input-tokens", "40", "--output-tokens", "20",
                       "--prefix-tokens", "10", "--endpoint", "completions", "--tokenizer", MODEL)
        lengths = [body["max_tokens"] for body in self.handler.bodies]
        self.assertTrue(10 <= min(lengths) < 15 and 25 < max(lengths) <= 30, lengths)
        prompts = [body["prompt"] for body in self.handler.bodies]
        counts = [len(json.loads(subprocess.run([TENON, "tokenize", MODEL, "--no-bos", "-p", prompt], check=True,
                                                capture_output=True).stdout)) for prompt in prompts[:6]]
        self.assertTrue(all(25 <= count <= 85 for count in counts), counts)
        self.assertEqual(len({prompt.split()[0] for prompt in prompts}), 1)  # the shared beginning

    def test_arrivals_are_random(self):
        report = self.run_bench("--rate", "400", "-n", "120", "--details")
        point = report["results"][0]
        sent = [r["sent_ms"] for r in point["requests"]]
        gaps = [b - a for a, b in zip(sent, sent[1:])]
        self.assertEqual((point["request_rate"], point["max_concurrency"]), (400, None))
        self.assertTrue(100 < sent[-1] < 3000, sent[-1])  # 300 ms on average
        self.assertGreater(most_at_once(point["requests"]), 4)  # nobody waits for an answer
        # of exponential gaps 39 % are below half their mean, and 13 % above twice; of regular ones none
        mean = statistics.mean(gaps)
        self.assertGreater(sum(gap > 1.5 * mean for gap in gaps), 5)
        self.assertGreater(sum(gap < mean / 2 for gap in gaps), 20)

    def test_faults_are_counted(self):
        for fault, words in (("status", "status 429: too many"), ("event", "broken off"), ("cut", "")):
            self.handler.bodies.clear()
            self.handler.fault = fault
            point = self.run_bench("-n", "10", "--warm-up", "1")["results"][0]
            self.assertEqual((point["completed"], point["failed"]), (5, 5), fault)
            self.assertIn(words, point["first_error"])
        self.handler.fault = None
        self.handler.parts = 0
        self.assertIn("without text", self.run_bench("-n", "2", status=1))
        self.assertIn("without text", self.run_bench("-n", "2", "--warm-up", "0", status=1)["results"][0]["first_error"])
        self.assertIn("127.0.0.1:1", self.run_bench("--url", "http://127.0.0.1:1", status=1))
        for options, words in ((("--dataset", "books"), "sharegpt"), (("--goodput", "itl:3"), "tpot"),
                               (("--rate", "0"), "--rate"), (("--extra", "[]"), "--extra"), (("--dataset", "file"), "--data")):
            self.assertIn(words, self.run_bench(*options, status=2))

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            def write(name, text):
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(text)
                return file.name
            share = write("share.json", json.dumps([
                {"id": "a", "conversations": [{"from": "human", "value": "Ask \u00e4"}, {"from": "gpt", "value": "z" * 80},
                                              {"from": "human", "value": "more"}]},
                {"id": "b", "conversations": [{"from": "human", "value": "alone"}]}, {"id": "c", "conversations": []}]))
            arxiv = write("arxiv.jsonl", '{"article": "Long text", "abstract": "%s"}\n\n{"article_text": ["a", "b"], '
                          '"abstract_text": ["%s"]}\n' % ("q" * 40, "q" * 40))
            own = write("own.jsonl", '{"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": '
                        '"u"}], "output_tokens": 3}\n')
            bad = write("bad.jsonl", '{"prompt": "x"}\n{"prompt": 3}\n')
            for dataset, file, texts, tokens in (("sharegpt", share, {"Ask \u00e4"}, 20),
                                                 ("arxiv", arxiv, {"Long text", "a b"}, 10), ("file", own, {"u"}, 3)):
                self.handler.bodies.clear()
                self.run_bench("--dataset", dataset, "--data", file, "-n", "4", "--warm-up", "0")
                asked = {body["messages"][-1]["content"].split("\n\n")[-1] for body in self.handler.bodies}
                self.assertEqual(asked, texts)
                self.assertEqual({body["max_tokens"] for body in self.handler.bodies}, {tokens})
            self.assertEqual(self.handler.bodies[0]["messages"][0], {"role": "system", "content": "s"})
            self.assertIn("line 2", self.run_bench("--dataset", "file", "--data", bad, status=1))
            self.assertIn("messages", self.run_bench("--dataset", "file", "--data", own, "--endpoint", "completions",
                                                     status=2))
            self.handler.bodies.clear()
            self.run_bench("--dataset", "sonnet", "--prefix-tokens", "60", "-n", "3")
            self.assertIn("poem lines", self.handler.bodies[-1]["messages"][0]["content"])

    def test_written_files_agree(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = {kind: os.path.join(folder, "r." + kind) for kind in ("json", "csv", "html")}
            report = self.run_bench("-n", "6", "-c", "1,2,3", *(word for kind, path in paths.items()
                                                                for word in ("--%s-file" % kind, path)))
            with open(paths["json"], encoding="utf-8") as file:
                self.assertEqual(json.load(file), report)
            with open(paths["csv"], encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
            self.assertEqual(len(rows), 3)
            for row, point in zip(rows, report["results"]):
                point.pop("first_error")
                self.assertEqual(set(row), set(point))
                for key, value in point.items():
                    if value is None:
                        self.assertEqual(row[key], "")
                    else:
                        self.assertAlmostEqual(float(row[key]) / float(value or 1), 1 if value else 0, 4, key)
            with open(paths["html"], encoding="utf-8") as file:
                page = file.read()
            self.assertGreaterEqual(page.count("<svg"), 6)
            self.assertNotRegex(page, r"(?i)<script|https?://(?!127\.0\.0\.1)|nan|inf\b|src=|href=")

    def test_files_that_cannot_be_written(self):
        """They are told of before anything is asked."""
        for kind in ("json", "csv", "html"):
            self.assertIn("/proc/r: cannot", self.run_bench("--%s-file" % kind, "/proc/r", status=1))
        self.assertEqual(self.handler.bodies, [])

    def test_interrupted(self):
        self.handler.gap = 0.1
        for when in (signal.SIGINT, signal.SIGTERM):
            process = subprocess.Popen([TENON, "bench", "serve", "--url", self.url, "--json", "-n", "50", "--warm-up",
                                        "0", "-c", "2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.handler.bodies.clear()
            while len(self.handler.bodies) < 3:  # the third is begun when one has ended
                time.sleep(0.02)
            process.send_signal(when)
            out, errors = process.communicate(timeout=20)
            report = json.loads(out)
            point = report["results"][0]
            self.assertEqual((process.returncode, report["complete"], point["complete"]), (1, False, False))
            self.assertIn("partial", errors)
            self.assertGreater(point["completed"], 0)
            self.assertEqual(point["completed"] + point["failed"] + point["unfinished"], 50)

    def test_tenon(self):
        with Server(TENON, MODEL, "--api-key", "k") as server:
            self.url = "http://127.0.0.1:%d/v1/" % server.port
            self.assertIn("401", self.run_bench(status=1))
            point = self.run_bench("-n", "12", "-c", "4", "--input-tokens", "9", "--output-tokens", "7", "--tokenizer",
                                   MODEL, "--ignore-eos", "--api-key", "k", "--endpoint", "completions")["results"][0]
            self.assertEqual((point["completed"], point["total_output_tokens"]), (12, 84))
            log = subprocess.run([TENON, "bench", "serve", "--url", self.url, "-n", "2", "--api-key", "k",
                                  "--input-tokens", "9", "--output-tokens", "7"], capture_output=True, text=True)
            self.assertRegex(log.stdout, r"1 at once: 2 answered, 0 failed")
            self.assertFalse(re.search(r"\r|\033", log.stderr), "no progress but on a terminal")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
