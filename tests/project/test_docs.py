"""Documentation that can be checked without a model: links inside the repository lead somewhere, every folder of code
has its README, every ./dev command that a document shows exists, and nothing names a package registry's host."""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```(\S*)[^\n]*\n(.*?)^```", re.M | re.S)
# In two pieces, so that this file doesn't match itself. Packages are fetched by the tools that know where from.
HOSTS = re.compile("|".join(a + r"\." + b for a, b in (
    ("pypi", "org"), ("pythonhosted", "org"), ("huggingface", "co"), ("deb.debian", "org"), ("archive.ubuntu", "com"),
    ("hf-mirror", "com"), ("conda", "anaconda"), ("npmjs", "org"), ("crates", "io"))))
TEXT = (".md", ".c", ".h", ".def", ".py", ".sh", ".txt", ".cmake", ".json", ".in", "")


def files(*endings):
    """Paths of the source tree (without builds and hidden folders), relative to it, that end in one of `endings`."""
    for folder, folders, names in os.walk(ROOT):
        at = os.path.relpath(folder, ROOT)
        folders[:] = [f for f in folders if f == ".ci" or not f.startswith((".", "build")) and f != "__pycache__"]
        for name in names:
            path = os.path.normpath(os.path.join(at, name))
            if os.path.splitext(name)[1] in endings and not path.startswith("tests/data/"):
                yield path


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as file:
        return file.read()


def broken_links(path, text):
    prose = FENCE.sub("", text)
    for target in LINK.findall(prose):
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            continue
        there = os.path.join(ROOT, os.path.dirname(path), target.split("#")[0])
        if not os.path.exists(there):
            yield "%s: the link %s leads nowhere" % (path, target)


def unknown_dev_commands(path, text, known):
    for language, body in FENCE.findall(text):
        if language != "sh":
            continue
        for command in re.findall(r"^\s*\./dev\s+(\S+)", body, re.M):
            if command not in known:
                yield "%s: ./dev has no command '%s'" % (path, command)


def missing_readmes():
    for top in ("src", "include", "tests", "bench", "examples", "docs"):
        for folder, folders, names in os.walk(os.path.join(ROOT, top)):
            at = os.path.relpath(folder, ROOT)
            if at.startswith(("tests/", "examples/")) or at == "include":
                continue
            if any(n.endswith((".c", ".h", ".md")) for n in names) and "README.md" not in names:
                yield "%s has no README.md" % at


def trial_faults():
    """The checks must see faults: each trial text has exactly one."""
    trials = [
        list(broken_links("README.md", "[a](no/such/file.md) [b](LICENSE) ```\n")),
        list(unknown_dev_commands("x", "```sh\n./dev nonsense\n./dev test\n```\n", {"test"})),
        HOSTS.findall("from pypi" + ".org"),
    ]
    return ["the checks of this test see %d faults in trial %d" % (len(found), i)
            for i, found in enumerate(trials) if len(found) != 1]


def main():
    usage = subprocess.run(["sh", os.path.join(ROOT, "dev"), "help"], capture_output=True, text=True, check=True).stdout
    known = set(re.findall(r"^  ([a-z]+)\b", usage, re.M))
    faults = trial_faults()
    for path in files(".md"):
        text = read(path)
        faults += list(broken_links(path, text)) + list(unknown_dev_commands(path, text, known))
    for path in files(*TEXT):
        for host in HOSTS.findall(read(path)):
            faults.append("%s names the host %s" % (path, host))
    faults += missing_readmes()
    print("\n".join(faults))
    print("%d faults" % len(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
