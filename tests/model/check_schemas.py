"""check_schemas.py TENON MODEL COUNT: answers of a model under schemas, sampled at temperature 1.5 and checked with the
jsonschema package, formats included: those of data/grammar and the ones below, in turn. Each answer must be valid, or
have ended by length and say so (formats as of draft 2020-12: the plain FormatChecker has times of draft 3). Run by hand
(needs PyPI jsonschema[format]); test_schemas.c is the test."""
import json
import os
import subprocess
import sys
import tempfile

import jsonschema

CASES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "grammar", "schema.jsonl")


def obj(properties, required=None, **more):
    return {"type": "object", "properties": properties, "required": list(properties) if required is None else required,
            "additionalProperties": False, **more}


FORMATS = ["date", "time", "date-time", "duration", "uuid", "email", "hostname", "ipv4", "ipv6", "uri", "json-pointer"]
TREE = {"$defs": {"tree": obj({"name": {"type": "string", "maxLength": 8},
                               "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 2}})},
        "$ref": "#/$defs/tree"}
EXPRESSION = {"$defs": {"e": {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 9},
                                        obj({"op": {"enum": ["+", "*"]}, "left": {"$ref": "#/$defs/e"},
                                             "right": {"$ref": "#/$defs/e"}})]}}, "$ref": "#/$defs/e"}
HARD = [
    TREE,
    EXPRESSION,
    obj({f: {"type": "string", "format": f} for f in FORMATS[:4]}),
    obj({f: {"type": "string", "format": f} for f in FORMATS[4:8]}),
    obj({f: {"type": "string", "format": f} for f in FORMATS[8:]}),
    obj({"a": {"type": "integer", "minimum": -17, "maximum": 3}, "b": {"type": "number", "exclusiveMinimum": 0.25, "maximum": 7.5},
         "c": {"type": "integer", "multipleOf": 7, "minimum": 10}, "d": {"type": "number", "multipleOf": 0.25, "maximum": 0}}),
    obj({"code": {"type": "string", "pattern": "^[A-Z]{2}-\\d{3,5}$"}, "any": {"type": "string", "pattern": "b.d"},
         "not": {"type": "string", "pattern": "^(?!no)[a-z]{2,6}$"}, "len": {"type": "string", "minLength": 3, "maxLength": 5}}),
    {"type": "array", "prefixItems": [{"type": "string", "maxLength": 4}, {"type": "boolean"}], "items": {"type": "null"},
     "minItems": 2, "maxItems": 4},
    {"oneOf": [obj({"kind": {"const": "circle"}, "radius": {"type": "number", "minimum": 0}}),
               obj({"kind": {"const": "box"}, "size": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}})]},
    {"type": "object", "patternProperties": {"^n_[a-z]+$": {"type": "number"}, "^s_": {"type": "string", "maxLength": 5}},
     "additionalProperties": False, "maxProperties": 4},
    {"type": "object", "propertyNames": {"pattern": "^[a-z]{1,4}$"}, "additionalProperties": {"type": "integer"}, "minProperties": 1},
    {"allOf": [{"type": "object", "properties": {"x": {"type": "integer", "minimum": 5}}, "required": ["x"]},
               {"properties": {"x": {"maximum": 12}, "y": {"type": ["string", "null"], "maxLength": 3}}}]},
    obj({"m": {"type": "array", "items": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 1},
                                          "minItems": 2, "maxItems": 2}, "minItems": 2, "maxItems": 2}}),
    {"type": "object"}, {"type": "array", "items": {"type": "string"}}, {},
]


def answer(tenon, model, schema, seed, path):
    """What became of one answer, and what is wrong with it."""
    with open(path, "w", encoding="utf-8") as file:
        json.dump(schema, file)
    result = subprocess.run([tenon, "run", model, "-p", "Give me an example.", "--schema", path, "--temp", "1.5", "--seed",
                             str(seed), "-n", "96", "--ctx", "512", "--threads", "1"], capture_output=True, timeout=300)
    if result.returncode:
        return "refused", None
    if b"by length" in result.stderr:
        return "by length", None
    try:
        jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER).validate(json.loads(result.stdout))
        return "valid", None
    except (ValueError, jsonschema.ValidationError) as fault:
        return "wrong", "%s %s %s" % (json.dumps(schema), result.stdout, str(fault).splitlines()[0])


def main():
    tenon, model, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with open(CASES, encoding="utf-8") as file:
        cases = [case["schema"] for case in map(json.loads, file)]
    sums = {"valid": 0, "by length": 0, "refused": 0, "wrong": 0}
    with tempfile.TemporaryDirectory() as folder:
        for i in range(count):
            schema = HARD[i // 2 % len(HARD)] if i % 2 else cases[i * len(cases) // count]
            kind, fault = answer(tenon, model, schema, i, os.path.join(folder, "schema.json"))
            sums[kind] += 1
            if fault:
                print(fault, flush=True)
    print(sums)
    return 1 if sums["wrong"] or not sums["valid"] else 0


if __name__ == "__main__":
    sys.exit(main())
