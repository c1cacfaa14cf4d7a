"""The `openai` package, unmodified, against the server: chat, responses and text completions. Usage: test_openai.py TENON DATA"""
import asyncio
import json
import sys
import tempfile
import unittest

import clients

clients.enter()
import openai
import pydantic
from client import Server, until

TENON, DATA = sys.argv[1:3]
HI = [{"role": "user", "content": "hi"}]


class Add(pydantic.BaseModel):
    a: int


class Pair(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    left: bool
    right: bool


ADD = {"type": "function", "function": {"name": "add", "strict": True, "parameters": {
    "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}}}
FLAT_ADD = {"type": "function", **ADD["function"]}


def client_of(server, kind=openai.OpenAI, key="none"):
    return kind(base_url="http://127.0.0.1:%d/v1" % server.port, api_key=key, max_retries=0, timeout=60)


class Parrot(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.server = clients.parrot_server(TENON, cls.folder.name)
        cls.openai = client_of(cls.server)
        cls.model = cls.openai.models.list().data[0].id

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0
        cls.folder.cleanup()

    def chat(self, **fields):
        return self.openai.chat.completions.create(model=self.model, messages=HI, temperature=0, **fields)

    def respond(self, **fields):
        return self.openai.responses.create(model=self.model, input="hi", temperature=0, **fields)

    def test_tools(self):
        message = self.chat(tools=[ADD]).choices[0].message
        self.assertEqual((message.content.strip(), message.reasoning_content), ("I add.", "Hm."))
        self.assertEqual([json.loads(call.function.arguments) for call in message.tool_calls], [{"a": 1}] * 2)
        tool = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "2"}
        again = self.openai.chat.completions.create(model=self.model, messages=[*HI, message, tool], tools=[ADD])
        self.assertEqual(again.choices[0].finish_reason, "tool_calls")
        forced = self.chat(tools=[ADD], tool_choice={"type": "function", "function": {"name": "add"}},
                           parallel_tool_calls=False)
        self.assertEqual(len(forced.choices[0].message.tool_calls), 1)

    def test_stream_with_tools(self):
        whole = self.chat(tools=[ADD]).choices[0]
        with self.openai.chat.completions.stream(model=self.model, messages=HI, temperature=0, tools=[ADD],
                                                 stream_options={"include_usage": True}) as stream:
            kinds = {event.type for event in stream}
            final = stream.get_final_completion()
        self.assertLessEqual({"chunk", "content.delta", "content.done", "tool_calls.function.arguments.delta",
                              "tool_calls.function.arguments.done"}, kinds)
        self.assertEqual(final.choices[0].finish_reason, "tool_calls")
        self.assertEqual(final.choices[0].message.content, whole.message.content)
        self.assertEqual([call.function.parsed_arguments for call in final.choices[0].message.tool_calls], [{"a": 1}] * 2)
        self.assertGreater(final.usage.completion_tokens, 0)

    def test_parsed_tools(self):
        parsed = self.openai.chat.completions.parse(model=self.model, messages=HI, temperature=0,
                                                    tools=[openai.pydantic_function_tool(Add, name="add")])
        self.assertEqual(parsed.choices[0].message.tool_calls[0].function.parsed_arguments, Add(a=1))

    def test_responses(self):
        answer = self.respond(tools=[FLAT_ADD])
        self.assertEqual([item.type for item in answer.output], ["reasoning", "message", "function_call", "function_call"])
        self.assertEqual(answer.output_text.strip(), "I add.")
        call = answer.output[2]
        again = self.openai.responses.create(
            model=self.model, instructions="be kind", tools=[FLAT_ADD], input=[
                {"role": "user", "content": "hi"}, *answer.output,
                {"type": "function_call_output", "call_id": call.call_id, "output": "2"},
                {"type": "function_call_output", "call_id": answer.output[3].call_id, "output": "2"}])
        self.assertEqual(again.status, "completed")
        self.assertEqual(self.respond(max_output_tokens=4).incomplete_details.reason, "max_output_tokens")

    def test_streamed_responses(self):
        with self.openai.responses.stream(model=self.model, input="hi", temperature=0, tools=[FLAT_ADD]) as stream:
            events = list(stream)
            final = stream.get_final_response()
        text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
        self.assertEqual((text, final.output_text), (text, text))
        self.assertEqual(text.strip(), "I add.")
        self.assertEqual([item.type for item in final.output], ["reasoning", "message", "function_call", "function_call"])
        self.assertEqual(final.output[2].parsed_arguments, {"a": 1})
        kinds = [event.type for event in self.respond(tools=[FLAT_ADD], stream=True)]
        self.assertEqual(kinds[-1], "response.completed")


class Tiny(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(TENON, clients.tiny_model(DATA))
        cls.openai = client_of(cls.server)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def chat(self, **fields):
        fields = {"model": "any", "messages": HI, "temperature": 0, "max_tokens": 12, **fields}
        return self.openai.chat.completions.create(**fields)

    def test_stream_is_the_whole_answer(self):
        whole = self.chat(logprobs=True, top_logprobs=2, seed=1, stop=["zzzz"], user="me", n=2)
        chunks = list(self.chat(logprobs=True, top_logprobs=2, n=2, stream=True, stream_options={"include_usage": True}))
        for choice in whole.choices:
            mine = [c.choices[0] for c in chunks if c.choices and c.choices[0].index == choice.index]
            self.assertEqual("".join(c.delta.content or "" for c in mine), choice.message.content)
            entries = [entry for c in mine if c.logprobs for entry in c.logprobs.content]
            self.assertEqual(entries, choice.logprobs.content)
            self.assertEqual(mine[-1].finish_reason, choice.finish_reason)
        self.assertEqual(chunks[-1].usage.completion_tokens, whole.usage.completion_tokens)

    def test_models(self):
        name = self.openai.models.list().data[0].id
        self.assertEqual(self.openai.models.retrieve(name).id, name)
        with self.assertRaises(openai.NotFoundError):
            self.openai.models.retrieve("another")

    def test_schema(self):
        parsed = self.openai.chat.completions.parse(model="any", messages=HI, response_format=Pair, max_tokens=100)
        self.assertIsInstance(parsed.choices[0].message.parsed, Pair)
        answer = self.openai.responses.parse(model="any", input="hi", text_format=Pair, max_output_tokens=100)
        self.assertIsInstance(answer.output_parsed, Pair)
        with self.assertRaises(openai.LengthFinishReasonError):
            self.openai.chat.completions.parse(model="any", messages=HI, response_format=Pair, max_tokens=2)

    def test_completions(self):
        ids = [5, 6, 7, 8]
        answer = self.openai.completions.create(model="any", prompt=[ids], max_tokens=1, logprobs=1, echo=True, temperature=0)
        logprobs = answer.choices[0].logprobs
        self.assertEqual(len(logprobs.token_logprobs), 5)
        self.assertIsNone(logprobs.token_logprobs[0])
        chunks = self.openai.completions.create(model="any", prompt="ab", max_tokens=8, temperature=0, stream=True)
        whole = self.openai.completions.create(model="any", prompt="ab", max_tokens=8, temperature=0)
        self.assertEqual("".join(chunk.choices[0].text for chunk in chunks), whole.choices[0].text)

    def test_errors(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat(temperature=-1)
        self.assertEqual(caught.exception.param, "temperature")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat(messages=[{"role": "user", "content": "word " * 400}])
        self.assertEqual(caught.exception.code, "context_length_exceeded")
        unenforceable = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"not": {"type": "string"}}}}
        with self.assertRaises(openai.BadRequestError):
            self.chat(response_format=unenforceable)
        with self.assertRaises(openai.BadRequestError):
            self.chat(tools=[ADD])  # the tiny model's template knows none
        with self.assertRaises(openai.NotFoundError):
            self.openai.embeddings.create(model="any", input="x")
        with Server(TENON, clients.tiny_model(DATA), "--api-key", "right", "--queue", "1", "--parallel", "1") as server:
            with self.assertRaises(openai.AuthenticationError):
                client_of(server, key="wrong").models.list()
            keyed = client_of(server, key="right")
            with self.assertRaises(openai.RateLimitError):
                keyed.chat.completions.create(model="any", messages=HI, n=8, max_tokens=100)

    def test_cancel(self):
        cancelled = 'requests_finished_total{reason="cancelled"}'
        with Server(TENON, clients.tiny_model(DATA), "--device", "reference") as server:
            talk = client_of(server).completions.create(model="any", prompt="ab", n=8, max_tokens=240, stream=True,
                                                        extra_body={"ignore_eos": True})
            next(iter(talk))
            talk.close()
            self.assertTrue(until(lambda: server.metric(cancelled) > 0))
            self.assertTrue(until(lambda: server.metric("kv_pages_used") == 0))
            hasty = client_of(server).with_options(timeout=0.05)

            def gives_up():  # on a busy machine it may have left before its request is read
                with self.assertRaises(openai.APITimeoutError):
                    hasty.completions.create(model="any", prompt="ab", n=8, max_tokens=240, extra_body={"ignore_eos": True})
                return server.metric(cancelled) > 8
            self.assertTrue(until(gives_up))

    def test_many_at_once(self):
        prompts = ["word %d" % i for i in range(8)]

        async def ask(client, prompt, stream):
            answer = await client.completions.create(model="any", prompt=prompt, max_tokens=30, temperature=0, stream=stream)
            if not stream:
                return answer.choices[0].text
            return "".join([chunk.choices[0].text async for chunk in answer])

        async def everything():
            async with client_of(self.server, openai.AsyncOpenAI) as client:
                alone = [await ask(client, prompt, False) for prompt in prompts]
                together = await asyncio.gather(*[ask(client, p, i % 2 == 0) for i, p in enumerate(prompts * 4)])
                return alone, together

        alone, together = asyncio.run(everything())
        self.assertEqual(together, alone * 4)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
