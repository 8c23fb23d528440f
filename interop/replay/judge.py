"""Judges request bodies by the types of the official SDKs: judge.py FILE..., each named NAME.FORM.json.

The SDKs' parameter types are TypedDicts, which pydantic checks. They are made strict first: a key that a type does not have is refused at every
depth, and lists are looked into at once (an Iterable would be when somebody reads it, which is never).
"""

import json
import sys
import typing
from pathlib import Path

typing.Iterable = typing.List  # before the SDKs take it

import anthropic.types.message_create_params as anthropic_params  # noqa: E402
import openai.types.chat.completion_create_params as chat_params  # noqa: E402
import openai.types.responses.response_create_params as responses_params  # noqa: E402
from pydantic import TypeAdapter, ValidationError  # noqa: E402
from typing_extensions import is_typeddict  # noqa: E402

TYPES = {
    "anthropic": anthropic_params.MessageCreateParamsNonStreaming,
    "openai-chat": chat_params.CompletionCreateParamsNonStreaming,
    "openai-responses": responses_params.ResponseCreateParamsNonStreaming,
}
# Parameters of API version 2023-06-01, in which replay asks; 2026-10-21, which the SDK speaks since its version 2, has them no longer.
RETIRED = {"anthropic": {"temperature", "top_p", "top_k"}}
# What was captured and goes through as it came may ask for a stream; what `--send` sends does not.
DELIVERY = {"stream", "stream_options"}

for name, module in list(sys.modules.items()):
    if name.startswith(("anthropic.types", "openai.types")):
        for t in vars(module).values():
            if is_typeddict(t) and not hasattr(t, "__pydantic_config__"):
                t.__pydantic_config__ = {"extra": "forbid"}

ADAPTERS = {form: TypeAdapter(t) for form, t in TYPES.items()}


def faults(form, body):
    """What is wrong with a body of a form, in lines."""
    body = {k: v for k, v in body.items() if k not in DELIVERY | RETIRED.get(form, set())}
    try:
        ADAPTERS[form].validate_python(body, strict=True)
    except ValidationError as e:
        return [f"{'.'.join(map(str, x['loc']))}: {x['msg']}" for x in e.errors()[:12]]
    return []


# A judge that refuses nothing is none.
WRONG = {
    "anthropic": [
        {"model": "m", "messages": []},
        {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": [{"type": "text"}]}]},
        {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "x", "timestamp": 1}]},
        {"model": "m", "max_tokens": 1, "messages": [{"role": "tool", "content": "x"}]},
    ],
    "openai-chat": [
        {"model": "m", "messages": [{"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": {}}}]}]},
        {"model": "m", "messages": [{"role": "user", "content": [{"type": "image"}]}]},
    ],
    "openai-responses": [
        {"model": "m", "input": [{"type": "function_call", "name": "f", "arguments": "{}"}]},
        {"model": "m", "input": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]},
    ],
}


def main():
    for form, bodies in WRONG.items():
        for body in bodies:
            if not faults(form, body):
                print(f"the types take a body that is wrong: {form} {json.dumps(body)}")
                return 1
    wrong = 0
    for path in map(Path, sys.argv[1:]):
        found = faults(path.name.split(".")[-2], json.loads(path.read_bytes()))
        for fault in found:
            print(f"{path.name}: {fault}")
        wrong += bool(found)
    print(f"{len(sys.argv) - 1} bodies, {wrong} refused")
    return 1 if wrong or len(sys.argv) < 2 else 0


if __name__ == "__main__":
    sys.exit(main())
