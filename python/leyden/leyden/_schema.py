"""Schemas and grammars of answers, and tools as JSON."""

from __future__ import annotations

import inspect
import json
import typing
from typing import Any, Callable, Mapping, Sequence, Union

from ._native import RequestError

#: A JSON schema, its text, or a pydantic model.
Schema = Union[Mapping[str, Any], str, type]
#: A tool: its description in OpenAI's form, a function with type hints, or a pydantic model.
Tool = Union[Mapping[str, Any], Callable[..., Any]]


def is_pydantic(given: object) -> bool:
    """Returns whether an object is a class of pydantic's models."""
    return isinstance(given, type) and hasattr(given, "model_json_schema")


def closed(schema: Any) -> Any:
    """Returns a schema whose objects have no other properties than those that it names, unless it says so itself."""
    if isinstance(schema, Mapping):
        made = {key: closed(value) for key, value in schema.items()}
        if schema.get("type") == "object" and "properties" in schema:
            made.setdefault("additionalProperties", False)
        return made
    return [closed(value) for value in schema] if isinstance(schema, list) else schema


def schema_text(schema: Schema) -> str:
    """Returns a schema as JSON."""
    if isinstance(schema, str):
        return schema
    if is_pydantic(schema):
        return json.dumps(closed(schema.model_json_schema()))  # type: ignore[union-attr]
    if isinstance(schema, Mapping):
        return json.dumps(schema)
    raise RequestError(f"schema: a dictionary, JSON text or a pydantic model is expected, not {schema!r}")


def constraint(
    schema: Schema | None, regex: str | None, grammar: str | None, lark: str | None
) -> tuple[str, str] | None:
    """Returns the kind and text of the one grammar that is given."""
    given = [
        (kind, text)
        for kind, text in (
            ("json_schema", None if schema is None else schema_text(schema)),
            ("regex", regex),
            ("gbnf", grammar),
            ("lark", lark),
        )
        if text is not None
    ]
    if len(given) > 1:
        raise RequestError("schema, regex, grammar and lark exclude each other")
    return given[0] if given else None


def parsed(schema: Schema | None, text: str, finish: str) -> Any:
    """Returns an answer's JSON, or an instance of the pydantic model; None if the answer was cut off.

    Raises pydantic's ValidationError if a validator that no schema can express refuses the answer.
    """
    if schema is None or finish != "stop":
        return None
    try:
        value = json.loads(text)
    except ValueError:
        # A stop text may cut an answer off.
        return None
    return schema.model_validate_json(text) if is_pydantic(schema) else value  # type: ignore[union-attr]


_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}


def _type_schema(hint: Any) -> dict[str, Any]:
    """Returns the schema of a type hint; hints that are not known allow any value."""
    if hint in _TYPES:
        return {"type": _TYPES[hint]}
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin in (list, Sequence) and arguments:
        return {"type": "array", "items": _type_schema(arguments[0])}
    if type(None) in arguments:
        rest = [argument for argument in arguments if argument is not type(None)]
        return {"anyOf": [_type_schema(rest[0]), {"type": "null"}]} if len(rest) == 1 else {}
    if is_pydantic(hint):
        return dict(hint.model_json_schema())
    return {}


def _of_function(function: Callable[..., Any]) -> dict[str, Any]:
    hints = typing.get_type_hints(function)
    properties, required = {}, []
    for name, parameter in inspect.signature(function).parameters.items():
        properties[name] = _type_schema(hints.get(name))
        if parameter.default is inspect.Parameter.empty:
            required.append(name)
    parameters = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    described = inspect.getdoc(function) or ""
    return {"name": function.__name__, "description": described, "parameters": parameters}


def tools_text(tools: Sequence[Tool]) -> str:
    """Returns tools as JSON in OpenAI's form."""
    listed = []
    for tool in tools:
        if isinstance(tool, Mapping):
            described = dict(tool["function"] if "function" in tool else tool)
            if "parameters" in described:
                described["parameters"] = closed(described["parameters"])
            listed.append({"type": "function", "function": described})
        elif is_pydantic(tool):
            described = {
                "name": tool.__name__,
                "description": inspect.getdoc(tool) or "",
                "parameters": closed(tool.model_json_schema()),  # type: ignore[attr-defined]
            }
            listed.append({"type": "function", "function": described})
        elif callable(tool):
            listed.append({"type": "function", "function": _of_function(tool)})
        else:
            raise RequestError(f"tools: a description, a function or a pydantic model is expected, not {tool!r}")
    return json.dumps(listed)
