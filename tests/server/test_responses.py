"""OpenAI's /v1/responses, stateless, on parrots. Usage: test_responses.py TENON DATA"""
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from parrots import OnParrot, SCHEMA

TENON = sys.argv[1]
PATH = "/v1/responses"
ADD = {"type": "function", "name": "add", "parameters": SCHEMA, "strict": True}
LOGPROBS = {"include": ["message.output_text.logprobs"], "top_logprobs": 2}


def ask(given="hi", **fields):
    return {"input": given, "temperature": 0, **fields}


class Responses(OnParrot):
    def good(self, body):
        return super().good(body, PATH)

    def stream(self, body):
        """The events, each checked to bear the name of its type and its number."""
        events = self.named_events(PATH, body)
        self.assertEqual([event["sequence_number"] for event in events], list(range(len(events))))
        return events

    def refused(self, body, parameter, words):
        status, answer = self.server.post(PATH, body)
        self.assertEqual((status, answer["error"]["param"]), (400, parameter), answer)
        self.assertIn(words, answer["error"]["message"])

    def test_whole(self):
        answer = self.good(ask(tools=[ADD], metadata={"k": "v"}))
        self.assertEqual((answer["object"], answer["status"], answer["error"]), ("response", "completed", None))
        reasoning, message, call = answer["output"]
        self.assertEqual(reasoning["content"], [{"type": "reasoning_text", "text": "Hm."}])
        self.assertEqual((message["role"], message["content"][0]["text"].strip()), ("assistant", "I add."))
        self.assertEqual((call["type"], call["name"], json.loads(call["arguments"])), ("function_call", "add", {"a": 1}))
        usage = answer["usage"]
        self.assertEqual(usage["total_tokens"], usage["input_tokens"] + usage["output_tokens"])
        self.assertGreater(usage["output_tokens_details"]["reasoning_tokens"], 0)
        self.assertEqual((answer["tools"], answer["metadata"], answer["store"]), ([ADD], {"k": "v"}, False))
        cut = self.good(ask(max_output_tokens=4))
        self.assertEqual((cut["status"], cut["incomplete_details"]), ("incomplete", {"reason": "max_output_tokens"}))
        self.assertEqual([item["status"] for item in cut["output"]], ["completed", "incomplete"])

    def test_stream_is_the_whole_answer(self):
        for fields in ({"tools": [ADD]}, {}, {"max_output_tokens": 4}, LOGPROBS):
            whole, events = self.good(ask(**fields)), self.stream(ask(**fields))
            kinds = [event["type"] for event in events]
            self.assertEqual(kinds[:2], ["response.created", "response.in_progress"])
            self.assertEqual(kinds[-1], "response." + whole["status"])
            items, logprobs = [], []
            for event in events[2:-1]:
                kind, index = event["type"].removeprefix("response."), event["output_index"]
                if kind == "output_item.added":
                    self.assertEqual(index, len(items))
                    items.append(event["item"])
                elif kind == "content_part.added":
                    items[index]["content"].append(event["part"])
                elif kind in ("output_text.delta", "reasoning_text.delta"):
                    items[index]["content"][0]["text"] += event["delta"]
                    logprobs += event.get("logprobs", [])
                elif kind == "function_call_arguments.delta":
                    items[index]["arguments"] += event["delta"]
                elif kind == "output_item.done":
                    items[index]["status"] = event["item"]["status"]
                    if logprobs and event["item"]["type"] == "message":
                        items[index]["content"][0]["logprobs"] = logprobs
                    self.assertEqual(event["item"], items[index])
            final = events[-1]["response"]
            self.assertEqual(final["output"], items)
            for answer in (whole, final):
                for item in answer["output"]:
                    del item["id"]
                    item.pop("call_id", None)
                for name in ("id", "created_at", "usage"):
                    del answer[name]
            self.assertEqual(final, whole)
        self.assertGreater(len(logprobs), 3)
        final = self.stream(ask(tools=[ADD], max_output_tokens=7))[-1]["response"]  # in the middle of a call
        self.assertEqual([item["type"] for item in final["output"]], ["reasoning", "message", "function_call"])
        self.assertEqual((final["status"], final["output"][-1]["status"]), ("incomplete", "incomplete"))

    def count(self, **fields):
        return self.good({"max_output_tokens": 1, **fields})["usage"]["input_tokens"]

    def test_prompt(self):
        items = [{"role": "developer", "content": "be kind"}, {"role": "user", "content": "hi"},
                 {"type": "reasoning", "id": "rs", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm"}]},
                 {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I add"}]},
                 {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a": 1}'},
                 {"type": "function_call", "call_id": "c2", "name": "add", "arguments": '{"a": 2}'},
                 {"type": "function_call_output", "call_id": "c1", "output": "2"},
                 {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "3"}]},
                 {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "now"}]}]
        text = ('tool add;system: be quick;system: be kind;user: hi;assistant: HmI add calls add {"a": 1} calls add {"a": 2};'
                "tool: 2;tool: 3;user: now;")
        self.assertEqual(self.count(input=items, instructions="be quick", tools=[ADD]), len(text))
        self.assertEqual(self.count(input="hi", reasoning={"effort": "none"}), len("user: hi;thinks False"))
        self.assertEqual(self.count(input="hi", chat_template_kwargs={"enable_thinking": True}),
                         len("user: hi;thinks True"))

    def test_tool_choice_and_format(self):
        for choice in ("required", {"type": "function", "name": "add"}):
            answer = self.good(ask(tools=[ADD], tool_choice=choice, parallel_tool_calls=False))
            self.assertEqual([item["type"] for item in answer["output"]], ["function_call"])
        self.assertEqual(len(self.good(ask(tools=[ADD], tool_choice="none"))["output"]), 2)
        wanted = {"format": {"type": "json_schema", "name": "x", "strict": True, "schema": {"enum": [1, 22]}}}
        answer = self.good(ask(text=wanted))
        self.assertIn(json.loads(answer["output"][-1]["content"][0]["text"]), (1, 22))

    def test_stateless(self):
        self.assertEqual(self.good(ask(store=False, previous_response_id=None, background=False))["store"], False)
        self.refused(ask(store=True), "store", "nothing is stored")
        self.refused(ask(previous_response_id="resp_1"), "previous_response_id", "nothing is stored")
        self.refused(ask(conversation="c"), "conversation", "nothing is stored")
        self.refused(ask(background=True), "background", "nothing is stored")

    def test_refused(self):
        self.refused({}, "input", "missing")
        self.refused(ask([]), "input", "empty")
        self.refused(ask([{"type": "item_reference", "id": "x"}]), "input", "element 0")
        self.refused(ask([{"role": "user", "content": [{"type": "input_image", "image_url": ""}]}]), "input", "text parts")
        self.refused(ask([{"type": "function_call", "name": "add"}]), "input", "call_id")
        self.refused(ask(tools=[{"type": "web_search"}]), "tools", "web_search")
        self.refused(ask(tool_choice="always"), "tool_choice", "always")
        self.refused(ask(tool_choice={"type": "allowed_tools"}), "tool_choice", "expected")
        self.refused(ask(text={"format": {"type": "json_schema"}}), "text", "schema")
        self.refused(ask(text={"verbosity": "low"}), "text", "verbosity")
        self.refused(ask(reasoning={"effort": "high"}), "reasoning", "effort")
        self.refused(ask(include=["file_search_call.results"]), "include", "file_search_call")
        self.refused(ask(top_logprobs=2), "top_logprobs", "include")
        self.refused(ask(truncation="auto"), "truncation", "never cut")
        self.refused(ask("x" * 600), "input", "512")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
