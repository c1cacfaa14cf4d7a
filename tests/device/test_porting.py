"""docs/porting-a-device.md, followed: its commands are run in order, in a folder that holds the minimal driver, the
toy and a small model, against an installed prefix. Blocks marked `sh fails` hold commands that end with status 1. And docs/ops.md is
what `tenon devices --ops` prints."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

TENON, DATA = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FENCE = re.compile(r"^```sh([^\n]*)\n(.*?)^```", re.M | re.S)


def commands():
    with open(os.path.join(ROOT, "docs", "porting-a-device.md"), encoding="utf-8") as file:
        text = file.read()
    for info, body in FENCE.findall(text):
        for line in body.replace("\\\n", " ").splitlines():
            if line.strip():
                yield line, info.strip() == "fails"


def follow(folder):
    prefix, work = os.path.join(folder, "prefix"), os.path.join(folder, "work")
    subprocess.run(["cmake", "--install", os.path.dirname(TENON), "--prefix", prefix], check=True,
                   stdout=subprocess.DEVNULL)
    os.mkdir(work)
    shutil.copy(os.path.join(ROOT, "examples", "driver-minimal", "driver.c"), work)
    shutil.copy(os.path.join(ROOT, "examples", "driver-toy", "driver.c"), os.path.join(work, "toy.c"))
    os.symlink(os.path.join(DATA, "golden", "llama", "model.gguf"), os.path.join(work, "MODEL"))
    (config,) = [at for at, _, names in os.walk(prefix) if "tenon-driver.pc" in names]
    environment = dict(os.environ, PKG_CONFIG_PATH=config, PATH=os.path.join(prefix, "bin") + ":" + os.environ["PATH"])
    count = 0
    for line, fails in commands():
        run = subprocess.run(["sh", "-c", line], cwd=work, env=environment, capture_output=True, text=True, timeout=120)
        if run.returncode != (1 if fails else 0):
            print("%s: status %d\n%s%s" % (line, run.returncode, run.stdout[-2000:], run.stderr[-2000:]))
            return False
        count += 1
    for name in ("my.so", "wrong.case", "trace.json", "logits.f32", "toy.so", "fixed.f32", "mixed.f32"):
        if not os.path.exists(os.path.join(work, name)):
            print("the guide no longer makes", name)
            return False
    return count > 10


def ops_are_documented():
    printed = subprocess.run([TENON, "devices", "--ops"], capture_output=True, text=True, check=True).stdout
    with open(os.path.join(ROOT, "docs", "ops.md"), encoding="utf-8") as file:
        if file.read() == printed:
            return True
    print("docs/ops.md is not what ops.def says: tenon devices --ops > docs/ops.md")
    return False


with tempfile.TemporaryDirectory(prefix="tenon-porting-") as scratch:
    done = follow(scratch)
sys.exit(0 if done and ops_are_documented() else 1)
