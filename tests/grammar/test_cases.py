"""Every case of tests/data/grammar through `tenon grammar --jsonl`: what must be completed, what must not, what must be
refused. A line can be added to the files without touching this script."""
import json
import os
import subprocess
import sys

tenon, data = sys.argv[1:3]
failures = checked = 0


def fail(case, text):
    global failures
    failures += 1
    print("%s: %s" % (case.get("id", "?"), text))


def request(case):
    key = next(k for k in ("schema", "gbnf", "grammar", "regex", "choices") if k in case)
    texts = case.get("valid", case.get("accept", [])) + case.get("invalid", case.get("reject", []))
    return {"gbnf" if key == "grammar" else key: case[key], "texts": texts}


def judge(case, answer):
    global checked
    refused = "error" in answer
    if case.get("grammar_error") or case.get("schema_error"):
        checked += 1
        if not refused:
            fail(case, "must be refused")
        elif case.get("message", "") not in answer["error"]:
            fail(case, "the error does not say %r: %s" % (case["message"], answer["error"]))
        return
    if refused:
        checked += 1
        if case.get("cat") != "hard":
            fail(case, answer["error"])
        return
    good = len(case.get("valid", case.get("accept", [])))
    for i, (text, result) in enumerate(zip(request(case)["texts"], answer["results"])):
        checked += 1
        if (result["verdict"] == "accept") != (i < good):
            fail(case, "%r %s: %s" % (text, "must be accepted" if i < good else "must not be accepted", result))


for name in ("schema.jsonl", "gbnf.jsonl", "more.jsonl"):
    path = os.path.join(data, "grammar", name)
    cases = [json.loads(line) for line in open(path, encoding="utf-8") if line.strip()]
    lines = "".join(json.dumps(request(case)) + "\n" for case in cases)
    run = subprocess.run([tenon, "grammar", "--jsonl"], input=lines, capture_output=True, text=True, timeout=120)
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    if len(answers) != len(cases):
        print("%s: %d answers to %d requests (exit %d) %s" % (name, len(answers), len(cases), run.returncode, run.stderr))
        sys.exit(1)
    for case, answer in zip(cases, answers):
        judge(case, answer)
print("%d checked, %d failed" % (checked, failures))
sys.exit(1 if failures or checked < 500 else 0)
