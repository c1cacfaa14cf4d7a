"""The packed form on disk: the same bytes come out, whatever isn't it is refused and made anew, and with it a model runs
in 60 % of the memory that its file takes. TENON_TEST_MODEL names the model. Arguments: the tenon command, test data."""
import os
import resource
import shutil
import subprocess
import sys
import tempfile

TENON = sys.argv[1]
MODEL = os.environ.get("TENON_TEST_MODEL") or sys.exit("TENON_TEST_MODEL is not set; ./dev test sets it")
SMALL = sys.argv[2] + "/golden/llama/model.gguf"
MEMORY = os.path.getsize(MODEL) * 6 // 10
ENVIRONMENT = {**os.environ, "TENON_LOG": "info"}


def run(*arguments, environment=None, before=None):
    return subprocess.run([TENON, *arguments], env=environment or ENVIRONMENT, capture_output=True, text=True,
                          timeout=300, preexec_fn=before)


def logits(folder, packed, *options, model=MODEL, before=None):
    out = folder + "/logits"
    done = run("logits", model, "--tokens", "1,22,133,44", "--all", "--out", out, "--packed", packed, *options,
               before=before)
    assert done.returncode == 0, done.stderr
    with open(out, "rb") as file:
        return file.read(), done.stderr


def check_contents(folder):
    """Packed at load, written, taken: the same logits; and so after each kind of damage."""
    want, _ = logits(folder, "off")
    store = folder + "/new/store"
    got, log = logits(folder, store)
    assert got == want and "no packed weights to take" in log, log
    (name,) = os.listdir(store)
    path = store + "/" + name
    got, log = logits(folder, store)
    assert got == want and "packed weights taken from " + path in log, log
    size = os.path.getsize(path)
    for place in (0, 8, 40, 200, size // 2, size - 20, size - 1):  # magic, version, key, data, hashes, seal
        with open(path, "r+b") as file:
            file.seek(place)
            byte = file.read(1)[0]
            file.seek(place)
            file.write(bytes([byte ^ 1]))
        got, log = logits(folder, store)
        assert got == want and ("no packed weights to take" in log or "is altered" in log), (place, log)
    os.truncate(path, size - 1)
    got, log = logits(folder, store)
    assert got == want and "another size" in log, log
    got, log = logits(folder, store)
    assert got == want and "packed weights taken" in log, log
    assert os.listdir(store) == [name], os.listdir(store)


def check_key(folder):
    """A model that has changed, other options, another model under the same name: none takes what isn't its own."""
    store, model = folder + "/keys", folder + "/model.gguf"
    shutil.copyfile(SMALL, model)
    first, _ = logits(folder, store, model=model)
    assert "taken" in logits(folder, store, model=model)[1]
    data = bytearray(open(model, "rb").read())
    data[-20] ^= 0x10
    times = os.stat(model)
    with open(model, "r+b") as file:
        file.write(data)
    os.utime(model, ns=(times.st_atime_ns, times.st_mtime_ns))
    second, log = logits(folder, store, model=model)
    assert second != first and "no packed weights" in log, log
    assert second == logits(folder, "off", model=model)[0] and len(os.listdir(store)) == 1
    plain, log = logits(folder, store, "--passes", "none", model=model)
    assert "no packed weights" in log and len(os.listdir(store)) == 2, log
    assert plain == logits(folder, "off", "--passes", "none", model=model)[0]


def check_placement(folder):
    """Of a model spread over devices each that can map one has a file of its own, which serves whatever runs the rest."""
    store, one, other = folder + "/placed", "0=cpu,threads=1,rest=cpu,threads=2", "0=reference,rest=cpu,threads=2"
    want, _ = logits(folder, "off", "--place", one, model=SMALL)
    for place, made in ((one, 2), (one, 0), (other, 0)):
        got, log = logits(folder, store, "--place", place, model=SMALL)
        assert log.count("no packed weights to take") == made and len(os.listdir(store)) == 2, (place, log)
        assert place == other or got == want, place


def check_automatic(folder):
    """run stores in the cache folder, and is silent where it can't; a folder that was asked for must work."""
    environment = {**ENVIRONMENT, "XDG_CACHE_HOME": folder + "/cache"}
    command = ["run", MODEL, "-p", "Hi", "-n", "4", "--threads", "2"]
    first = run(*command, environment=environment)
    assert first.returncode == 0 and "packed weights stored in" in first.stderr, first.stderr
    second = run(*command, environment=environment)
    assert second.stdout == first.stdout and "packed weights taken from " + folder in second.stderr, second.stderr
    closed = folder + "/file"
    open(closed, "w").close()
    broken = run(*command, environment={**environment, "XDG_CACHE_HOME": closed, "TENON_LOG": "warn"})
    assert broken.stdout == first.stdout and not broken.stderr, broken.stderr
    refused = run(*command, "--packed", closed + "/below", environment=environment)
    assert refused.returncode == 1 and closed in refused.stderr, refused.stderr
    return environment, command, first.stdout


def limit_data():
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))


def check_limited(environment, command, want, before, what):
    for state in ("stored", "from nothing"):
        done = run(*command, environment=environment, before=before)
        assert done.returncode == 0 and done.stdout == want, (what, state, done.stderr)
        assert "packed weights taken from" in done.stderr, (what, state, done.stderr)
        shutil.rmtree(environment["XDG_CACHE_HOME"] + "/tenon/packed")
    done = run(*command, "--packed", "off", environment=environment, before=before)
    assert done.returncode == 1 and "bytes wanted" in done.stderr and "are free" in done.stderr, (what, done.stderr)


def check_addresses(environment, command):
    """Under ulimit -v a file larger than the limit can't be mapped."""
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    done = run(*command, environment=environment, before=limit)
    assert done.returncode == 1 and MODEL in done.stderr and "bytes wanted" in done.stderr and "are free" in done.stderr, done.stderr


def make_cgroup():
    """A cgroup of its own with the memory limit, of either version; or None with the reason."""
    tried = []
    for root, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        path = f"{root}/tenon-test-{os.getpid()}"
        try:
            os.mkdir(path)
            with open(path + "/" + limit, "w") as file:
                file.write(str(MEMORY))
            return path, ""
        except OSError as error:
            tried.append(str(error))
            if os.path.isdir(path):
                os.rmdir(path)
    return None, "; ".join(tried)


with tempfile.TemporaryDirectory() as temporary:
    check_contents(temporary)
    check_key(temporary)
    check_placement(temporary)
    automatic = check_automatic(temporary)
    check_limited(*automatic, limit_data, "ulimit -d")
    check_addresses(*automatic[:2])
    cgroup, reason = make_cgroup()
    if cgroup:
        def enter():
            with open(cgroup + "/cgroup.procs", "w") as file:
                file.write(str(os.getpid()))

        try:
            run(*automatic[1], environment=automatic[0])  # stores it again
            check_limited(*automatic, enter, "cgroup")
        finally:
            os.rmdir(cgroup)
    else:
        print(f"skipped: the limit by cgroup, as none can be made here: {reason}")
print("ok")
