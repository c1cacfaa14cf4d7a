"""Runs the commands of a test that needs a device, one after the other, and ends with the first failure:

    with-device.py TENON [--optional SPEC...] -- COMMAND [arguments] [-- COMMAND [arguments]]...

Where one of the optional devices is not on this machine the test is skipped (exit status 77), unless the environment
has TENON_DEVICES_REQUIRED."""
import json
import os
import subprocess
import sys

at = sys.argv.index("--")
tenon, *words = sys.argv[1:at]
commands = [[]]
for word in sys.argv[at + 1:]:
    if word == "--":
        commands.append([])
    else:
        commands[-1].append(word)


def missing(spec):
    """Why there is no such device to test on, or None."""
    driver = spec.split(",")[0].split(":")[0]
    result = subprocess.run([tenon, "devices", "--driver", driver, "--json"], capture_output=True, text=True, timeout=60)
    if result.returncode:
        return result.stderr.strip()
    listed = json.loads(result.stdout)[0]
    return None if listed["devices"] else listed["reason"] or "the driver sees no device"


for spec in words[1:]:
    why = missing(spec)
    if why and not os.environ.get("TENON_DEVICES_REQUIRED"):
        print(f"skipped: {spec}: {why}")
        sys.exit(77)
for command in commands:
    status = subprocess.run(command).returncode
    if status:
        sys.exit(f"{' '.join(command)}: exit status {status}")
