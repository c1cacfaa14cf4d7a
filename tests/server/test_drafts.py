"""A server whose engine speculates: the same answers, and counters of drafts. On a tiny model."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from client import Server

TENON, DATA = sys.argv[1:3]
MODEL = os.path.join(DATA, "golden", "llama", "model.gguf")
REQUEST = {"prompt": "abcabcabc", "max_tokens": 60, "ignore_eos": True, "n": 3, "temperature": 1, "seed": 5, "logprobs": 2}


def choices(server):
    status, answer = server.post("/v1/completions", REQUEST)
    assert status == 200, answer
    return answer["choices"]


class Drafts(unittest.TestCase):
    def test_answers_and_counters(self):
        with Server(TENON, MODEL) as server:
            plain = choices(server)
            self.assertEqual(server.metric("draft_tokens_total"), 0)
        for drafter in ("ngram", MODEL):
            with Server(TENON, MODEL, "--draft", drafter, "--draft-k", "3") as server:
                self.assertEqual(choices(server), plain)
                drafted, accepted = server.metric("draft_tokens_total"), server.metric("draft_accepted_tokens_total")
                self.assertGreater(drafted, 0)
                self.assertLessEqual(accepted, drafted)
                name = 'draft_position_%stokens_total{position="%d"}'
                self.assertEqual(sum(server.metric(name % ("", i)) for i in range(3)), drafted)
                if accepted:
                    self.assertGreater(server.metric(name % ("accepted_", 0)), 0)
                if drafter == MODEL:
                    self.assertGreater(accepted, drafted * 0.9)
                    self.assertGreater(server.metric("draft_seconds_total"), 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
