"""check_schemas.py TENON MODEL COUNT: answers of a model under schemas of data/grammar, sampled at temperature 1.5 and checked
with the jsonschema package. Run by hand (needs PyPI jsonschema); test_schemas.c is the test."""
import json
import os
import subprocess
import sys
import tempfile

import jsonschema

CASES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "grammar", "schema.jsonl")


def main():
    tenon, model, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with open(CASES, encoding="utf-8") as file:
        schemas = [case["schema"] for case in map(json.loads, file)]
    sums = {"valid": 0, "by length": 0, "refused": 0, "wrong": 0}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "schema.json")
        for i in range(count):
            schema = schemas[i * len(schemas) // count]
            with open(path, "w", encoding="utf-8") as file:
                json.dump(schema, file)
            result = subprocess.run([tenon, "run", model, "-p", "Give me an example.", "--schema", path, "--temp", "1.5",
                                     "--seed", str(i), "-n", "64", "--ctx", "512"], capture_output=True, timeout=300)
            error = result.stderr.decode()
            if result.returncode:
                kind = "refused"
            elif "by length" in error:
                kind = "by length"
            else:
                try:
                    jsonschema.validate(json.loads(result.stdout), schema)
                    kind = "valid"
                except (ValueError, jsonschema.ValidationError) as fault:
                    kind = "wrong"
                    print(json.dumps(schema), result.stdout, str(fault).splitlines()[0])
            sums[kind] += 1
    print(sums)
    return 1 if sums["wrong"] or not sums["valid"] else 0


if __name__ == "__main__":
    sys.exit(main())
