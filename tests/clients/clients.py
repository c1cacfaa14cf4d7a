"""What the tests of this folder share: the environment with the client libraries, and servers with parrots to talk to.

The libraries are not of the standard library: `./dev test` makes an environment of requirements.txt and names its Python
in TENON_CLIENTS. Without it a test says so and is skipped, unless TENON_CLIENTS_REQUIRED is set."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE] + [os.path.join(os.path.dirname(HERE), folder) for folder in ("server", "e2e")]
SKIPPED = 77  # as tests/CMakeLists.txt has it

TEMPLATE = ("{# <tool_call> <think> </think> #}{% for t in tools or [] %}tool {{ t.function.name }};{% endfor %}"
            "{% for m in messages %}{{ m.role }}: {{ m.content }};{% endfor %}")
CALL = ["<tool_call>", '\n{"name": "add", "arguments": {"a": ', "1}}", "\n</tool_call>"]
SCRIPT = ["<think>", "Hm", ".</think>", "I add", ".\n", *CALL, "\n", *CALL]


def enter():
    """Goes on in the environment with the libraries, or ends the test."""
    python = os.environ.get("TENON_CLIENTS")
    if not python:
        print("the client libraries are not there: ./dev test installs them where it reaches PyPI")
        sys.exit(1 if os.environ.get("TENON_CLIENTS_REQUIRED") else SKIPPED)
    if os.path.abspath(sys.executable) != os.path.abspath(python):
        os.execv(python, [python, *sys.argv])


def parrot_server(tenon, folder, *options, script=SCRIPT):
    """A server whose model thinks "Hm.", says "I add." and calls add twice."""
    import parrots
    return parrots.parrot_server(tenon, folder, TEMPLATE, script, *options)


def tiny_model(data):
    return os.path.join(data, "golden", "llama", "model.gguf")
