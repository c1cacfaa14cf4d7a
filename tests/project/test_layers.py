"""Holds the include rules of docs/architecture.md: who may include whom, where the operating system may be called, and that
outside of a device's folder nobody names the device.

First the rules are tried on made-up lines that break them, then on every file under src/ and include/.
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# A layer may include itself and these; "tenon/X.h" are the public headers, the rest are folders of src/.
BASE = ["base", "tenon/status.h"]
DRIVER = BASE + ["tenon/device.h", "tenon/driver.h", "tenon/ops.def"]
LAYERS = {
    "base": ["tenon/status.h"],
    "tensor": DRIVER,
    "program": DRIVER + ["tensor"],
    "kernels": DRIVER + ["tensor"],
    "graph": DRIVER + ["tensor", "program"],
    "device": DRIVER + ["tensor", "program"],
    "device/*": DRIVER + ["tensor", "kernels"],
    "model": DRIVER + ["tenon/tenon.h", "tensor", "graph", "text"],
    "text": BASE,
    "text/jinja": BASE,
    "engine": DRIVER + ["tenon/tenon.h", "tensor", "program", "graph", "device", "model", "text"],
    "bundle": DRIVER + ["tensor", "program", "graph", "device"],
    "conformance": DRIVER + ["tensor", "program", "device"],
    "cli": BASE + ["tenon/tenon.h", "server/server.h"],
    "server": BASE + ["tenon/tenon.h"],
    "tools": None,  # anything but device folders
}
DEVICE_LIST = "device/builtin.c"  # the one file that names the device folders

# No C library below the graph: these folders are compiled for processors that have none.
FREESTANDING = ("tensor", "program", "kernels")
FREESTANDING_HEADERS = {"stddef.h", "stdint.h", "stdbool.h", "stdalign.h", "stdarg.h", "limits.h", "float.h"}
VECTOR_HEADERS = {"immintrin.h", "arm_neon.h", "hexagon_protos.h", "hexagon_types.h"}

OS_HEADERS = re.compile(
    r"^(sys|linux|asm|mach|arpa|net|netinet)/|^(unistd|fcntl|pthread|threads|dlfcn|signal|sched|semaphore|poll|dirent|"
    r"ftw|glob|netdb|pwd|grp|spawn|syslog|termios|time|ucontext|utime|windows|locale|mqueue|aio|ifaddrs)\.h$")
OS_CALLS = re.compile(
    r"(?<![\w.>])(fopen|freopen|fdopen|tmpfile|open|openat|creat|mmap|munmap|madvise|fork|vfork|exec[vl]p?e?|popen|"
    r"system|getenv|setenv|putenv|clock_gettime|gettimeofday|nanosleep|usleep|sleep|time|clock|localtime(?:_r)?|"
    r"gmtime(?:_r)?|signal|sigaction|raise|kill|dlopen|dlsym|dlclose|sysconf|isatty|remove|unlink|rename|mkdir|socket|"
    r"pthread_\w+|sem_\w+|thrd_\w+|mtx_\w+)\s*\(")
OS_RULE = "the operating system is called in src/base and src/device only"

# What a device is called is known in its own folder, and in the list of folders. Names that mean nothing else stand
# nowhere beyond that, not in a comment either; those that are words of their own in no text of a program as a device.
COMMON = {"cpu", "reference", "faulty"}
OTHER_DEVICES = {"toy", "cuda", "npusim"}  # not in the tree, or not a folder of src/device
NAMED = {  # (file, name): why
    ("src/tools/bench_model.c", "cpu"): "a field of its JSON: what the machine's processor is called",
    # kernels are of processors, as the compiler calls them
    ("src/kernels/simd/hvx.h", "hexagon"): "its vector unit",
    ("src/kernels/linear_hvx.c", "hexagon"): "its vector unit",
    ("src/kernels/kernels.h", "hexagon"): "which kernels there are, by processor",
    ("src/device/hexagon/dsp/kernels.c", "reference"): "the reference kernels, which it runs",
}

COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def blanked(text, strings):
    """The text with comments, and strings if asked, replaced by blanks; line numbers stay as they are."""
    def blank(match):
        token = match.group(0)
        return re.sub(r"[^\n]", " ", token) if token[0] == "/" or strings else token
    return COMMENT_OR_STRING.sub(blank, text)


def layer_of(path):
    """The layer of a file (its path below src/) and the folder that stands for the layer."""
    folder = os.path.dirname(path)
    parts = folder.split("/")
    if parts[0] == "device" and len(parts) > 1:
        return "device/*", "/".join(parts[:2])
    if parts[:2] == ["text", "jinja"]:
        return "text/jinja", "text/jinja"
    return parts[0], parts[0]


def include_fault(path, name):
    """What is wrong with `#include "name"` in the file, or None."""
    layer, own = layer_of(path)
    if layer not in LAYERS:
        return "the file lies in no layer"
    if "/" not in name or ".." in name.split("/"):
        return 'includes "%s": write "folder/file.h"' % name
    device = re.match(r"device/[^/]+(?=/)", name)
    if device and device.group(0) != own and path != DEVICE_LIST:
        return "names the device folder of another: %s" % name
    allowed = LAYERS[layer]
    if allowed is None or path == DEVICE_LIST and device:
        return None
    if any(name == one or name.startswith(one + "/") for one in allowed + [own]):
        return None
    return "%s may not include %s" % (layer, name)


def source_faults(path, text):
    """The faults of a file (its path below src/) as (line, what) pairs."""
    faults = []
    code = blanked(text, strings=False)
    top = path.split("/")[0]

    def fault(position, what):
        faults.append((code.count("\n", 0, position) + 1, what))

    for match in INCLUDE.finditer(code):
        kind, name = match.groups()
        if kind == '"':
            what = include_fault(path, name)
            if what:
                fault(match.start(2), what)
            continue
        if top not in ("base", "device") and OS_HEADERS.search(name):
            fault(match.start(2), "includes <%s>: %s" % (name, OS_RULE))
        vectors = VECTOR_HEADERS if path.startswith("kernels/simd/") else set()
        if top in FREESTANDING and name not in FREESTANDING_HEADERS | vectors:
            fault(match.start(2), "includes <%s>: %s is freestanding" % (name, top))
    if top not in ("base", "device"):
        for match in OS_CALLS.finditer(blanked(text, strings=True)):
            fault(match.start(), "calls %s(): %s" % (match.group(1), OS_RULE))
    return faults


def header_faults(name, text):
    """The faults of a public header: it needs freestanding headers and its neighbours, device.h only ops.def."""
    faults = []
    code = blanked(text, strings=False)
    neighbours = {"ops.def"} if name == "device.h" else {"status.h", "device.h", "tenon/status.h", "tenon/device.h"}
    for match in INCLUDE.finditer(code):
        kind, target = match.groups()
        if target not in (neighbours if kind == '"' else FREESTANDING_HEADERS):
            faults.append((code.count("\n", 0, match.start(2)) + 1, "a public header includes %s" % target))
    return faults


def device_names():
    folder = os.path.join(ROOT, "src", "device")
    return sorted({n for n in os.listdir(folder) if os.path.isdir(os.path.join(folder, n))} | OTHER_DEVICES)


def naming_faults(path, text, names):
    """The places where a file (its path below the root) names a device that is not its own, as (line, what) pairs."""
    faults = []
    if path == "src/" + DEVICE_LIST:
        return faults
    for name in names:
        if path.startswith("src/device/%s/" % name) or (path, name) in NAMED:
            continue
        if name in COMMON:
            places = (m for m in COMMENT_OR_STRING.finditer(text)
                      if m.group(0)[0] == '"' and re.match(r'"%s[":,]' % name, m.group(0)))
        else:
            places = re.finditer(r"(?<![a-zA-Z])%s(?![a-z])" % name, text, re.I)
        faults += [(text.count("\n", 0, m.start()) + 1, "names the device %s" % name) for m in places]
    return faults


def tree_faults():
    faults, files, devices = [], 0, device_names()
    for top, faults_of in (("src", source_faults), ("include/tenon", header_faults)):
        for folder, _, names in os.walk(os.path.join(ROOT, top)):
            for name in sorted(names):
                if not name.endswith((".c", ".h", ".def", ".inc")):
                    continue
                path = os.path.relpath(os.path.join(folder, name), os.path.join(ROOT, top))
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    text = file.read()
                found = faults_of(path, text) + naming_faults(os.path.join(top, path), text, devices)
                faults += ["%s/%s:%d: %s" % (top, path, line, what) for line, what in found]
                files += 1
    return faults, files


# (path, line of code, is it against the rules?)
TRIALS = [
    ("base/a.c", '#include "base/os.h"', False),
    ("base/a.c", '#include "tensor/dtype.h"', True),
    ("base/a.c", "#include <unistd.h>", False),
    ("tensor/a.c", '#include "program/program.h"', True),
    ("tensor/a.c", "#include <string.h>", True),
    ("tensor/a.c", '#include "tenon/device.h"', False),
    ("tensor/a.c", '#include "tenon/tenon.h"', True),
    ("program/a.c", '#include "tensor/dtype.h"', False),
    ("program/a.c", '#include "graph/graph.h"', True),
    ("kernels/a.c", '#include "kernels/simd/simd.h"', False),
    ("kernels/a.c", '#include "program/program.h"', True),
    ("kernels/a.c", "#include <math.h>", True),
    ("kernels/a.c", "#include <immintrin.h>", True),
    ("kernels/simd/avx2.h", "#include <immintrin.h>", False),
    ("kernels/reference/a.c", '#include "kernels/math.h"', False),
    ("graph/passes/a.c", '#include "graph/graph.h"', False),
    ("graph/a.c", '#include "model/model.h"', True),
    ("graph/a.c", '#include "../model/model.h"', True),
    ("graph/a.c", '#include "graph.h"', True),
    ("model/families/a.c", '#include "model/family.h"', False),
    ("model/a.c", '#include "device/registry.h"', True),
    ("model/a.c", '#include "engine/runner.h"', True),
    ("text/a.c", '#include "model/gguf.h"', True),
    ("text/a.c", '#include "text/jinja/jinja.h"', False),
    ("text/jinja/a.c", '#include "text/bpe.h"', True),
    ("text/jinja/a.c", '#include "text/jinja/jinja.h"', False),
    (DEVICE_LIST, '#include "device/cpu/cpu.h"', False),
    ("device/registry.c", '#include "device/cpu/cpu.h"', True),
    ("device/cpu/a.c", '#include "device/cpu/cpu.h"', False),
    ("device/cpu/a.c", '#include "device/reference/reference.h"', True),
    ("device/cpu/a.c", '#include "graph/graph.h"', True),
    ("device/cpu/a.c", '#include "kernels/kernels.h"', False),
    ("device/cpu/a.c", "#include <pthread.h>", False),
    ("engine/a.c", '#include "device/registry.h"', False),
    ("engine/a.c", '#include "device/cpu/cpu.h"', True),
    ("engine/a.c", "#include <pthread.h>", True),
    ("engine/a.c", "  pthread_create(&t, 0, f, 0);", True),
    ("engine/a.c", "  double t = (double)time(NULL);", True),
    ("engine/a.c", "  /* pthread_create( */ queue->open(queue); tn_sleep(1);", False),
    ("engine/a.c", '  puts("open(");', False),
    ("cli/run.c", '#include "tenon/tenon.h"', False),
    ("cli/run.c", '#include "cli/options.h"', False),
    ("cli/run.c", '#include "engine/engine.h"', True),
    ("cli/run.c", '#include "tenon/device.h"', True),
    ("server/http.c", '#include "model/model.h"', True),
    ("tools/a.c", '#include "engine/engine.h"', False),
    ("tools/a.c", '#include "device/cpu/cpu.h"', True),
    ("tools/a.c", '  FILE *f = fopen(path, "rb");', True),
    ("elsewhere/a.c", '#include "base/os.h"', True),
]


# (path, line of code, does it name a device that it may not?)
NAMING_TRIALS = [
    ("src/engine/a.c", 'const char *device = "cpu";', True),
    ("src/engine/a.c", 'open_device("cpu,threads=2");', True),
    ("src/engine/a.c", 'if (!strncmp(spec, "faulty:", 7)) return;', True),
    ("src/engine/a.c", 'puts("cpu time");', False),
    ("src/engine/a.c", "/* the reference, on the cpu */ tn_machine_cpus();", False),
    ("src/engine/a.c", "/* as a toy does */", True),
    ("src/engine/a.c", "tn_toy_open();", True),
    ("src/engine/a.c", "tn_toys_open(); /* Toyota */", False),
    ("include/tenon/a.h", "#define TN_TOY 1", True),
    ("src/device/cpu/a.c", 'name = "cpu";', False),
    ("src/device/cpu/a.c", 'name = "reference";', True),
    ("src/" + DEVICE_LIST, 'name = "faulty";', False),
]


def main():
    wrong = 0
    for path, line, refused in NAMING_TRIALS:
        if bool(naming_faults(path, line, device_names())) != refused:
            print("the rules %s '%s' in %s" % ("accept" if refused else "refuse", line, path))
            wrong += 1
    for path, line, refused in TRIALS:
        if bool(source_faults(path, "/* first line */\n" + line + "\n")) != refused:
            print("the rules %s '%s' in %s" % ("accept" if refused else "refuse", line, path))
            wrong += 1
    faults, files = tree_faults()
    print("\n".join(faults))
    print("%d files, %d faults" % (files, len(faults)))
    return 1 if wrong or faults or not files else 0


if __name__ == "__main__":
    sys.exit(main())
