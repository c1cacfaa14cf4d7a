"""tenon eval speculate and bench model --draft on tiny models: what they print adds up; what can't be had is refused.
Usage: test_speculate.py TENON DATA"""
import json
import os
import subprocess
import sys
import tempfile

TENON, DATA = sys.argv[1:3]
LLAMA, GEMMA = (os.path.join(DATA, "golden", name, "model.gguf") for name in ("llama", "gemma3"))


def run(*arguments):
    result = subprocess.run([TENON, *arguments], capture_output=True, text=True, timeout=120)
    return result.returncode, result.stdout, result.stderr


def speculate(*options):
    status, out, error = run("eval", "speculate", LLAMA, "--raw", "-n", "40", "--ignore-eos", "--json", *options)
    assert status == 0, error
    return json.loads(out)


def check_sums(result):
    acceptance = result["acceptance"]
    assert result["drafted"] == sum(a["drafted"] for a in acceptance)
    assert result["accepted"] == sum(a["accepted"] for a in acceptance)
    assert acceptance[0]["drafted"] == sum(a["drafts_of_this_length"] for a in acceptance)
    assert 0 < result["steps_with_drafts"] <= result["steps"]
    assert result["speed_up"] > 0 and result["plain_tokens_per_s"] > 0
    assert all(p["ms"] > 0 and p["passes"] > 0 for p in result["passes"])


def main():
    for temperature in ("0", "1"):
        mine = speculate("--draft", LLAMA, "--draft-k", "5", "-p", "abcabcabc", "-p", "xyz", "--temp", temperature)
        check_sums(mine)
        assert mine["equal"] and mine["prompts"] == 2 and mine["tokens"] == 78 and len(mine["acceptance"]) == 5, mine
    itself = speculate("--draft", LLAMA, "--draft-k", "3", "-p", "abc", "--sequences", "3", "--temp", "1")
    check_sums(itself)
    assert itself["equal"] and itself["tokens"] == 117 and itself["accepted"] == itself["drafted"], itself
    assert itself["draft_round_ms"] > 0 and any(p["rows"] > 4 for p in itself["passes"])
    assert speculate("--draft", "ngram", "-p", "abab")["equal"]  # k by what pays
    check_sums(speculate("--draft", LLAMA, "-p", "abab"))
    synthetic = speculate("--draft", "ngram", "--draft-k", "3", "--draft-accept", "0.5", "-p", "ab", "--repeats", "20")
    assert 0.4 < synthetic["acceptance"][0]["rate"] < 0.6 and len(synthetic["passes"]) >= 2, synthetic
    all_accepted = speculate("--draft", "ngram", "--draft-k", "3", "--draft-accept", "1", "-p", "ab")
    assert all_accepted["drafted"] == all_accepted["accepted"], all_accepted

    with tempfile.TemporaryDirectory() as folder:
        prompts = os.path.join(folder, "prompts.jsonl")
        with open(prompts, "w") as file:
            file.write('{"prompt": "a b c"}\n"quoted"\nplain text\n\n{"prompt": "d"}\n')
        assert speculate("--draft", "ngram", "--draft-k", "2", "--file", prompts)["prompts"] == 4
        assert speculate("--draft", "ngram", "--draft-k", "2", "--file", prompts, "--prompts", "2")["prompts"] == 2
        status, out, error = run("eval", "speculate", LLAMA, "--raw", "--draft", "ngram", "--file", prompts)
        assert status == 0 and "equal to those without drafts" in out and "speed-up" in out and "ms a pass" in out, (out, error)
        with open(prompts, "w") as file:
            file.write('{"text": "a"}\n')
        status, out, error = run("eval", "speculate", LLAMA, "--raw", "--draft", "ngram", "--file", prompts)
        assert status == 1 and "prompt 1" in error, error

    status, out, error = run("bench", "model", LLAMA, "-p", "0", "-n", "20", "-r", "2", "-d", "0,30", "-s", "1,2", "--draft", "ngram",
                             "--draft-k", "3", "--draft-accept", "0.7", "--json")
    assert status == 0, error
    tests = [(r["test"], r["sequences"], r["depth"]) for r in json.loads(out)["results"]]
    assert [t for t in tests if t[0] == "speculate"] == [("speculate", s, d) for d in (0, 30) for s in (1, 2)], tests

    for arguments, status, words in (
            (["eval", "speculate", LLAMA], 2, "--draft"),
            (["eval", "speculate", LLAMA, "--draft", "ngram", "--draft-k", "99"], 1, "--draft-k"),
            (["run", LLAMA, "--raw", "-p", "a", "--draft", "ngram", "--draft-k", "x"], 2, "auto or a number"),
            (["run", LLAMA, "--raw", "-p", "a", "--draft", GEMMA], 2, "can't draft"),
            (["run", LLAMA, "--raw", "-p", "a", "--draft-k", "3"], 2, "need a drafter"),
            (["run", LLAMA, "--raw", "-p", "a", "--draft", "none.gguf"], 1, "none.gguf"),
            (["run", LLAMA, "--raw", "-p", "a", "--draft", "ngram", "--draft-accept", "2"], 2, "--draft-accept")):
        result = run(*arguments)
        assert result[0] == status and words in result[2] and not result[1], (arguments, result)

    plain = run("run", LLAMA, "--raw", "-p", "ab", "-n", "30", "--temp", "1")
    drafts = run("run", LLAMA, "--raw", "-p", "ab", "-n", "30", "--temp", "1", "--draft", LLAMA, "--draft-k", "4", "--stats")
    assert plain[:2] == drafts[:2] and "accepted" in drafts[2], (plain, drafts)


if __name__ == "__main__":
    main()
