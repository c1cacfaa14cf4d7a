"""tenon test-device against a driver library that lies: a clear error within its deadline, whatever the lie; and what
the command prints about honest devices."""
import json
import os
import subprocess
import sys
import time

TENON = sys.argv[1]
LIAR = os.path.join(os.path.dirname(TENON), "tests", "module-device-liar.so")


def test_device(*arguments, lie=None, limit=60):
    environment = dict(os.environ)
    environment.pop("TEST_LIE", None)
    if lie:
        environment["TEST_LIE"] = lie
    begin = time.monotonic()
    run = subprocess.run([TENON, "test-device", *arguments], capture_output=True, text=True, env=environment,
                         timeout=limit)
    return run, time.monotonic() - begin


def expect(condition, *what):
    if not condition:
        print(*what)
        sys.exit(1)


def liars():
    lies = {
        "abi": "speaks abi 7 to 7 of the device interface, tenon speaks 1",
        "claims-all": ": prepare: ",
        "garbage": "the driver answered a status that does not exist",
        "lost": "execute: device lost",
        "nothing": "instead of",
        "crashes": "tenon: crashed in linear: f32 x f32 [37,256] rows=1",
        "never-completes": "twice a step did not finish within 200 ms; giving up",
        "never-returns": "a call did not return within 1.2 s; giving up",
    }
    for lie, text in lies.items():
        run, seconds = test_device("--driver", LIAR, "--op", "linear", "--timeout-ms", "200", lie=lie)
        everything = run.stdout + run.stderr
        expect(run.returncode == 1, lie, "exit status", run.returncode, everything[-2000:])
        expect(text in everything, lie, "does not say", text, ":", everything[-2000:])
        expect(seconds < 30, lie, "took", seconds)
    run, _ = test_device("--driver", LIAR, "--op", "linear")
    expect(run.returncode == 0, "the honest module fails:", run.stdout[-2000:])


def command():
    run, _ = test_device("cpu", "--op", "add", "--report", "--json")
    answer = json.loads(run.stdout)
    expect(answer["summary"]["failed"] == 0 and answer["summary"]["passed"] >= 30, answer["summary"])
    expect(answer["coverage"] == [{"op": "add", "dtype": "f32", "native": answer["summary"]["passed"], "failed": 0,
                                   "fallback": 0}], answer["coverage"])
    run, _ = test_device("cpu", "--op", "softcap", "--perf", "--json")
    timed = json.loads(run.stdout)["results"]
    expect(len(timed) == 1 and timed[0]["seconds"] > 0 and timed[0]["percent_of_peak"] > 0, timed)
    run, _ = test_device("faulty:cpu,fault=no-bias", "--op", "linear")
    expect(run.returncode == 1 and "FAILED  linear: " in run.stdout, run.stdout[-2000:])
    for wrong, status in ((["cpu", "--op", "linaer"], 1), ([], 2), (["cpu", "--driver", LIAR], 2), (["no-such"], 1)):
        run, _ = test_device(*wrong)
        expect(run.returncode == status and run.stderr, wrong, run.returncode, run.stderr)


liars()
command()
