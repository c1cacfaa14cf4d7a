"""tenon render: templates from files, folders and JSON lines; errors are answers, and the next line is served."""
import json
import os
import subprocess
import sys
import tempfile

TENON, DATA = sys.argv[1:3]


def run(*arguments, text=""):
    return subprocess.run([TENON, "render", *arguments], input=text.encode(), capture_output=True, timeout=60)


def answers(*lines, options=()):
    result = run("--jsonl", *options, text="\n".join(lines) + "\n")
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.decode("ascii").split("\n") if line]


def request(template, context=None, **more):
    return json.dumps({"template": template, "context": context or {}, **more})


def json_lines():
    got = answers(request("a{{ x }}", {"x": "b\u2028\U0001f600\0"}), "not JSON", "", request("{{ x"),
                  request("{{ raise_exception('no\\n' ~ 'way' * 300) }}"), '{"template": "x"}', "[]",
                  request("{{ strftime_now('%d %b %Y') }}", now="2026-01-02T03:04:05"), request("x", now="soon"),
                  request("{{ n }}", {"n": 10**30}), request("{{ 'a' * 10**9 }}"), request("ok"), request("x", contxt={}))
    assert got[0] == {"text": "ab\u2028\U0001f600\0"}, got[0]
    assert "byte 0" in got[1]["error"]
    assert got[2]["error"].startswith("line 1, column 5: "), got[2]
    assert "no\n" + "way" * 300 in got[3]["error"]
    assert "context" in got[4]["error"] and "template" in got[5]["error"]
    assert got[6] == {"text": "02 Jan 2026"}
    assert "soon" in got[7]["error"]
    assert got[8] == {"text": str(10**30)}
    assert "memory" in got[9]["error"], got[9]
    assert got[10] == {"text": "ok"} and len(got) == 12
    assert "contxt" in got[11]["error"]


def spans():
    got = answers(request("<{{ x }}>", {"x": "\u00e9"}), options=["--spans"])
    assert got == [{"text": "<\u00e9>", "spans": [[0, 1, True], [1, 2, False], [3, 1, True]]}], got


def files():
    with tempfile.TemporaryDirectory() as folder:
        def write(name, text):
            path = os.path.join(folder, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            return path
        context = write("context.json", '{"x": "\u00e9"}')
        template = write("t.jinja", "{{ x }}!\n\n")
        result = run("--template", template, "--context", context)
        assert (result.returncode, result.stdout) == (0, "\u00e9!\n".encode()), result
        assert run("--template", template, "--context", "-", text='{"x": 1}').stdout == b"1!\n"
        result = run("--template", write("bad.jinja", "a\n{% if %}"), "--context", context)
        assert result.returncode == 1 and b"line 2, column 7" in result.stderr, result
        result = run(folder, "--context", context)
        assert result.returncode == 1 and b"tokenizer_config.json" in result.stderr, result
        write("tokenizer_config.json", json.dumps({"chat_template": [{"name": "tool_use", "template": "no"},
                                                                     {"name": "default", "template": "list {{ x }}"}]}))
        assert run(folder, "--context", context).stdout == "list \u00e9".encode()
        write("tokenizer_config.json", json.dumps({"chat_template": "string {{ x }}"}))
        assert run(folder, "--context", context).stdout == "string \u00e9".encode()
        write("chat_template.jinja", "file {{ x }}")
        assert run(folder, "--context", context).stdout == "file \u00e9".encode()
        assert run("--template", template).returncode == 2
        assert run(folder, "--template", template, "--context", context).returncode == 2
        assert run("--context", context).returncode == 2


json_lines()
spans()
files()
