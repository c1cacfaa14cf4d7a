"""Bad files and bad arguments: one clear line that names the file and the field, exit status 1 (2 where the command line itself is wrong),
and never a crash. Arguments: the tenon command, the folder of test data."""
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from gguf_file import GgufFile  # noqa: E402

TENON, DATA = sys.argv[1], sys.argv[2]
LLAMA = os.path.join(DATA, "golden", "llama", "model.gguf")
failures = []
checks = 0


def run(*arguments, stdin=b"", stdout=subprocess.PIPE, limit=None):
    prepare = (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))) if limit else None
    return subprocess.run([TENON, *arguments], input=stdin, stdout=stdout, stderr=subprocess.PIPE, timeout=60, preexec_fn=prepare)


def expect(name, result, words, status=1):
    """The exit status, one line on stderr that holds all the words."""
    global checks
    checks += 1
    text = result.stderr.decode(errors="replace")
    lines = [line for line in text.splitlines() if not line.startswith("Try:")]
    problem = None
    if result.returncode != status:
        problem = f"exit status {result.returncode}, expected {status}"
    elif len(lines) != 1:
        problem = f"{len(lines)} lines on stderr, expected 1"
    else:
        missing = [word for word in words if word not in lines[0]]
        if missing:
            problem = f"the line does not name {missing}"
    if problem:
        failures.append(f"{name}: {problem}: {text[:300]}")


def logits(path, *more, out="/dev/null"):
    return run("logits", path, "--tokens", "1,2,3", "--out", out, *more)


def bad_files(folder):
    path = os.path.join(folder, "bad.gguf")

    def changed(name, change, words):
        file = GgufFile(LLAMA)
        change(file)
        file.write(path)
        expect(name, logits(path), [path] + words)

    whole = open(LLAMA, "rb").read()
    for size in range(0, len(whole), 4096):
        open(path, "wb").write(whole[:size])
        expect(f"cut at {size}", logits(path), [path])
    changed("wrong magic", lambda f: setattr(f, "magic", b"GGML"), ["magic"])
    changed("version 1", lambda f: setattr(f, "version", 1), ["version"])
    changed("huge tensor count", lambda f: setattr(f, "tensor_count", 1 << 60), ["tensor"])
    changed("huge key count", lambda f: setattr(f, "key_count", 1 << 60), ["key"])
    changed("overlap", lambda f: setattr(f.tensors[1], "offset", 0), [])
    changed("outside", lambda f: setattr(f.tensors[1], "offset", 1 << 40), [GgufFile(LLAMA).tensors[1].name])
    changed("offset wraps", lambda f: setattr(f.tensors[1], "offset", (1 << 64) - 32), [])
    changed("unknown type", lambda f: setattr(f.tensor("output_norm.weight"), "kind", 99), ["output_norm.weight", "99"])
    changed("zero dim", lambda f: setattr(f.tensor("output_norm.weight"), "dims", [0]), ["output_norm.weight"])
    changed("wrong shape", lambda f: setattr(f.tensor("blk.0.attn_q.weight"), "dims", [32, 128]), ["blk.0.attn_q.weight", "[32, 128]", "[64, 64]"])
    changed("missing tensor", lambda f: f.tensors.remove(f.tensor("blk.1.ffn_up.weight")), ["blk.1.ffn_up.weight"])
    changed("left-over tensor", lambda f: setattr(f.tensor("output.weight"), "name", "outputs.weight"), ["outputs.weight"])
    changed("unknown architecture", lambda f: f.set_string("general.architecture", "llamb"), ["general.architecture", "llamb"])
    changed("no architecture", lambda f: f.keys.pop("general.architecture"), ["general.architecture"])
    changed("no layers", lambda f: f.set_u32("llama.block_count", 0), ["llama.block_count"])
    changed("too many layers", lambda f: f.set_u32("llama.block_count", 4), ["blk.3"])
    changed("heads do not divide", lambda f: f.set_u32("llama.attention.head_count_kv", 3), ["llama.attention.head_count_kv"])
    changed("negative epsilon", lambda f: f.set_f32("llama.attention.layer_norm_rms_epsilon", -1.0), ["llama.attention.layer_norm_rms_epsilon"])
    changed("no heads", lambda f: f.set_u32("llama.attention.head_count", 0), ["llama.attention.head_count"])
    changed("key of another type", lambda f: f.set_string("llama.embedding_length", "64"), ["llama.embedding_length"])
    changed("rotary wider than a head", lambda f: f.set_u32("llama.rope.dimension_count", 17), ["llama.rope.dimension_count"])
    changed("unknown scaling", lambda f: f.set_string("llama.rope.scaling.type", "spiral"), ["rope.scaling.type", "spiral"])
    changed("unknown key", lambda f: f.set_f32("llama.attention.twist", 1.0), ["llama.attention.twist"])
    changed("experts", lambda f: f.set_u32("llama.expert_count", 8), ["expert"])
    expect("no such file", logits(os.path.join(folder, "none.gguf")), ["none.gguf"])
    expect("a directory", logits(folder), [folder])
    expect("empty file", logits(os.devnull), [os.devnull])
    pipe = os.path.join(folder, "pipe")
    os.mkfifo(pipe)
    expect("a named pipe", logits(pipe), [pipe, "pipe"])
    os.unlink(pipe)


def bad_arguments(folder):
    expect("token outside", run("logits", LLAMA, "--tokens", "1,320", "--out", "/dev/null"), ["320"])
    expect("no token", run("logits", LLAMA, "--tokens", "1,x", "--out", "/dev/null"), ["x"])
    expect("prompt longer than the context", run("logits", LLAMA, "--tokens", ",".join(["1"] * 257), "--out", "/dev/null"), ["257", "256"])
    expect("unknown device", logits(LLAMA, "--device", "cpv"), ["cpv"])
    expect("unknown kv", logits(LLAMA, "--kv", "f17"), ["kv", "f17"])
    expect("unknown activations", logits(LLAMA, "--activations", "int3"), ["activations", "int3"])
    expect("unknown pass", logits(LLAMA, "--passes", "fuze"), ["fuze"])
    expect("unknown option", logits(LLAMA, "--thread", "2"), ["--threads"], status=2)
    expect("number out of range", logits(LLAMA, "--threads", "0"), ["threads"], status=2)
    expect("unknown command", run("lógits"), ["lógits"], status=2)
    expect("context larger than the model's", run("run", LLAMA, "-p", "x", "--raw", "--ctx", "257"), ["257", "256"])
    expect("nothing to generate", run("run", LLAMA, "-p", "x", "--raw", "-n", "0"), ["max-tokens"], 2)
    expect("prompt too long", run("run", LLAMA, "-p", "x " * 400, "--raw"), ["256"])
    expect("empty prompt", run("run", LLAMA, "--raw"), ["prompt"], 2)
    expect("system message not UTF-8", run("run", LLAMA, "-p", "x", "--system", b"\xff"), ["--system", "UTF-8"], 2)
    expect("two sources of text", run("tokenize", LLAMA, "-p", "x", "--file", "y"), ["--prompt", "--file"], status=2)
    expect("two kinds of output", run("inspect", LLAMA, "--json", "--graph"), ["--graph", "--json"], status=2)
    out = os.path.join(folder, "out.f32")
    expect("full disk", run("logits", LLAMA, "--tokens", "1,2,3", "--all", "--out", out, limit=1024), [out])
    if os.listdir(folder) != ["bad.gguf"] and [name for name in os.listdir(folder) if name.startswith("out.f32")]:
        failures.append("full disk: a part of the file was left")
    link = os.path.join(folder, "link")
    os.symlink("/proc/self/fd/1", link)
    result = logits(LLAMA, out=link)
    if not os.path.islink(link) or result.returncode != 0 or len(result.stdout) != 4 * 320:
        failures.append(f"output through a link to a pipe: {result.returncode}, {len(result.stdout)} bytes, {result.stderr[:200]}")
    expect("a model into a pipe", run("quantize", LLAMA, link, "--type", "q8_0"), [link, "pipe"])
    os.unlink(link)
    expect("output into nowhere", logits(LLAMA, out=os.path.join(folder, "no", "out")), ["no/out"])
    with open("/dev/full", "w") as full:
        expect("stdout full", run("run", LLAMA, "-p", "x", "--raw", "-n", "4", stdout=full), ["stdout"])
    reader, writer = os.pipe()
    os.close(reader)
    expect("stdout closed", run("run", LLAMA, "-p", "x", "--raw", "-n", "64", stdout=writer), ["stdout"])
    os.close(writer)


def no_tokenizer(folder):
    """A model without tokenizer: token commands work, text commands say what is missing."""
    path = os.path.join(folder, "mute.gguf")
    file = GgufFile(LLAMA)
    file.keys = {name: value for name, value in file.keys.items() if not name.startswith("tokenizer.")}
    file.write(path)
    if logits(path).returncode != 0:
        failures.append("no tokenizer: logits does not work")
    file = GgufFile(LLAMA)
    file.keys.pop("tokenizer.chat_template")
    expect("no chat template", run("run", file.write(path + "2"), "-p", "x"), ["template"])
    expect("no tokenizer", run("run", path, "-p", "x", "--raw"), [path, "tokenizer"])


def catches_interrupts(process):
    """Whether the process has come to the line of main() that takes care of SIGINT, by the mask in /proc."""
    with open(f"/proc/{process.pid}/status", encoding="ascii", errors="replace") as status:
        mask = next((line.split()[1] for line in status if line.startswith("SigCgt:")), "0")
    return int(mask, 16) >> (signal.SIGINT - 1) & 1


def interrupted():
    """Ctrl-C at ten moments of a run: one line, exit status 1."""
    for delay in [0.0, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2]:
        process = subprocess.Popen([TENON, "run", LLAMA, "-p", "x", "--raw", "--device", "reference", "-n", "200"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        end = time.monotonic() + 30
        while not catches_interrupts(process) and process.poll() is None and time.monotonic() < end:
            time.sleep(0.001)
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        _, text = process.communicate(timeout=30)
        ended = process.returncode == 0 and not text
        if not ended and (process.returncode != 1 or text.decode() != "tenon: interrupted\n"):
            failures.append(f"interrupted after {delay} s: exit status {process.returncode}: {text.decode()[:200]}")


with tempfile.TemporaryDirectory() as temporary:
    bad_files(temporary)
    bad_arguments(temporary)
    no_tokenizer(temporary)
    interrupted()
for failure in failures[:30]:
    print(failure)
print(f"{checks} checks, {len(failures)} failures")
sys.exit(1 if failures else 0)
