"""The OpenCL driver itself: devices by number and name, what it says where something is missing, the cache of built
kernels, no op of llama and gpt2 on another device, weights in pieces, counted ops. Arguments: the tenon command, test data."""
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

TENON, DATA = sys.argv[1], sys.argv[2]
LLAMA = os.path.join(DATA, "golden", "llama", "model.gguf")
# PoCL compiles anew for another cache folder; what is tried here is the driver's own.
POCL = os.environ.get("POCL_CACHE_DIR") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "pocl", "kcache")
failures = []


def expect(condition, *what):
    if not condition:
        failures.append(" ".join(map(str, what)))


def tenon(*arguments, **environment):
    return subprocess.run([TENON, *arguments], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "POCL_CACHE_DIR": POCL, **environment})


def devices(**environment):
    run = tenon("devices", "--driver", "opencl", "--json", **environment)
    expect(run.returncode == 0, run.stderr)
    return json.loads(run.stdout)[0]


def logits(device, out, **environment):
    return tenon("logits", LLAMA, "--tokens", "1,2,3", "--all", "--out", out, "--device", device, **environment)


def by_number_and_name():
    name = devices()["devices"][0]["properties"]["name"]
    part = name[len(name) // 3:].split(",")[0]
    for spec in ("opencl", "opencl:0", "opencl,name=" + part):
        expect(logits(spec, os.devnull).returncode == 0, spec)
    run = logits("opencl,name=no such device", os.devnull)
    expect(run.returncode == 1 and "no such device" in run.stderr and name in run.stderr, run.stderr)
    run = logits("opencl:99", os.devnull)
    expect(run.returncode == 1 and "no device 99" in run.stderr, run.stderr)
    # what a device can't do isn't silently dropped: an OpenCL runtime has threads of its own
    for option in ("colour=blue", "threads=2", "max-allocation=0", "max-allocation=12k", "max-allocation=9999999999999999999"):
        run = logits("opencl," + option, os.devnull)
        expect(run.returncode != 0 and option in run.stderr and "cache=0|1" in run.stderr, run.stderr)


def says_what_is_missing(folder):
    found = devices(OCL_ICD_VENDORS=os.path.join(folder, "none") + "/")
    expect(not found["devices"] and "no driver" in found["reason"] and "pocl-opencl-icd" in found["reason"], found)
    run = logits("opencl", os.devnull, OCL_ICD_VENDORS=os.path.join(folder, "none") + "/")
    expect(run.returncode == 1 and "no driver" in run.stderr, run.stderr)
    for name in ("libOpenCL.so.1", "libOpenCL.so"):
        with open(os.path.join(folder, name), "w") as file:
            file.write("no library")
    found = devices(LD_LIBRARY_PATH=folder)
    expect(not found["devices"] and "ocl-icd-libopencl1" in found["reason"], found)
    other = sorted(glob.glob("/lib/*/libz.so.1") + glob.glob("/usr/lib/*/libz.so.1") + glob.glob("/lib*/libz.so.1"))
    if other:
        os.remove(os.path.join(folder, "libOpenCL.so.1"))
        shutil.copy(other[0], os.path.join(folder, "libOpenCL.so.1"))
        found = devices(LD_LIBRARY_PATH=folder)
        expect(not found["devices"] and "lacks clGet" in found["reason"], found)


def cache(folder):
    """Written once, then read; a file that is cut, changed or another's is ignored and written anew."""
    home, outs = os.path.join(folder, "cache"), []

    def run(spec="opencl"):
        out = os.path.join(folder, "out")
        done = logits(spec, out, XDG_CACHE_HOME=home)
        expect(done.returncode == 0, done.stderr)
        with open(out, "rb") as file:
            outs.append(file.read())
        return glob.glob(os.path.join(home, "tenon", "opencl", "*"))

    expect(not run("opencl,cache=0"), "cache=0 has written")
    files = run()
    expect(len(files) == 1 and files[0].endswith(".bin"), files)
    path = files[0]
    whole = open(path, "rb").read()
    stamp = os.stat(path).st_mtime_ns
    expect(run() == files and os.stat(path).st_mtime_ns == stamp, "a whole file was written again")
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 4
    for bad in (b"", whole[:100], whole[:-1], whole + b"x", bytes(flipped), b"X" + whole[1:], os.urandom(5000)):
        with open(path, "wb") as file:
            file.write(bad)
        run()
        # whole again: other than it was, and the next start reads it. Its bytes aren't `whole`'s: PoCL's binary holds
        # what others have built of the same source meanwhile.
        with open(path, "rb") as file:
            expect(file.read() != bad, "a bad file of", len(bad), "bytes stays")
        stamp = os.stat(path).st_mtime_ns
        run()
        expect(os.stat(path).st_mtime_ns == stamp, "after a bad file of", len(bad), "bytes: written at every start")
    shutil.rmtree(home)
    with open(home, "w") as file:
        file.write("no folder")
    run()  # can't be kept: no failure
    expect(len(set(outs)) == 1, "results depend on the cache")


def nothing_falls_back():
    for name in ("llama", "gpt2", "llama-gqa3"):
        model = os.path.join(DATA, "golden", name, "model.gguf")
        run = tenon("inspect", model, "--placement", "--device", "opencl", "--json")
        expect(run.returncode == 0, run.stderr)
        placement = json.loads(run.stdout)
        expect([part["device"] for part in placement["parts"]] == ["opencl"] and not placement["fallbacks"], placement)


def weights_in_pieces(folder):
    """Weights of more bytes than the device gives at once lie in several buffers; the same bits come of them."""
    whole, pieces = os.path.join(folder, "whole"), os.path.join(folder, "pieces")
    size = os.path.getsize(LLAMA)
    run = logits("opencl", whole)
    expect(run.returncode == 0, run.stderr)
    for parts in (3, 6):
        run = logits(f"opencl,max-allocation={size // parts}", pieces)
        expect(run.returncode == 0, run.stderr)
        expect(run.returncode or open(whole, "rb").read() == open(pieces, "rb").read(), parts, "pieces: other logits")
    run = logits("opencl,max-allocation=1000", pieces)
    expect(run.returncode == 1 and "one piece may have 1000" in run.stderr, run.stderr)


def ops_are_counted():
    """Every op of every step once, by the device's own clock: no op takes no time, and none more than its step."""
    run = tenon("bench", "model", LLAMA, "-p", "16", "-n", "4", "-r", "1", "--device", "opencl", "--profile", "--json")
    expect(run.returncode == 0, run.stderr)
    results = json.loads(run.stdout)["results"] if run.returncode == 0 else []
    for result in results:
        calls = {op["op"]: op["calls"] for op in result["profile"]}
        steps = calls["embed"]
        expect(calls["attention"] % steps == 0 and calls["linear"] >= 4 * steps, calls)
        expect(abs(sum(op["percent"] for op in result["profile"]) - 100) < 0.01, result["profile"])
        expect(all(op["percent"] > 0 for op in result["profile"]), result["profile"])


def specialised_kernels(folder):
    """Kernels made for a format of weights give the bits of those that take every format."""
    bits = []
    for value in "01":
        out = os.path.join(folder, "specialise" + value)
        run = tenon("logits", LLAMA, "--tokens", "1,2,3,4,5,6,7", "--all", "--out", out, "--device",
                    "opencl,specialise=" + value, "--weights", "mxfp6")
        expect(run.returncode == 0, run.stderr)
        bits.append(run.returncode == 0 and open(out, "rb").read())
    expect(bits[0] == bits[1], "specialise=1: other logits")


with tempfile.TemporaryDirectory() as temporary:
    by_number_and_name()
    says_what_is_missing(temporary)
    cache(temporary)
    nothing_falls_back()
    weights_in_pieces(temporary)
    ops_are_counted()
    specialised_kernels(temporary)
print("\n".join(failures))
print(f"{len(failures)} failures")
sys.exit(1 if failures else 0)
