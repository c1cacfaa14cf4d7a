"""The `anthropic` package, unmodified, against the server. Usage: test_anthropic.py TENON DATA"""
import asyncio
import sys
import tempfile
import unittest

import clients

clients.enter()
import anthropic
import pydantic
from client import Server, until

TENON, DATA = sys.argv[1:3]
HI = [{"role": "user", "content": "hi"}]
GREEDY = {"temperature": 0}  # the package no longer names it
ADD = {"name": "add", "description": "adds", "input_schema": {
    "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}


class Pair(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    left: bool
    right: bool


def client_of(server, kind=anthropic.Anthropic, key="none"):
    return kind(base_url="http://127.0.0.1:%d" % server.port, api_key=key, max_retries=0, timeout=60)


class Parrot(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.server = clients.parrot_server(TENON, cls.folder.name)
        cls.messages = client_of(cls.server).messages

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0
        cls.folder.cleanup()

    def ask(self, **fields):
        return self.messages.create(**{"model": "any", "messages": HI, "max_tokens": 100, "extra_body": GREEDY, **fields})

    def test_tools(self):
        answer = self.ask(tools=[ADD], system="be kind")
        self.assertEqual([block.type for block in answer.content], ["thinking", "text", "tool_use", "tool_use"])
        self.assertEqual((answer.stop_reason, answer.content[2].input), ("tool_use", {"a": 1}))
        results = [{"type": "tool_result", "tool_use_id": block.id, "content": "2"} for block in answer.content[2:]]
        again = self.ask(tools=[ADD], system=[{"type": "text", "text": "be kind"}], messages=[
            *HI, {"role": "assistant", "content": answer.content}, {"role": "user", "content": results}])
        self.assertEqual(again.stop_reason, "tool_use")
        forced = self.ask(tools=[ADD], tool_choice={"type": "tool", "name": "add", "disable_parallel_tool_use": True})
        self.assertEqual([block.type for block in forced.content], ["tool_use"])

    def test_stream(self):
        whole = self.ask(tools=[ADD])
        with self.messages.stream(model="any", messages=HI, max_tokens=100, extra_body=GREEDY, tools=[ADD],
                                  thinking={"type": "enabled", "budget_tokens": 1024}) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        self.assertEqual(text, whole.content[1].text)
        self.assertEqual([block.type for block in final.content], [block.type for block in whole.content])
        self.assertEqual((final.content[0].thinking, final.content[2].input), ("Hm.", {"a": 1}))
        self.assertEqual((final.stop_reason, final.usage.output_tokens), ("tool_use", whole.usage.output_tokens))
        kinds = [event.type for event in self.ask(stream=True)]
        self.assertEqual((kinds[0], kinds[-1]), ("message_start", "message_stop"))

    def test_tool_runner(self):
        @anthropic.beta_tool
        def add(a: int) -> str:
            """Adds.

            Args:
                a: what is added
            """
            return str(a + 1)

        runner = client_of(self.server).beta.messages.tool_runner(model="any", messages=HI, max_tokens=100, tools=[add],
                                                                  max_iterations=2)
        answers = list(runner)
        self.assertEqual([answer.stop_reason for answer in answers], ["tool_use"] * 2)
        self.assertGreater(answers[1].usage.input_tokens + answers[1].usage.cache_read_input_tokens,
                           answers[0].usage.input_tokens)

    def test_stops_and_counts(self):
        cut = self.ask(stop_sequences=["dd"])
        self.assertEqual((cut.stop_reason, cut.stop_sequence, cut.content[-1].text), ("stop_sequence", "dd", "I a"))
        self.assertEqual(self.ask(max_tokens=4).stop_reason, "max_tokens")
        count = self.messages.count_tokens(model="any", messages=HI, tools=[ADD]).input_tokens
        usage = self.ask(tools=[ADD]).usage
        self.assertEqual(usage.input_tokens + usage.cache_read_input_tokens, count)


class Tiny(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(TENON, clients.tiny_model(DATA))
        cls.messages = client_of(cls.server).messages

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def test_models(self):
        models = client_of(self.server).models
        name = models.list().data[0].id
        self.assertEqual((models.retrieve(name).display_name, [model.id for model in models.list()]), (name, [name]))

    def test_schema(self):
        answer = self.messages.parse(model="any", messages=HI, max_tokens=100, output_format=Pair)
        self.assertIsInstance(answer.parsed_output, Pair)

    def test_errors(self):
        with self.assertRaises(anthropic.BadRequestError) as caught:
            self.messages.create(model="any", messages=HI, max_tokens=-1)
        self.assertEqual(caught.exception.body["error"]["type"], "invalid_request_error")
        with self.assertRaises(anthropic.BadRequestError):
            self.messages.create(model="any", messages=[{"role": "user", "content": "word " * 400}], max_tokens=5)
        with self.assertRaises(anthropic.NotFoundError):
            client_of(self.server).messages.batches.list()
        with Server(TENON, clients.tiny_model(DATA), "--api-key", "right") as server:
            with self.assertRaises(anthropic.AuthenticationError):
                client_of(server, key="wrong").messages.create(model="any", messages=HI, max_tokens=5)
            client_of(server, key="right").messages.create(model="any", messages=HI, max_tokens=5)

    def test_cancel(self):
        with Server(TENON, clients.tiny_model(DATA), "--device", "reference") as server:
            with client_of(server).messages.stream(model="any", messages=HI, max_tokens=230,
                                                  extra_body={"ignore_eos": True}) as stream:
                next(iter(stream))
            self.assertTrue(until(lambda: server.metric('requests_finished_total{reason="cancelled"}') == 1))
            self.assertTrue(until(lambda: server.metric("kv_pages_used") == 0))

    def test_many_at_once(self):
        async def ask(client, word, stream):
            fields = {"model": "any", "messages": [{"role": "user", "content": word}], "max_tokens": 30, "extra_body": GREEDY}
            if not stream:
                return (await client.messages.create(**fields)).content
            async with client.messages.stream(**fields) as talk:
                return (await talk.get_final_message()).content

        async def everything():
            async with client_of(self.server, anthropic.AsyncAnthropic) as client:
                words = ["word %d" % i for i in range(8)]
                alone = [await ask(client, word, False) for word in words]
                together = await asyncio.gather(*[ask(client, w, i % 2 == 0) for i, w in enumerate(words * 4)])
                return ["".join(b.text for b in a) for a in alone], ["".join(b.text for b in a) for a in together]

        alone, together = asyncio.run(everything())
        self.assertEqual(together, alone * 4)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
