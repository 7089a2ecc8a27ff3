"""Lets an agent of LangChain use a tool through a server: `python3 langchain_agent.py BASE_URL`.

The model is a toy that understands nothing, so its first turn must call the tool and its second must not; what is
tested is that requests, calls, results and answers pass between agent and server as they should.
"""

import sys
from typing import Literal

from langchain.agents import create_agent
from langchain.agents.middleware import wrap_model_call
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

counted = []


@tool
def count_legs(animals: Literal[1, 2, 3]) -> int:
    """Counts the legs of so many animals."""
    counted.append(animals)
    return 4 * animals


@wrap_model_call
def first_a_call_then_an_answer(request, handler):
    called = any(isinstance(m, ToolMessage) for m in request.messages)
    # Strict schemas have no further properties, which the toy would go on inventing.
    settings = {"strict": True, "parallel_tool_calls": False}
    return handler(request.override(tool_choice="none" if called else "required", model_settings=settings))


model = ChatOpenAI(
    model="storyteller",
    base_url=sys.argv[1] + "/v1",
    api_key="secret of ada",
    max_tokens=200,
    seed=1,
    max_retries=0,
)
agent = create_agent(model, [count_legs], middleware=[first_a_call_then_an_answer])
said = agent.invoke({"messages": [{"role": "user", "content": "How many legs have three foxes?"}]})["messages"]
kinds = [type(m).__name__ for m in said]
assert kinds == ["HumanMessage", "AIMessage", "ToolMessage", "AIMessage"], said
call = said[1].tool_calls[0]
assert call["name"] == "count_legs" and counted == [call["args"]["animals"]]
assert said[2].tool_call_id == call["id"] and said[2].content == str(4 * counted[0])
assert isinstance(said[3], AIMessage) and not said[3].tool_calls and said[3].usage_metadata["output_tokens"] > 0

print("ok")
