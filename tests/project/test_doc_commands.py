"""Every `tenon` command that a document shows in a code block of language sh has only options that `tenon help COMMAND`
knows; in blocks marked `sh runnable` it is run, with MODEL standing for the default model (TENON_TEST_MODEL), and must
end with status 0. Usage: test_doc_commands.py TENON DATA"""
import os
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FENCE = re.compile(r"^```sh([^\n]*)\n(.*?)^```", re.M | re.S)


def documents():
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [f for f in folders if not f.startswith((".", "build")) and f != "data"]
        yield from (os.path.join(folder, name) for name in names if name.endswith(".md"))


def commands(text):
    """(words, is it to be run) of each tenon command in the blocks of a document."""
    for info, body in FENCE.findall(text):
        for line in body.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words and words[0] in ("tenon", "build/tenon"):
                for i, word in enumerate(words):  # up to a pipe or a redirection
                    if word in ("|", ">", "2>", "<"):
                        words = words[:i]
                        break
                yield words[1:], "runnable" in info.split()


def help_of(tenon, words):
    asked = words[:2] + ["--help"] if words[0] in ("bench", "eval") and len(words) > 1 else ["help", words[0]]
    result = subprocess.run([tenon] + asked, capture_output=True, text=True, timeout=60)
    return result.stdout if result.returncode == 0 else None


def faults_of(tenon, words, run, folder):
    shown = "tenon " + " ".join(words)
    known = help_of(tenon, words) if words[0] != "help" else ""
    if known is None:
        return ["%s: tenon help %s fails" % (shown, words[0])]
    faults = ["%s: tenon help %s doesn't know %s" % (shown, words[0], option.split("=")[0])
              for option in words[1:] if re.match(r"--?[a-z]", option)
              and not re.search(r"(?<![\w-])" + re.escape(option.split("=")[0]) + r"(?![\w-])", known)]
    if run and not faults:
        words = [os.environ["TENON_TEST_MODEL"] if word == "MODEL" else word for word in words]
        result = subprocess.run([tenon] + words, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, cwd=folder)
        if result.returncode:
            faults.append("%s: status %d: %s" % (shown, result.returncode, result.stderr.decode(errors="replace")[-300:]))
    return faults


def main():
    tenon = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        if not faults_of(tenon, ["version", "--no-such-option"], False, folder):
            print("an unknown option isn't noticed")
            return 1
        count, ran, faults = 0, 0, []
        for path in sorted(documents()):
            with open(path, encoding="utf-8") as file:
                for words, run in commands(file.read()):
                    faults += ["%s: %s" % (os.path.relpath(path, ROOT), f) for f in faults_of(tenon, words, run, folder)]
                    count, ran = count + 1, ran + run
    print("\n".join(faults))
    print("%d commands, %d run, %d faults" % (count, ran, len(faults)))
    return 1 if faults or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
