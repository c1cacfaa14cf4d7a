"""docs/devices.md against the build: for each driver that has a device here its column says what the device does, every op
has a row, every folder of a driver its line. Arguments: the tenon command, test data."""
import os
import re
import subprocess
import sys

TENON = sys.argv[1]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def table(text):
    """{op: {driver: cell}} of the first table."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    head = rows[0]
    ops = {}
    for row in rows[2:]:
        if len(row) != len(head):
            break
        ops[row[0]] = dict(zip(head[1:], row[1:]))
    return ops


with open(os.path.join(ROOT, "docs", "devices.md"), encoding="utf-8") as file:
    document = file.read()
printed = subprocess.run([TENON, "devices", "--coverage"], capture_output=True, text=True, check=True).stdout
written, got = table(document), table(printed)
faults = []
if set(written) != set(got) or len(got) < 20:
    faults.append("other ops are documented: %s" % sorted(set(written) ^ set(got)))
for op, cells in got.items():
    for driver, cell in cells.items():
        if written.get(op, {}).get(driver) != cell:
            faults.append("%s on %s: \"%s\", documented \"%s\"" % (op, driver, cell, written.get(op, {}).get(driver)))
folder = os.path.join(ROOT, "src", "device")
for name in sorted(os.listdir(folder)):
    if os.path.isdir(os.path.join(folder, name)) and not re.search(r"\| src/device/%s \| \d+ \|" % name, document):
        faults.append("src/device/%s has no line" % name)
print("\n".join(faults + ["%d faults; ./dev docs writes the document" % len(faults)]))
sys.exit(1 if faults else 0)
