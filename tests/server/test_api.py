"""What the endpoints answer: whole and streamed, fields honoured and refused, errors; on a tiny model."""
import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from client import Server, events, until

TENON, DATA = sys.argv[1:3]
MODEL = os.path.join(DATA, "golden", "llama", "model.gguf")
ROOT = os.path.dirname(os.path.dirname(DATA))
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


def chat(**fields):
    return {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 8, "temperature": 0, **fields}


def text(**fields):
    return {"prompt": "ab", "max_tokens": 12, "temperature": 0, **fields}


class Api(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(TENON, MODEL)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def good(self, path, body):
        status, answer = self.server.post(path, body)
        self.assertEqual(status, 200, answer)
        return answer

    def refused(self, path, body, parameter, words, status=400):
        got, answer = self.server.post(path, body)
        self.assertEqual(got, status, answer)
        error = answer["error"]
        self.assertEqual(set(error), {"message", "type", "param", "code"})
        self.assertEqual(error["param"], parameter, error)
        self.assertIn(words, error["message"])
        return error

    def stream(self, path, body):
        status, headers, data = self.server.ask("POST", path, {**body, "stream": True})
        self.assertEqual((status, headers["content-type"]), (200, "text/event-stream"), data)
        self.assertTrue(data.endswith(b"data: [DONE]\n\n"))
        return events(data)

    def test_chat(self):
        answer = self.good(CHAT, chat())
        choice = answer["choices"][0]
        self.assertEqual((answer["object"], choice["finish_reason"]), ("chat.completion", "length"))
        self.assertEqual(choice["message"]["role"], "assistant")
        usage = answer["usage"]
        self.assertEqual(usage["completion_tokens"], 8)
        self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + 8)
        parts = chat(messages=[{"role": "user", "content": [{"type": "text", "text": "hi"}]}])
        self.assertEqual(self.good(CHAT, parts)["choices"], answer["choices"])
        self.assertEqual(self.good(CHAT, chat(max_tokens=3, max_completion_tokens=8))["choices"], answer["choices"])

    def test_stream_is_the_whole_answer(self):
        for logprobs in (False, True):
            whole = self.good(CHAT, chat(n=2, logprobs=logprobs))
            chunks = self.stream(CHAT, chat(n=2, logprobs=logprobs, stream_options={"include_usage": True}))
            self.assertEqual(chunks[-1]["choices"], [])
            self.assertEqual({k: chunks[-1]["usage"][k] for k in ("prompt_tokens", "completion_tokens")},
                             {k: whole["usage"][k] for k in ("prompt_tokens", "completion_tokens")})
            for index in range(2):
                mine = [c["choices"][0] for c in chunks[:-1] if c["choices"][0]["index"] == index]
                self.assertEqual(mine[0]["delta"], {"role": "assistant", "content": ""})
                self.assertEqual("".join(c["delta"].get("content", "") for c in mine),
                                 whole["choices"][index]["message"]["content"])
                self.assertEqual([c["finish_reason"] for c in mine], [None] * (len(mine) - 1) + ["length"])
                entries = [e for c in mine if c["logprobs"] for e in c["logprobs"]["content"]]
                self.assertEqual(entries, (whole["choices"][index]["logprobs"] or {"content": []})["content"])
        self.assertNotIn("usage", json.dumps(self.stream(CHAT, chat())))

    def test_completions(self):
        both = self.good(TEXT, text(prompt=["ab", "cd"], n=2))
        self.assertEqual([c["index"] for c in both["choices"]], [0, 1, 2, 3])
        for i, prompt in enumerate(("ab", "cd")):
            alone = self.good(TEXT, text(prompt=prompt))
            self.assertEqual(alone["choices"][0]["text"], both["choices"][2 * i]["text"])
            ids = self.good("/tokenize", {"content": prompt, "add_special": True})["tokens"]
            self.assertEqual(self.good(TEXT, text(prompt=ids))["choices"], alone["choices"])
            self.assertEqual(self.good(TEXT, text(prompt=[ids]))["choices"], alone["choices"])
            self.assertEqual(self.good(TEXT, text(prompt=prompt, echo=True))["choices"][0]["text"],
                             prompt + alone["choices"][0]["text"])
        streamed = self.stream(TEXT, text())
        self.assertEqual("".join(c["choices"][0]["text"] for c in streamed), both["choices"][0]["text"])
        self.assertEqual(self.good(TEXT, {"prompt": "ab", "ignore_eos": True})["usage"]["completion_tokens"], 16)

    def test_logprobs_of_the_prompt(self):
        """What lm-eval asks for: each token of a prompt given as ids, the answer's behind them."""
        ids = self.good("/tokenize", {"content": "abc, abc"})["tokens"]
        both = self.good(TEXT, text(prompt=[ids, ids[:5]], echo=True, logprobs=2, max_tokens=1))["choices"]
        for choice, prompt in zip(both, (ids, ids[:5])):
            logprobs = choice["logprobs"]
            for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
                self.assertEqual(len(logprobs[name]), len(prompt) + 1, name)
            self.assertEqual((logprobs["token_logprobs"][0], logprobs["top_logprobs"][0]), (None, None))
            for token, value, top in list(zip(*[logprobs[n] for n in ("tokens", "token_logprobs", "top_logprobs")]))[1:]:
                self.assertTrue(value <= max(top.values()) <= 0)
                if token in top:
                    self.assertEqual(top[token], value)
            for token, offset in zip(logprobs["tokens"], logprobs["text_offset"]):
                self.assertEqual(choice["text"][offset:offset + len(token)], token)
            # each of them is what an answer held to the same tokens says
            for at in (1, len(prompt) - 1):
                bias = {str(prompt[at]): 100}
                told = self.good(TEXT, text(prompt=[prompt[:at]], max_tokens=1, logprobs=0, logit_bias=bias))
                self.assertEqual(told["choices"][0]["logprobs"]["token_logprobs"], [logprobs["token_logprobs"][at]])
        alone = self.good(TEXT, text(prompt=[ids], echo=True, logprobs=2, max_tokens=0))
        self.assertEqual(alone["usage"]["completion_tokens"], 0)
        for name, values in alone["choices"][0]["logprobs"].items():
            self.assertEqual(values, both[0]["logprobs"][name][:-1])
        streamed = self.stream(TEXT, text(prompt=[ids], echo=True, logprobs=2, max_tokens=1))
        self.assertEqual("".join(c["choices"][0]["text"] for c in streamed), both[0]["text"])
        values = [v for c in streamed if c["choices"][0]["logprobs"] for v in c["choices"][0]["logprobs"]["token_logprobs"]]
        self.assertEqual(values, both[0]["logprobs"]["token_logprobs"])

    def test_offsets_of_parts_of_characters(self):
        """Tokens that share a character begin where it does; what follows begins behind it."""
        prompt = "\u00e9\U0001f600 \u6f22 x"
        ids = self.good("/tokenize", {"content": prompt})["tokens"]
        self.assertGreater(len(ids), len(prompt))  # or nothing is shown
        choice = self.good(TEXT, text(prompt=prompt, echo=True, logprobs=0, max_tokens=1))["choices"][0]
        offsets = choice["logprobs"]["text_offset"]
        self.assertEqual(offsets, sorted(offsets))
        self.assertEqual((offsets[-1], offsets[0]), (len(prompt), 0))
        self.assertEqual(set(offsets[:-1]), set(range(len(prompt))))

    def test_echo_of_a_zero_byte(self):
        zero = next(i for i in range(256 + 64) if self.good("/detokenize", {"tokens": [i]})["content"] == "\0")
        got = self.good(TEXT, text(prompt=[zero, zero], echo=True, max_tokens=0))["choices"][0]
        self.assertEqual(got["text"], "\0\0")

    def test_logprobs(self):
        entries = self.good(CHAT, chat(logprobs=True, top_logprobs=3))["choices"][0]["logprobs"]["content"]
        self.assertEqual(len(entries), 8)
        for entry in entries:
            best = entry["top_logprobs"]
            self.assertEqual(len(best), 3)
            self.assertEqual(best[0]["logprob"], entry["logprob"])  # greedy
            self.assertEqual(bytes(entry["bytes"]).decode(), entry["token"])
            self.assertGreaterEqual(best[1]["logprob"], best[2]["logprob"])
        got = self.good(TEXT, text(logprobs=2))["choices"][0]
        lists = got["logprobs"]
        self.assertEqual({len(lists[k]) for k in ("tokens", "token_logprobs", "top_logprobs", "text_offset")}, {12})
        self.assertTrue(all(b >= a for a, b in zip(lists["text_offset"], lists["text_offset"][1:])))

    def test_sampling_and_stop(self):
        hot = chat(temperature=1.5, n=4, max_tokens=20)
        once = self.good(CHAT, {**hot, "seed": 7})
        self.assertEqual(self.good(CHAT, {**hot, "seed": 7})["choices"], once["choices"])
        self.assertNotEqual(self.good(CHAT, {**hot, "seed": 8})["choices"], once["choices"])
        self.assertNotEqual(self.good(CHAT, hot)["choices"], self.good(CHAT, hot)["choices"])
        self.assertEqual(len({c["message"]["content"] for c in once["choices"]}), 4)
        whole = self.good(TEXT, text(prompt="cd", max_tokens=30))["choices"][0]["text"]
        cut = re.search(r"[ -~]{2}", whole).group(0)
        for stop in (cut, ["never there", cut]):
            choice = self.good(TEXT, text(prompt="cd", max_tokens=30, stop=stop))["choices"][0]
            self.assertEqual((choice["text"], choice["finish_reason"]), (whole.split(cut)[0], "stop"))
        first = self.good("/tokenize", {"content": "z"})["tokens"][-1]
        biased = self.good(TEXT, text(max_tokens=3, logit_bias={str(first): 100}))
        self.assertIn("z", biased["choices"][0]["text"])

    def test_dry_and_xtc(self):
        y, z = (self.good("/tokenize", {"content": letter})["tokens"][-1] for letter in "yz")
        plain = text(max_tokens=12, temperature=0, logit_bias={str(z): 100, str(y): 90})  # says nothing but z
        options = {"dry_multiplier": 5, "dry_base": 2, "dry_allowed_length": 1, "dry_sequence_breakers": []}
        said = [self.good(TEXT, dict(plain, **more))["choices"] for more in
                ({}, options, options, dict(options, dry_penalty_last_n=0), dict(options, dry_penalty_last_n=-1))]
        self.assertNotEqual(said[0], said[1])
        self.assertEqual((said[1], said[0]), (said[2], said[3]))
        self.assertEqual(said[1], said[4])
        warm = text(max_tokens=12, temperature=1, seed=3)
        drawn = [self.good(TEXT, dict(warm, **more))["choices"] for more in
                 ({}, {"xtc_probability": 1, "xtc_threshold": 0.001}, {"xtc_probability": 1, "xtc_threshold": 0.001},
                  {"xtc_probability": 1, "xtc_threshold": 1})]
        self.assertNotEqual(drawn[0], drawn[1])
        self.assertEqual((drawn[1], drawn[0]), (drawn[2], drawn[3]))
        self.refused(TEXT, text(dry_base=0), "dry_base", "from 1")
        self.refused(TEXT, text(dry_allowed_length=51), "dry_allowed_length", "to 50")
        self.refused(TEXT, text(dry_sequence_breakers=["a", ""]), "dry_sequence_breakers", "element 1")
        self.refused(TEXT, text(dry_sequence_breakers=[7]), "dry_sequence_breakers", "element 0")
        self.refused(TEXT, text(dry_multiplier=1, dry_sequence_breakers=["a" * 65]), "dry_sequence_breakers", "65 bytes")
        self.refused(TEXT, text(xtc_threshold=2), "xtc_threshold", "from 0 to 1")

    def test_structured(self):
        schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"],
                  "additionalProperties": False}
        wanted = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": schema}}
        choice = self.good(CHAT, chat(max_tokens=100, temperature=1, response_format=wanted))["choices"][0]
        self.assertIn(json.loads(choice["message"]["content"]), ({"a": 1}, {"a": 2}))
        self.assertEqual(choice["finish_reason"], "stop")
        choice = self.good(TEXT, text(grammar='root ::= "yes" | "no"'))["choices"][0]
        self.assertIn(choice["text"], ("yes", "no"))
        self.refused(CHAT, chat(response_format={"type": "xml"}), "response_format", "xml")
        self.refused(CHAT, chat(response_format={"type": "json_schema"}), "response_format", "schema")
        self.refused(CHAT, chat(grammar="root ::= nowhere"), "grammar", "nowhere")

    def test_encoded_bodies(self):
        status, _, body = self.server.ask("POST", TEXT, text(), ["Content-Encoding: gzip"])
        self.assertEqual((status, json.loads(body)["error"]["code"]), (415, "unsupported_encoding"))
        self.assertEqual(self.server.ask("POST", TEXT, text(), ["Content-Encoding: identity"])[0], 200)

    def test_structured_outputs(self):
        schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": False}
        for wanted, expected in (({"json": schema}, r'\{"a": ?[12]\}'), ({"json": json.dumps(schema)}, r'\{"a": ?[12]\}'),
                                 ({"regex": "[a-c]{3}"}, "[a-c]{3}"), ({"choice": ["yes", "no"]}, "yes|no"),
                                 ({"grammar": 'root ::= "x" [0-9]'}, "x[0-9]"), ({"json_object": True}, r"\{.*")):
            said = self.good(TEXT, text(max_tokens=60, temperature=1, structured_outputs=wanted))["choices"][0]["text"]
            self.assertTrue(re.fullmatch(expected, said, re.S) or "object" in str(wanted), (wanted, said))
        for wanted, words in (({}, "expected one"), ({"regex": "a", "choice": ["b"]}, "expected one"),
                              ({"structural_tag": "x"}, "structural_tag"), ({"regex": "("}, "pattern"),
                              ({"grammar": "root ::= ("}, "grammar"), ({"choice": ["a", 3]}, "element 1"),
                              ({"json": {"type": "x"}}, "json_schema"), ({"json_object": False}, "true")):
            self.refused(TEXT, text(structured_outputs=wanted), "structured_outputs", words)
        self.refused(CHAT, chat(structured_outputs={"regex": "a"}, grammar='root ::= "a"'), "structured_outputs", "beside")

    def test_token_ids(self):
        """As vLLM shows them: those of the prompt, and of each choice or event."""
        for path, body in ((TEXT, text(n=2, temperature=1, seed=5)), (CHAT, chat(n=2, temperature=1, seed=5))):
            whole = self.good(path, {**body, "return_token_ids": True})
            self.assertNotIn("token_ids", json.dumps(self.good(path, body)))
            chunks = self.stream(path, {**body, "return_token_ids": True})
            for index, choice in enumerate(whole["choices"]):
                ids = choice["token_ids"]
                self.assertLessEqual(1, len(ids))
                said = choice["text"] if path == TEXT else choice["message"]["content"]
                self.assertTrue(self.good("/detokenize", {"tokens": ids})["content"].strip().startswith(said.strip()))
                mine = [c for c in chunks if c["choices"][0]["index"] == index]
                self.assertEqual([i for c in mine for i in c["choices"][0].get("token_ids", [])], ids)
                holders = [whole, mine[0]] if path == CHAT else [choice, mine[0]["choices"][0]]
                prompt = holders[0]["prompt_token_ids"]
                self.assertEqual(prompt, holders[1]["prompt_token_ids"])
                self.assertEqual(len(prompt), whole["usage"]["prompt_tokens"])
                self.assertNotIn("prompt_token_ids", json.dumps(mine[1:]))
            self.assertEqual(sum(len(c["token_ids"]) for c in whole["choices"]), whole["usage"]["completion_tokens"])
        ids = self.good("/tokenize", {"content": "ab", "add_special": True})["tokens"]
        self.assertEqual(self.good(TEXT, text(return_token_ids=True))["choices"][0]["prompt_token_ids"], ids)

    def test_usage_on_every_event(self):
        options = {"include_usage": True, "continuous_usage_stats": True, "include_obfuscation": False}
        for path, body in ((TEXT, text(n=2)), (CHAT, chat(n=2))):
            chunks = self.stream(path, {**body, "stream_options": options})
            last = chunks.pop()["usage"]
            answered = [0, 0]
            for chunk in chunks:
                usage, index = chunk["usage"], chunk["choices"][0]["index"]
                self.assertEqual(usage["prompt_tokens"], last["prompt_tokens"])
                self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + usage["completion_tokens"])
                self.assertLessEqual(answered[index], usage["completion_tokens"])
                answered[index] = usage["completion_tokens"]
            self.assertEqual(sum(answered), last["completion_tokens"])
            alone = self.stream(path, {**body, "stream_options": {"continuous_usage_stats": True}})
            self.assertNotIn("usage", json.dumps(alone))

    def test_refused(self):
        self.refused(CHAT, chat(functions=[]), "functions", "use tools")
        self.refused(CHAT, chat(colour=1), "colour", "unknown")
        self.refused(CHAT, chat(temperature="hot"), "temperature", "number")
        self.refused(CHAT, chat(temperature=-1), "temperature", "from 0 to 100")
        self.refused(CHAT, chat(max_tokens=0), "max_tokens", "from 1")
        self.refused(CHAT, chat(top_logprobs=2), "top_logprobs", "logprobs")
        self.refused(CHAT, chat(stream_options={"include_usage": True}), "stream_options", "stream")
        self.refused(CHAT, chat(logit_bias={"x": 1}), "logit_bias", "token ids")
        self.refused(CHAT, chat(stop=[""]), "stop", "empty")
        self.refused(CHAT, {"max_tokens": 2}, "messages", "missing")
        self.refused(CHAT, chat(messages=[{"content": "hi"}]), "messages", "role")
        self.refused(CHAT, chat(messages=[{"role": "user", "content": 3}]), "messages", "text parts")
        picture = {"type": "image_url", "image_url": {"url": "data:,"}}
        self.refused(CHAT, chat(messages=[{"role": "user", "content": [picture]}]), "messages", "part 0")
        self.refused(TEXT, text(prompt=[]), "prompt", "prompts")
        self.refused(TEXT, text(prompt=["a", 3]), "prompt", "expected a text")
        self.refused(TEXT, text(prompt=[5, "a"]), "prompt", "token id")
        self.refused(TEXT, text(prompt=[5, 1 << 30]), "prompt", "vocabulary")
        self.refused(TEXT, [], None, "object")
        self.refused(TEXT, b"{", None, "not JSON")
        self.refused(TEXT, b'{"prompt": "\xff"}', None, "not JSON")
        self.refused(TEXT, b'{"prompt": "a\\u0000"}', None, "holds the character \\u0000")
        self.refused("/v1/embeddings", {}, None, "there is no /v1/embeddings", status=404)
        self.refused("/chat/completions", {}, None, "did you mean /v1/chat/completions?", status=404)
        self.refused("/v1/v1/messages", {}, None, "did you mean /v1/messages?", status=404)
        for role in ("function", "human", "", "System"):
            self.refused(CHAT, chat(messages=[{"role": role, "content": "hi"}]), "messages", "role")
        self.refused(TEXT, text(best_of=3), "best_of", "give n alone")
        self.refused(TEXT, text(best_of=2, n=3), "best_of", "give n alone")
        self.refused(TEXT, text(skip_special_tokens=False), "skip_special_tokens", "special tokens")
        self.refused(TEXT, text(grammar='root ::= "a"', ignore_eos=True), "ignore_eos", "grammar")
        self.refused(TEXT, text(logit_bias={"400": 1}), "logit_bias", "vocabulary")
        self.refused(CHAT, chat(messages=[{"role": "user", "content": "hi" * 300}]), "messages", "256")
        self.refused(CHAT, chat(response_format={"type": "json_schema", "json_schema": {"schema": {"type": "x"}}}),
                     "response_format", "must name types")
        self.refused(CHAT, chat(store=True), "store", "nothing is stored")
        error = self.refused(TEXT, text(prompt=[5] * 300), "prompt", "300")
        self.assertIn("256", error["message"])
        self.assertEqual(error["code"], "context_length_exceeded")
        self.assertIn("maximum context length", error["message"])
        error = self.refused(CHAT, chat(grammar="root ::= " + "(" * 5000 + "a" + ")" * 5000), "grammar", "nested")
        self.assertNotEqual(error["code"], "context_length_exceeded")
        self.assertEqual(self.good(TEXT, text(best_of=1))["choices"], self.good(TEXT, text())["choices"])
        self.assertEqual(len(self.good(TEXT, text(n=2, best_of=2))["choices"]), 2)
        self.good(CHAT, chat(messages=[{"role": "developer", "content": "a"}, {"role": "user", "content": "b"}],
                             skip_special_tokens=True))
        self.good(CHAT, chat(user=None, metadata={}, cache_prompt=True, stop=None, n=None))

    def test_kept_of_a_request(self):
        """What an answer repeats is bounded; what it doesn't isn't looked at."""
        much = {"a": "x" * (2 << 20)}
        self.refused("/v1/responses", {"input": "ab", "metadata": much}, None, "larger than 2097152 bytes")
        self.good(CHAT, chat(metadata=much, max_tokens=1))
        self.refused(TEXT, text(stop="x" * 5000), "stop", "at most 4096")

    def test_lengths(self):
        answer = self.good(TEXT, text(max_tokens=200, min_tokens=200, ignore_eos=True))
        self.assertEqual(answer["usage"]["completion_tokens"], 200)

    def test_tokenize(self):
        ids = self.good("/tokenize", {"content": "hello there"})
        self.assertEqual(ids["count"], len(ids["tokens"]))
        self.assertEqual(self.good("/detokenize", {"tokens": ids["tokens"]})["content"].strip(), "hello there")
        self.refused("/detokenize", {"tokens": ["a"]}, "tokens", "token id")
        self.refused("/tokenize", {}, "content", "missing")

    def test_small_endpoints(self):
        status, _, body = self.server.ask("GET", "/health")
        self.assertEqual((status, json.loads(body)), (200, {"status": "ok"}))
        models = json.loads(self.server.ask("GET", "/v1/models")[2])
        self.assertEqual((models["object"], len(models["data"])), ("list", 1))
        self.assertEqual(self.server.ask("HEAD", "/metrics")[0], 200)
        status, headers, body = self.server.ask("GET", TEXT)
        self.assertEqual((status, headers["allow"]), (405, "POST"))
        before = self.server.metric("generation_tokens_total")
        self.good(TEXT, text())
        self.assertEqual(self.server.metric("generation_tokens_total"), before + 12)
        self.assertEqual(self.server.metric("time_to_first_token_seconds_count"),
                         self.server.metric('time_to_first_token_seconds_bucket{le="+Inf"}'))
        self.assertTrue(until(lambda: self.server.metric("kv_pages_used") == 0))  # given back as the step ends

    def test_times_in_metrics(self):
        names = ["%s_seconds_%s" % (name, what) for what in ("count", "sum") for name in
                 ("time_to_first_token", "time_per_output_token", "inter_token_latency", "e2e_request_latency")]
        names.append("engine_device_seconds_total")
        before = {name: self.server.metric(name) for name in names}
        self.good(TEXT, text(max_tokens=1))
        self.good(TEXT, text(max_tokens=21, ignore_eos=True))
        more = {name: self.server.metric(name) - before[name] for name in names}
        self.assertEqual([more[name] for name in names[:4]], [2, 1, 20, 2])
        gaps, rate = more["inter_token_latency_seconds_sum"], more["time_per_output_token_seconds_sum"]
        self.assertAlmostEqual(20 * rate, gaps, delta=0.2 * gaps + 0.01)
        self.assertTrue(0 < more["engine_device_seconds_total"] <= more["e2e_request_latency_seconds_sum"])

    def test_page(self):
        status, headers, body = self.server.ask("GET", "/")
        self.assertEqual((status, headers["content-type"]), (200, "text/html; charset=utf-8"))
        policy = headers["content-security-policy"]
        self.assertIn("default-src 'none'", policy)
        for tag in ("script", "style"):
            inline = re.findall(r"<%s>(.*?)</%s>" % (tag, tag), body.decode(), re.S)
            self.assertEqual(len(inline), 1)
            digest = base64.b64encode(hashlib.sha256(inline[0].encode()).digest()).decode()
            self.assertIn("%s-src 'sha256-%s'" % (tag, digest), policy)
        self.assertNotRegex(body.decode(), r"innerHTML|https?://| on\w+=")

    def test_eight_at_once(self):
        bodies = [text(prompt="word %d" % i, max_tokens=40) for i in range(8)]
        alone = [self.good(TEXT, body)["choices"] for body in bodies]
        with ThreadPoolExecutor(8) as pool:
            together = list(pool.map(lambda body: self.good(TEXT, body)["choices"], bodies * 4))
        self.assertEqual(together, alone * 4)

    def test_log_never_holds_the_text(self):
        self.good(TEXT, text(prompt="SECRETWORD"))
        self.server.ask("GET", "/v1/SECRETPATH")
        self.assertNotIn("SECRET", "".join(self.server.log))
        self.assertTrue(any("path=/v1/completions status=200" in line for line in self.server.log))


BODIES = {CHAT: {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1},
          TEXT: {"prompt": "ab", "max_tokens": 1},
          "/v1/responses": {"input": "hi", "max_output_tokens": 1},
          "/v1/messages": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1},
          "/v1/messages/count_tokens": {"messages": [{"role": "user", "content": "hi"}]},
          "/tokenize": {"content": "ab"}, "/detokenize": {"tokens": [5]}}
WRONG = {"boolean": 3, "integer": 1.5, "number": "x", "string": 3, "object": "x", "array": 3}


class OpenApi(unittest.TestCase):
    """The description, and that the server holds to it, field by field."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server(TENON, MODEL)
        cls.paths = json.loads(cls.server.ask("GET", "/openapi.json")[2])["paths"]

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def schema(self, path):
        return self.paths[path]["post"]["requestBody"]["content"]["application/json"]["schema"]

    def refused(self, path, name, value):
        status, answer = self.server.post(path, {**BODIES[path], name: value})
        self.assertEqual(status, 400, (path, name, value, answer))
        if not path.startswith("/v1/messages"):
            self.assertEqual(answer["error"]["param"], name, (path, name, value, answer))

    def test_paths(self):
        self.assertEqual({path for path, methods in self.paths.items() if "post" in methods}, set(BODIES))
        with open(os.path.join(ROOT, "docs", "server.md"), encoding="utf-8") as file:
            document = file.read()
        for path, methods in self.paths.items():
            self.assertEqual(len(methods), 1)
            for method in methods:
                self.assertIn("`%s %s`" % (method.upper(), path), document)
                if method == "get" and "{" not in path:
                    self.assertEqual(self.server.ask("GET", path)[0], 200)

    def test_bodies(self):
        for path, body in BODIES.items():
            self.assertEqual(self.server.post(path, body)[0], 200, path)
            self.assertFalse(self.schema(path)["additionalProperties"])
            self.refused(path, "colour", 1)
            for name in self.schema(path)["required"]:
                self.assertEqual(self.server.post(path, {**body, name: None})[0], 400)

    def test_fields(self):
        for path in BODIES:
            for name, field in self.schema(path)["properties"].items():
                types = field.get("type", [])
                if types == ["null"]:
                    self.refused(path, name, {})
                elif types:
                    self.refused(path, name, WRONG[types[0]])
                if "null" in types and name not in BODIES[path]:
                    self.assertEqual(self.server.post(path, {**BODIES[path], name: None})[0], 200, (path, name))
                if "minimum" in field:
                    self.refused(path, name, field["minimum"] - 1)
                    self.refused(path, name, field["maximum"] + 1)
                if field.get("minLength") or field.get("minItems"):
                    self.refused(path, name, "" if "minLength" in field else [])
                if "maxItems" in field and field["maxItems"] < 2000:
                    self.refused(path, name, ["x"] * (field["maxItems"] + 1))


class Keys(unittest.TestCase):
    def test_keys(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("# ours\n  first\t\r\n \n#none\nsecond\n")
            file.flush()
            with Server(TENON, MODEL, "--api-key", "third", "--api-key-file", file.name) as server:
                for header, status in (((), 401), (("Authorization: Bearer wrong",), 401),
                                       (("Authorization: Bearer ",), 401), (("Authorization: Bearer firs",), 401),
                                       (("Authorization: Bearer # ours",), 401), (("X-Api-Key: #none",), 401),
                                       (("Authorization: Bearer first",), 200), (("X-Api-Key: second",), 200),
                                       (("authorization: bearer third",), 200)):
                    self.assertEqual(server.ask("GET", "/v1/models", headers=header)[0], status, header)
                self.assertEqual(server.ask("GET", "/health")[0], 200)

    def test_files_that_are_no_keys(self):
        for text, words in (("first second\n", "blanks"), ("# none\n\n", "found none")):
            with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
                file.write(text)
                file.flush()
                run = subprocess.run([TENON, "serve", MODEL, "--port", "0", "--api-key-file", file.name], capture_output=True,
                                     text=True, timeout=20)
            self.assertEqual((run.returncode, run.stdout), (1, ""))
            self.assertIn(words, run.stderr)

    def test_public_addresses(self):
        run = subprocess.run([TENON, "serve", MODEL, "--host", "0.0.0.0", "--port", "0"], capture_output=True,
                             text=True, timeout=20)
        self.assertEqual(run.returncode, 2)
        self.assertIn("--api-key", run.stderr)


class Sizes(unittest.TestCase):
    def steps_and_pages(self, *options):
        with Server(TENON, MODEL, *options) as server:
            status, _ = server.post("/v1/completions", {"prompt": [5] * 100, "max_tokens": 1})
            self.assertEqual(status, 200)
            return server.metric("engine_steps_total"), server.metric("kv_pages")

    def test_chunk_and_kv_memory(self):
        steps, pages = self.steps_and_pages()
        self.assertLess(steps, 5)
        self.assertGreaterEqual(self.steps_and_pages("--chunk", "10")[0], 10)
        self.assertGreater(self.steps_and_pages("--kv-memory", "4")[1], 2 * pages)


class Document(unittest.TestCase):
    def test_fields(self):
        table = subprocess.run([TENON, "serve", "--fields"], capture_output=True, text=True, check=True).stdout
        with open(os.path.join(ROOT, "docs", "server.md"), encoding="utf-8") as file:
            self.assertIn(table, file.read(), "docs/server.md holds what `tenon serve --fields` prints")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
