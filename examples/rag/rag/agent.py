"""An agent that uses the search as a tool: a chat with tools until the model answers."""

import json

from . import answers, pipeline

TOOL = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "Searches the documents and returns numbered passages.",
        "parameters": {
            "type": "object",
            "properties": {"query": {"type": "string", "minLength": 1, "maxLength": 200, "description": "a question, or words"}},
            "required": ["query"],
            "additionalProperties": False,
        },
        "strict": True,
    },
}
SYSTEM = "You answer questions about documents that you have not read. Search them with the tool `search` first."


def run(store, service, question, rounds=3, count=3, exact=True, trace=None, **options):
    """Answers a question by searches that the model words itself. Returns the queries, the chunks that they found, and the `Answer`.

    The first step must be a search; then the model may search again, up to `rounds` times in all. The answer is written over all chunks
    found, with checked citations.
    """
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
    queries, found = [], []
    for step in range(rounds):
        message = service.chat(messages, tools=[TOOL], tool_choice="required" if step == 0 else "auto", max_tokens=200, temperature=0, seed=0)
        if not message.tool_calls:
            break
        messages.append({"role": "assistant", "content": message.content or "", "tool_calls": [c.model_dump() for c in message.tool_calls]})
        repeated = True
        for call in message.tool_calls:
            query = json.loads(call.function.arguments)["query"]
            repeated &= query in queries
            queries.append(query)
            new = [c for c in pipeline.search(store, service, query, count, **options) if c not in found]
            found += new
            text = "\n\n".join(f"[{found.index(c) + 1}] {c.text}" for c in new) or "Nothing new was found."
            messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
            if trace:
                trace(query, new)
        if repeated:
            break
    return queries, found, answers.answer(service, question, found, exact)
