#!/usr/bin/env python3
"""Renders chat templates with Python's jinja2, set up as transformers does, on the cases of chat_cases.json.

    python3 chat_golden.py FOLDER_OF_TEMPLATES VOCABULARY_WITH_TEMPLATE.gguf

Needs jinja2 and gguf. Writes beside itself: chat_golden.json, which holds for each template and case the
64-bit FNV-1a hash of the rendering (or `raised: …`, or `error`); chat_full.json, the whole text for the
families that run first; and jinja_golden.json, what the templates of jinja_snippets.json give (null for an error).
The versions used stand in each.
"""

import datetime
import json
import pathlib
import platform
import sys

import gguf
import jinja2
import jinja2.ext
import jinja2.sandbox

HERE = pathlib.Path(__file__).parent
NOW = datetime.datetime(2026, 11, 21, 10, 30, 0)
FULL_TEMPLATES = [
    "meta-llama-Llama-3.1-8B-Instruct.jinja",
    "meta-llama-Llama-3.2-3B-Instruct.jinja",
    "Qwen-Qwen2.5-7B-Instruct.jinja",
    "Qwen-Qwen3-0.6B.jinja",
    "mistralai-Mistral-Nemo-Instruct-2407.jinja",
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B.jinja",
    "chatml",
]
FULL_CASES = ["system_and_user", "turns", "thinking_in_content", "tool_result"]


SNIPPET_VARIABLES = {"s": "hello", "l": [1, 2, 3], "d": {"a": 1, "b": {"c": [{"d": 4}]}}}


class Raised(Exception):
    pass


class Generation(jinja2.ext.Extension):
    """`{% generation %}` marks what an assistant wrote; its body is rendered as it is."""

    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise Raised(message)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


def render(source, case):
    variables = {"tools": None, "documents": None, "bos_token": "<|bos|>", "eos_token": "<|eos|>"}
    variables |= case.get("variables", {})
    generate = case.get("add_generation_prompt", False)
    try:
        template = environment().from_string(source)
        return template.render(messages=case["messages"], add_generation_prompt=generate, **variables)
    except Raised as raised:
        return raised
    except Exception as error:
        return error


def summary(rendered):
    if isinstance(rendered, Raised):
        return f"raised: {rendered}"
    if isinstance(rendered, Exception):
        return "error"
    state = 0xCBF29CE484222325
    for byte in rendered.encode():
        state = (state ^ byte) * 0x100000001B3 % 2**64
    return f"{state:016x}"


def write(name, body):
    versions = {"python": platform.python_version(), "jinja2": jinja2.__version__}
    text = json.dumps({"versions": versions, **body}, ensure_ascii=False, indent=1)
    (HERE / name).write_text(text + "\n")


def main():
    cases = json.loads((HERE / "chat_cases.json").read_text())
    folder = pathlib.Path(sys.argv[1])
    sources = {path.name: path.read_text() for path in sorted(folder.glob("*.jinja"))}
    field = gguf.GGUFReader(sys.argv[2]).get_field("tokenizer.chat_template")
    sources["chatml"] = field.contents()
    golden, full, why = {}, {}, {}
    for name, source in sources.items():
        rendered = {case: render(source, body) for case, body in cases.items()}
        golden[name] = {case: summary(text) for case, text in rendered.items()}
        if name in FULL_TEMPLATES:
            full[name] = {case: rendered[case] for case in FULL_CASES if isinstance(rendered[case], str)}
        for case, error in rendered.items():
            if isinstance(error, Exception) and not isinstance(error, Raised):
                print(f"{name}: {case}: {type(error).__name__}: {error}"[:160], file=sys.stderr)
    write("chat_golden.json", {"renderings": golden})
    write("chat_full.json", {"renderings": full})
    snippets = json.loads((HERE / "jinja_snippets.json").read_text())
    case = {"messages": [{"role": "user", "content": "Hi"}], "variables": SNIPPET_VARIABLES}
    rendered = [render(snippet, case) for snippet in snippets]
    write("jinja_golden.json", {"renderings": [text if isinstance(text, str) else None for text in rendered]})
    n = sum(len(cases) for cases in golden.values())
    ok = sum(not v.startswith(("raised", "error")) for cases in golden.values() for v in cases.values())
    print(f"{len(golden)} templates, {n} renderings, {ok} of them text")


main()
