"""A device that fails while the server runs: who is affected gets a status from 500 on or an error as the stream's last
event, the others get what they got without faults, /health and the log tell, and it all works again without a restart."""
import json
import os
import re
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from client import Server, events, until

TENON, DATA = sys.argv[1:3]
MODEL = os.path.join(DATA, "golden", "llama", "model.gguf")
TEXT = "/v1/completions"


def body(number):
    return {"prompt": "word %d" % number, "max_tokens": 20, "temperature": 0, "ignore_eos": True, "stream": number % 2 == 0}


def text_of(answer, stream):
    if not stream:
        return json.loads(answer)["choices"][0]["text"]
    return "".join(event["choices"][0]["text"] for event in events(answer))


class Faults(unittest.TestCase):
    def setUp(self):
        with Server(TENON, MODEL) as server:
            self.alone = [text_of(server.ask("POST", TEXT, body(n))[2], n % 2 == 0) for n in range(8)]

    def crowd(self, server, rounds):
        """Eight clients at once, so many rounds; how many answers were right and how many had an error told."""
        right, told, wrong, lock = [0], [0], [], threading.Lock()

        def client(number):
            for _ in range(rounds):
                status, _, answer = server.ask("POST", TEXT, body(number))
                stream = number % 2 == 0 and status == 200
                is_told = status >= 500 or stream and not answer.endswith(b"[DONE]\n\n")
                try:
                    with lock:
                        if is_told:
                            last = events(answer)[-1] if stream else json.loads(answer)
                            assert last["error"]["type"] == "server_error", last
                            told[0] += 1
                        else:
                            assert text_of(answer, stream) == self.alone[number], (number, answer)
                            right[0] += 1
                except Exception as fault:  # pylint: disable=broad-except
                    wrong.append((number, status, repr(fault)[:400]))
        clients = [threading.Thread(target=client, args=(number,)) for number in range(8)]
        for one in clients:
            one.start()
        for one in clients:
            one.join()
        self.assertEqual(wrong, [])
        return right[0], told[0]

    def health(self, server):
        status, _, answer = server.ask("GET", "/health")
        return status, json.loads(answer)["status"]

    def check_end(self, server):
        self.assertTrue(until(lambda: self.crowd(server, 2) == (16, 0), 30))  # it works again
        self.assertTrue(until(lambda: server.metric("kv_pages_used") == server.metric("requests_running") == 0))

    def test_once(self):
        """What fails once is run again; nobody notices."""
        for option in ("fail-execute=40", "fail-synchronize=40", "garbage-execute=40"):
            with Server(TENON, MODEL, "--device", "faulty:cpu," + option) as server:
                self.assertEqual(self.health(server), (200, "ok"))
                self.assertEqual(self.crowd(server, 3), (24, 0), option)
                self.assertTrue(until(lambda: self.health(server) == (200, "degraded"), 5), option)
                self.assertEqual(server.metric("engine_failed_steps_total"), 1)
                self.check_end(server)

    def test_for_a_while(self):
        with Server(TENON, MODEL, "--device", "faulty:cpu,fail-execute=60,fail-count=12") as server:
            right, told = self.crowd(server, 4)
            self.assertEqual(right + told, 32)
            self.assertGreater(told, 0)
            self.assertGreater(right, 16)
            self.assertTrue(until(lambda: self.health(server) == (200, "degraded"), 5))
            self.assertEqual(server.metric('requests_finished_total{reason="error"}'), told)
            causes = [line for line in server.log if re.search(r'stop=error cause="[^"]*execute[^"]*fails', line)]
            self.assertEqual(len(causes), told, server.log[-3:])
            self.check_end(server)

    def test_lost(self):
        """A lost device is opened again; if that fails for a while, requests get errors, and no restart is needed."""
        with Server(TENON, MODEL, "--device", "faulty:cpu,lose-at=60") as server:
            self.assertEqual(self.crowd(server, 3), (24, 0))
            self.check_end(server)
        for count in (1, 3):
            # the number of preparations before the loss isn't known here: of one is tried after the other
            for first in range(2, 40):
                options = "faulty:cpu,lose-at=60,fail-prepare=%d,fail-count=%d" % (first, count)
                try:
                    with Server(TENON, MODEL, "--device", options) as server:
                        right, told = self.crowd(server, 4)
                        self.assertEqual(right + told, 32)
                        self.check_end(server)
                except AssertionError as fault:
                    if "prepare number" not in str(fault):  # it couldn't start
                        raise
                    continue
                break
            self.assertGreater(told, 0, options)

    def test_hang(self):
        """A step that never ends: health says so, whoever waits gets an error, and the server ends in time."""
        answers = {}
        with Server(TENON, MODEL, "--device", "faulty:cpu,delay-ms=600000", "--step-timeout", "1", "--timeout", "1",
                    "--stop-timeout", "0") as server:
            def client(number):
                answers[number] = server.ask("POST", TEXT, body(number))
            whole, stream = (threading.Thread(target=client, args=(number,)) for number in (1, 2))
            whole.start()
            self.assertTrue(until(lambda: self.health(server) == (503, "stalled"), 10))
            self.assertGreater(server.metric("engine_step_seconds"), 1)
            stream.start()
            self.assertTrue(until(lambda: server.metric("requests_waiting") == 1, 10))
            begin = time.monotonic()
            self.assertEqual(server.stop(), 1)
            self.assertLess(time.monotonic() - begin, 10)
            self.assertIn("does not come to an end", "".join(server.log))
            whole.join()
            stream.join()
        status, _, answer = answers[1]
        self.assertEqual((status, json.loads(answer)["error"]["code"]), (504, "stalled"))
        self.assertEqual(events(answers[2][2])[-1]["error"]["code"], "stalled")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
