"""Asks a server for objects through instructor: `python3 instructor_client.py BASE_URL`.

Every check is an assertion; the last line of a run in which all held is `ok`.
"""

import sys
from typing import Literal

import anthropic
import instructor
import openai
from pydantic import BaseModel, ConfigDict, Field


class Animal(BaseModel):
    """An animal and its legs."""

    # Further properties would go on for ever with a model that understands nothing.
    model_config = ConfigDict(extra="forbid")
    kind: Literal["fox", "wolf"]
    legs: int = Field(ge=0, le=9)


ask = dict(
    model="storyteller",
    response_model=Animal,
    messages=[{"role": "user", "content": "Once upon a time there was a fox with four legs"}],
    max_tokens=200,
    max_retries=0,
)
for mode, more in ((instructor.Mode.JSON_SCHEMA, {}), (instructor.Mode.TOOLS_STRICT, {"parallel_tool_calls": False})):
    client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="secret of ada", max_retries=0)
    found = instructor.from_openai(client, mode=mode).chat.completions.create(**ask, **more, seed=1)
    assert isinstance(found, Animal) and 0 <= found.legs <= 9, mode
    *_, last = instructor.from_openai(client, mode=mode).chat.completions.create_partial(**ask, **more, seed=1)
    Animal.model_validate(last.model_dump())

client = anthropic.Anthropic(base_url=sys.argv[1], api_key="secret of ada", max_retries=0)
found = instructor.from_anthropic(client, mode=instructor.Mode.ANTHROPIC_TOOLS).create(**ask)
assert isinstance(found, Animal) and found.kind in ("fox", "wolf")

print("ok")
