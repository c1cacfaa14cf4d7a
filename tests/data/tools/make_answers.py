"""Writes answers.jsonl: answers as models write them, and what they mean. Run by hand; written for tenon.

A line: {id, template | words, tools (missing: the two below), text, content, reasoning, calls, open}. `template` is a file of
../templates; `words` stands for a template that has these words in it. `open`: the prompt left reasoning open."""
import json
import os

HERMES, TAGGED, LLAMA = "Qwen-Qwen3-0.6B.jinja", "Qwen3.5-4B.jinja", "meta-llama-Llama-3.1-8B-Instruct.jinja"
CHANNELS, GEMMA = "openai-gpt-oss-120b.jinja", "google-gemma-4-31B-it.jinja"
OLD_HERMES = "Qwen-Qwen2.5-7B-Instruct.jinja"
MISTRAL, DEEPSEEK = "[TOOL_CALLS] [ARGS] [THINK]", "<｜tool▁calls▁begin｜> <｜tool▁sep｜> </think>"
CASES = []


def case(name, template, text, content="", calls=(), reasoning="", open=False):
    where = {"template": template} if template.endswith(".jinja") else {"words": template}
    CASES.append({"id": name, **where, "text": text, "content": content, "reasoning": reasoning,
                  "calls": [{"name": n, "arguments": a} for n, a in calls], **({"open": True} if open else {})})


def refused(name, template, text):
    """Looks like a call and is none: all of it is content."""
    case(name, template, text, content=text)


WEATHER = ("weather", {"city": "Zürich"})
def body(**more): return '{"name": "weather", "arguments": {"city": "Zürich"}}'
def hermes(inner): return "<tool_call>\n" + inner + "\n</tool_call>"


case("hermes one", HERMES, hermes(body()), calls=[WEATHER])
case("hermes text before", HERMES, "Let me see.\n\n" + hermes(body()), "Let me see.", [WEATHER])
case("hermes text after", HERMES, hermes(body()) + "\nDone.", "\nDone.", [WEATHER])
case("hermes two", HERMES, hermes(body()) + "\n" + hermes('{"name": "add", "arguments": {"a": 1, "b": -2.5e3}}'),
     calls=[WEATHER, ("add", {"a": 1, "b": -2500.0})])
case("hermes two in one", HERMES, hermes(body() + "\n" + body()), calls=[WEATHER, WEATHER])
case("hermes without the end", HERMES, "<tool_call>" + body(), calls=[WEATHER])
case("hermes arguments first", HERMES, hermes('{"arguments": {"city": "x"}, "name": "weather"}'), calls=[("weather", {"city": "x"})])
case("hermes arguments as text", HERMES, hermes('{"name": "weather", "arguments": "{\\"city\\": \\"x\\"}"}'), calls=[("weather", {"city": "x"})])
case("hermes no arguments", HERMES, hermes('{"name": "weather"}'), calls=[("weather", {})])
case("hermes null arguments", HERMES, hermes('{"name": "weather", "arguments": null}'), calls=[("weather", {})])
case("hermes end inside a text", HERMES, hermes('{"name": "weather", "arguments": {"city": "</tool_call> \\" \\\\"}}'),
     calls=[("weather", {"city": '</tool_call> " \\'})])
case("hermes begin inside a text", HERMES, hermes('{"name": "weather", "arguments": {"city": "<tool_call>{}"}}'), calls=[("weather", {"city": "<tool_call>{}"})])
case("hermes nested", HERMES, hermes('{"name": "add", "arguments": {"a": [[{"x": {}}], null, true], "b": "{"}}'), calls=[("add", {"a": [[{"x": {}}], None, True], "b": "{"})])
case("hermes tight", HERMES, '<tool_call>{"name":"add","arguments":{"a":1}}</tool_call>', calls=[("add", {"a": 1})])
case("hermes escapes", HERMES, hermes('{"name": "weather", "arguments": {"city": "\\u00e9\\ud83d\\ude00\\n"}}'), calls=[("weather", {"city": "é😀\n"})])
refused("hermes cut", HERMES, '<tool_call>\n{"name": "weather", "arguments": {"city": "Z')
refused("hermes unknown tool", HERMES, hermes('{"name": "rm", "arguments": {}}'))
refused("hermes no JSON", HERMES, hermes("weather(city=Zürich)"))
refused("hermes a list as arguments", HERMES, hermes('{"name": "weather", "arguments": ["Zürich"]}'))
refused("hermes two names", HERMES, hermes('{"name": "weather", "name": "add", "arguments": {}}'))
refused("hermes trailing comma", HERMES, hermes('{"name": "weather", "arguments": {"city": "x",}}'))
refused("hermes text behind the object", HERMES, hermes(body() + " and so on"))
refused("hermes one good one bad", HERMES, hermes(body() + '\n{"name": "rm"}'))
refused("hermes lone surrogate", HERMES, hermes('{"name": "weather", "arguments": {"city": "\\ud83d"}}'))
refused("hermes empty", HERMES, "<tool_call></tool_call>")
case("hermes bad, then good", HERMES, "<tool_call>{}</tool_call> " + hermes(body()), "<tool_call>{}</tool_call>", [WEATHER])
refused("nearly a marker", HERMES, "a <tool_cal> b </tool_call> c <tool_call")
refused("white space stays", HERMES, "  \n a \n\n b \n ")
case("think, then text", HERMES, "<think>\nHm. é\n\n</think>\n\nYes.", "Yes.", reasoning="Hm. é")
case("think, then call", HERMES, "<think>\nI call.\n</think>\n\n" + hermes(body()), calls=[WEATHER], reasoning="I call.")
case("think about a call", HERMES, "<think>" + hermes(body()) + "</think>No.", "No.", reasoning=hermes(body()))
case("think, never ended", HERMES, "<think>\nI won", reasoning="I won")
case("think, empty", HERMES, "<think>\n\n</think>\n\nYes.", "Yes.")
case("think, nearly ended", HERMES, "<think>a </thin </think>b", "b", reasoning="a </thin")
case("think inside a text", HERMES, "The tag <think> begins </think> it.", "The tag <think> begins </think> it.")
case("think twice", HERMES, "<think>a</think>b<think>c</think>", "b<think>c</think>", reasoning="a")
case("think behind white space", HERMES, "\n <think>a</think>b", "b", reasoning="a")
case("open reasoning", TAGGED, "Hm.\n</think>\n\nYes.", "Yes.", reasoning="Hm.", open=True)
case("open reasoning, call", TAGGED, "Hm.\n</think>\n\n<tool_call>\n<function=weather>\n<parameter=city>\nZürich\n</parameter>\n</function>\n</tool_call>",
     calls=[WEATHER], reasoning="Hm.", open=True)
case("a template without reasoning", OLD_HERMES, "<think>a</think>", "<think>a</think>")


def tagged(name, **parameters):
    return "<tool_call>\n<function=%s>\n%s</function>\n</tool_call>" % (
        name, "".join("<parameter=%s>\n%s\n</parameter>\n" % p for p in parameters.items()))


case("tagged one", TAGGED, tagged("weather", city="Zürich"), calls=[WEATHER])
case("tagged numbers", TAGGED, tagged("add", a="1", b="-2.5"), calls=[("add", {"a": 1, "b": -2.5})])
case("tagged text that looks like a number", TAGGED, tagged("weather", city="12"), calls=[("weather", {"city": "12"})])
case("tagged no number", TAGGED, tagged("add", a="many"), calls=[("add", {"a": "many"})])
case("tagged lines", TAGGED, tagged("weather", city='a\n\n "b" \\ \t c\n'), calls=[("weather", {"city": 'a\n\n "b" \\ \t c\n'})])
case("tagged tags in a text", TAGGED, tagged("weather", city="a </parameter> <function=x> </function>"), calls=[("weather", {"city": "a </parameter> <function=x> </function>"})])
case("tagged list and object", TAGGED, tagged("search", words='["a", {"b": 1}]', exact="True", near="None"),
     calls=[("search", {"words": ["a", {"b": 1}], "exact": True, "near": None})])
case("tagged constants as JSON", TAGGED, tagged("search", exact="false", near="null"), calls=[("search", {"exact": False, "near": None})])
case("tagged unknown parameter", TAGGED, tagged("weather", days="3", note="warm"), calls=[("weather", {"days": 3, "note": "warm"})])
case("tagged nothing", TAGGED, tagged("weather"), calls=[("weather", {})])
case("tagged two", TAGGED, "Both.\n" + tagged("weather", city="a") + "\n" + tagged("add", a="1"), "Both.", [("weather", {"city": "a"}), ("add", {"a": 1})])
refused("tagged twice the same", TAGGED, "<tool_call><function=add><parameter=a>1</parameter><parameter=a>2</parameter></function></tool_call>")
refused("tagged cut", TAGGED, "<tool_call>\n<function=weather>\n<parameter=city>\nZür")
refused("tagged without the end", TAGGED, "<tool_call>\n<function=weather>\n<parameter=city>\nZürich\n</tool_call>")
refused("tagged unknown tool", TAGGED, tagged("rm", path="/"))
refused("tagged JSON", TAGGED, hermes(body()))

case("llama", LLAMA, '{"name": "weather", "parameters": {"city": "Zürich"}}', calls=[WEATHER])
case("llama arguments", LLAMA, '{"name": "weather", "arguments": {"city": "Zürich"}}', calls=[WEATHER])
case("llama typed", LLAMA, '{"type": "function", "name": "weather", "parameters": {"city": "Zürich"}}', calls=[WEATHER])
case("llama two", LLAMA, '{"name": "weather", "parameters": {"city": "Zürich"}}; {"name": "add", "parameters": {"a": 1}}', calls=[WEATHER, ("add", {"a": 1})])
case("llama tag", LLAMA, '<|python_tag|>{"name": "weather", "parameters": {"city": "Zürich"}}', calls=[WEATHER])
case("llama white space", LLAMA, '\n\n{ \n"name": "weather", "parameters": {"city": "Zürich"}}\n', calls=[WEATHER])
refused("llama JSON", LLAMA, '{"city": "Zürich", "name": "weather"} is JSON.')
refused("llama empty JSON", LLAMA, "{} is JSON.")
refused("llama code", LLAMA, "{ int a; }")
refused("llama unknown tool", LLAMA, '{"name": "rm", "parameters": {}}')
refused("llama text first", LLAMA, 'So: {"name": "weather", "parameters": {"city": "Zürich"}}')
refused("llama text behind", LLAMA, '{"name": "weather", "parameters": {"city": "Zürich"}} is it.')
refused("llama python", LLAMA, "<|python_tag|>print(1)")

case("mistral list", MISTRAL, '[TOOL_CALLS] [{"name": "weather", "arguments": {"city": "Zürich"}}, {"name": "add", "arguments": {"a": 1}, "id": "123456789"}]', calls=[WEATHER, ("add", {"a": 1})])
case("mistral name", MISTRAL, 'Let me see.[TOOL_CALLS]weather[ARGS]{"city": "Zürich"}', "Let me see.", [WEATHER])
case("mistral names", MISTRAL, '[TOOL_CALLS]weather[ARGS]{"city": "[TOOL_CALLS]"}[TOOL_CALLS]add[CALL_ID]123456789[ARGS]{"a": 1}', calls=[("weather", {"city": "[TOOL_CALLS]"}), ("add", {"a": 1})])
case("mistral name, no mark", MISTRAL, '[TOOL_CALLS]weather{"city": "Zürich"}', calls=[WEATHER])
case("mistral think", MISTRAL, "[THINK]Hm.[/THINK]Yes.", "Yes.", reasoning="Hm.")
refused("mistral cut", MISTRAL, '[TOOL_CALLS][{"name": "weather", "arguments": {"city": "Zürich"}}, {"na')
refused("mistral text", MISTRAL, "[TOOL_CALLS] of the trade")


def deepseek(*calls): return "<｜tool▁calls▁begin｜>" + "\n".join("<｜tool▁call▁begin｜>%s<｜tool▁call▁end｜>" % c for c in calls) + "<｜tool▁calls▁end｜>"


case("deepseek fenced", DEEPSEEK, deepseek('function<｜tool▁sep｜>weather\n```json\n{"city": "Zürich"}\n```'), calls=[WEATHER])
case("deepseek", DEEPSEEK, "I see.\n\n" + deepseek('weather<｜tool▁sep｜>{"city": "Zürich"}', 'add<｜tool▁sep｜>{"a": 1}'), "I see.", [WEATHER, ("add", {"a": 1})])
case("deepseek open reasoning", DEEPSEEK, "Hm.\n</think>\n\nYes.", "Yes.", reasoning="Hm.", open=True)
refused("deepseek cut", DEEPSEEK, '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{"city": "Zürich"}')
refused("deepseek one bad", DEEPSEEK, deepseek('weather<｜tool▁sep｜>{"city": "Zürich"}', "add<｜tool▁sep｜>1"))

case("channels final", CHANNELS, "<|channel|>final<|message|>Yes.\n\nNo. ", "Yes.\n\nNo. ")
case("channels analysis, final", CHANNELS, "<|channel|>analysis<|message|>Hm. é<|end|><|start|>assistant<|channel|>final<|message|>Yes.", "Yes.", reasoning="Hm. é")
case("channels call", CHANNELS, '<|channel|>analysis<|message|>I call.<|end|><|start|>assistant<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{"city": "Zürich"}<|call|>',
     calls=[WEATHER], reasoning="I call.")
case("channels call, recipient first", CHANNELS, ' to=functions.weather<|channel|>commentary json<|message|>{"city": "Zürich"}', calls=[WEATHER])
case("channels preamble and two calls", CHANNELS, '<|channel|>commentary<|message|>Let me see.<|end|><|start|>assistant to=functions.weather<|channel|>commentary json<|message|>{"city": "<|end|>"}<|call|>'
     '<|start|>assistant to=functions.add<|channel|>commentary json<|message|>{"a": 1}<|call|>', "Let me see.", [("weather", {"city": "<|end|>"}), ("add", {"a": 1})])
case("channels no header", CHANNELS, "Just a text.", "Just a text.")
case("channels long, no header", CHANNELS, "Just a text. " * 60, "Just a text. " * 60)
case("channels cut header", CHANNELS, "<|channel|>analysis<|message|>Hm.<|end|><|start|>assis", "<|start|>assis", reasoning="Hm.")
refused("channels cut call", CHANNELS, '<|channel|>commentary to=functions.weather json<|message|>{"city": "Zür')

Q = '<|"|>'
def gemma(inner): return "<|tool_call>call:" + inner + "<tool_call|>"
case("gemma", GEMMA, gemma("weather{city:" + Q + "Zürich" + Q + "}"), calls=[WEATHER])
case("gemma values", GEMMA, gemma("search{exact:true,near:null,words:[" + Q + 'a "b"' + Q + ",1.5,{k:" + Q + "<tool_call|>\n" + Q + ",e:{},l:[]}]}"),
     calls=[("search", {"exact": True, "near": None, "words": ['a "b"', 1.5, {"k": "<tool_call|>\n", "e": {}, "l": []}]})])
case("gemma two", GEMMA, gemma("weather{city:" + Q + Q + "}") + gemma("add{a:1,b:2}"), calls=[("weather", {"city": ""}), ("add", {"a": 1, "b": 2})])
case("gemma nothing", GEMMA, "Well.\n" + gemma("weather{}"), "Well.", [("weather", {})])
case("gemma thought", GEMMA, "<|channel>thought\nHm.\n<channel|>Yes.", "Yes.", reasoning="Hm.")
case("gemma thought, call", GEMMA, "<|channel>thought\nHm.\n<channel|>" + gemma("add{a:1}"), calls=[("add", {"a": 1})], reasoning="Hm.")
refused("gemma cut", GEMMA, "<|tool_call>call:weather{city:" + Q + "Zü")
refused("gemma twice a comma", GEMMA, gemma("add{a:1,,b:2}"))
refused("gemma no value", GEMMA, gemma("add{a:}"))
refused("gemma bare text", GEMMA, gemma("weather{city:Zürich}"))
refused("gemma unknown tool", GEMMA, gemma("rm{path:1}"))
refused("gemma text behind", GEMMA, gemma("add{a:1} x"))
refused("gemma deep", GEMMA, gemma("add{a:" + "[" * 100 + "]" * 100 + "}"))
refused("hermes deep", HERMES, hermes('{"name": "add", "arguments": {"a": ' + "[" * 100 + "]" * 100 + "}}"))

PHI, GRANITE, COMMAND = "<|tool_call|> <|/tool_call|>", "<|tool_call|>", "<|START_ACTION|> <|END_ACTION|> <|START_THINKING|> tool_name"
NEMOTRON, KIMI, SEED = "<TOOLCALL> </TOOLCALL> </think>", "<|tool_calls_section_begin|> <|tool_call_begin|>", "<seed:tool_call> <parameter= <seed:think>"
GLM, MINIMAX, FUNCTIONARY = "<tool_call> <arg_key> <think>", "<minimax:tool_call> <invoke name= <think>", "<function= </function>"
TWO = '[{"name": "weather", "arguments": {"city": "Zürich"}}, {"name": "add", "arguments": {"a": 1}}]'
BOTH = [WEATHER, ("add", {"a": 1})]
case("phi", PHI, "<|tool_call|>" + TWO + "<|/tool_call|>", calls=BOTH)
refused("phi no list", PHI, "<|tool_call|>" + body() + "<|/tool_call|>")
case("granite", GRANITE, "I see.<|tool_call|>" + TWO, "I see.", BOTH)
case("command", COMMAND, '<|START_THINKING|>Hm.<|END_THINKING|><|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "weather", "parameters": {"city": "Zürich"}}\n]<|END_ACTION|>',
     calls=[WEATHER], reasoning="Hm.")
case("nemotron", NEMOTRON, "<TOOLCALL>" + TWO + "</TOOLCALL>", calls=BOTH)
refused("nemotron cut", NEMOTRON, '<TOOLCALL>[{"name": "weather", "arguments": {"ci')


def kimi(*calls): return "<|tool_calls_section_begin|>" + "".join("<|tool_call_begin|>%s<|tool_call_argument_begin|>%s<|tool_call_end|>" % c for c in calls) + "<|tool_calls_section_end|>"


case("kimi", KIMI, "I see." + kimi(("functions.weather:0", '{"city": "Zürich"}'), ("functions.add:1", '{"a": 1}')), "I see.", BOTH)
refused("kimi unknown tool", KIMI, kimi(("functions.rm:0", "{}")))


def glm(name, *pairs): return "<tool_call>" + name + "\n" + "".join("<arg_key>%s</arg_key>\n<arg_value>%s</arg_value>\n" % p for p in pairs) + "</tool_call>"


case("glm", GLM, "<think>Hm.</think>\n" + glm("weather", ("city", "Zürich")) + "\n" + glm("add", ("a", "1")), calls=BOTH, reasoning="Hm.")
case("glm lines", GLM, glm("search", ("words", '["a"]'), ("near", "</arg_value> x\n")), calls=[("search", {"words": ["a"], "near": "</arg_value> x\n"})])
case("glm tight", GLM, "<tool_call>add<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>", calls=[("add", {"a": 1})])
case("glm nothing", GLM, "<tool_call>search</tool_call>", calls=[("search", {})])
refused("glm cut", GLM, "<tool_call>add\n<arg_key>a</arg_key>\n<arg_val")


def minimax(*calls): return "<minimax:tool_call>\n" + "".join('<invoke name="%s">\n%s</invoke>\n' % (n, "".join('<parameter name="%s">%s</parameter>\n' % p for p in a)) for n, a in calls) + "</minimax:tool_call>"


case("minimax", MINIMAX, "<think>Hm.</think>\n\n" + minimax(("weather", [("city", "Zürich")]), ("add", [("a", "1")])), calls=BOTH, reasoning="Hm.")
case("seed", SEED, "<seed:think>Hm.</seed:think><seed:tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n</function>\n</seed:tool_call>",
     calls=[("add", {"a": 1})], reasoning="Hm.")
case("functionary", FUNCTIONARY, 'So.<function=weather>{"city": "Zürich"}</function><function=add>{"a": 1}</function>', "So.", BOTH)
refused("functionary unknown tool", FUNCTIONARY, "<function=rm>{}</function>")

for template in (HERMES, TAGGED, LLAMA, CHANNELS, GEMMA, MISTRAL, DEEPSEEK, PHI, GRANITE, COMMAND, NEMOTRON, KIMI, SEED, GLM, MINIMAX, FUNCTIONARY):
    short = template.split(".")[0][:12]
    plain = "é 👩‍👩‍👧 \u0301\u200d x\ufffd < [ <| <｜ { } \" \\ end"
    case("plain text " + short, template, plain, content=plain)

path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "answers.jsonl")
with open(path, "w", encoding="utf-8") as file:
    for line in CASES:
        file.write(json.dumps(line, ensure_ascii=False) + "\n")
print(len(CASES), "cases")
