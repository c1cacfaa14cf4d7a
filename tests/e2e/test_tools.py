"""tenon run and chat with --tools: calls as lines of JSON on stdout, reasoning on stderr, results of tools in a chat.
Usage: test_tools.py TENON DATA"""
import json
import os
import subprocess
import sys
import tempfile

import parrot

TEMPLATE = ("{# <tool_call> <think> </think> #}{% for m in messages %}{{ m.role }}: {{ m.content }}"
            "{% if m.tool_calls %} calls {{ m.tool_calls[0].function.name }}{% endif %}\n{% endfor %}")
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {
    "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}}]
SCRIPT = ["<think>", "Hm", ".</think>", "I add", ".\n", "<tool_call>", '\n{"name": "add", "arguments": {"a": ', "1}}", "\n</tool_call>"]


def main():
    tenon = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        model, tools = os.path.join(folder, "parrot.gguf"), os.path.join(folder, "tools.json")
        parrot.write(model, TEMPLATE, SCRIPT)
        with open(tools, "w") as file:
            json.dump(TOOLS, file)

        def run(*arguments, stdin=""):
            result = subprocess.run([tenon, *arguments], input=stdin, capture_output=True, text=True, timeout=60)
            return result.returncode, result.stdout, result.stderr

        def check(what, result, status, lines, error):
            got = result[1].splitlines()
            ids = []
            for i, line in enumerate(got):
                if line.startswith('{"tool_call"'):
                    call = json.loads(line)["tool_call"]
                    ids.append(call.pop("id"))
                    got[i] = call
            assert result[0] == status and got == lines and error in result[2], (what, result)
            return ids

        call = {"name": "add", "arguments": {"a": 1}}
        check("run", run("run", model, "-p", "x", "--tools", tools), 0, ["I add.", call], "Hm.")
        check("drafts", run("run", model, "-p", "x", "--tools", tools, "--draft", "ngram", "--draft-k", "4"), 0, ["I add.", call], "Hm.")
        check("drafted by itself", run("run", model, "-p", "x", "--tools", tools, "--draft", model), 0, ["I add.", call], "Hm.")
        check("no tools", run("run", model, "-p", "x"), 0,
              ["I add.", "<tool_call>", '{"name": "add", "arguments": {"a": 1}}', "</tool_call>"], "Hm.")
        check("raw", run("run", model, "-p", "x", "--raw"), 0, "".join(SCRIPT).split("\n"), "")
        check("raw tools", run("run", model, "-p", "x", "--raw", "--tools", tools), 2, [], "messages only")
        check("unknown", run("run", model, "-p", "x", "--tools", tools, "--tool-choice", "function:rm"), 2, [], "no such tool")
        check("none", run("run", model, "-p", "x", "--tools", tools, "--tool-choice", "none", "-n", "4"), 0, ["I add"], "Hm.")
        ids = check("chat", run("chat", model, "--tools", tools, stdin="x\n3\n"), 0, ["I add.", call, "I add.", call], "Hm.")
        assert len(set(ids)) == 2, ids
        parrot.write(model, TEMPLATE, [piece.replace("1}}", "98765432109876543210}}") for piece in SCRIPT])
        long = {"name": "add", "arguments": {"a": 98765432109876543210.0}}
        check("long integer", run("run", model, "-p", "x", "--tools", tools), 0, ["I add.", long], "Hm.")
        parrot.write(model, TEMPLATE, SCRIPT)
        schema = os.path.join(folder, "schema.json")
        with open(schema, "w") as file:
            json.dump({"const": [1, 2]}, file)
        check("cut", run("run", model, "-p", "x", "--schema", schema, "-n", "1"), 0, ["["], "1 tokens, by length")
        whole = run("run", model, "-p", "x", "--schema", schema)
        assert json.loads(whole[1]) == [1, 2] and "by length" not in whole[2], whole
        os.remove(tools)
        check("no file", run("run", model, "-p", "x", "--tools", tools), 1, [], "tools.json")


if __name__ == "__main__":
    main()
