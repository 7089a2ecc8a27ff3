"""Asks a server for everything that its OpenAPI document allows and much that it forbids:
`python3 openapi_check.py BASE_URL [CASES]`, where CASES is the number of random requests per endpoint.

All checks of Schemathesis are on. The last line of a run in which all held is `ok`.
"""

import sys

import schemathesis
from schemathesis.cli import schemathesis as command
from schemathesis.core.failures import AcceptedNegativeData
from schemathesis.openapi.checks import RejectedPositiveData

# What no schema can say of a request, and the server therefore may refuse although the schema does not: whether a
# text is a grammar or a schema that can be enforced and has an answer, how many tokens it has, and which fields go
# together (the description of these fields says it).
BEYOND_SCHEMAS = {
    "invalid_grammar",
    "grammar_dead_end",
    "context_length_exceeded",
    "conflicting_parameters",
    "unsupported_model",
    # The id in `after` is one of the list.
    "unknown_item",
    # No header of a part can hold the name of a field.
    "invalid_form",
}

# The same where a dialect's errors have no codes, and that a text is not JSON, which its schema says it is.
WORDS_BEYOND_SCHEMAS = (
    "` is not JSON",
    "is not among the `tools`",
    "there are no `tools`",
    "exclude each other",
    "contradict each other",
    "`min_tokens` is greater than",
    "maximum context length",
    "the model does not",
    "the model has no calibration",
    "JSON schema: ",
    "continues the grammar",
    "does not support fill-in-the-middle",
    "`input` is empty",
    "each at most once",
)


@schemathesis.hook
def filter_failure(context, failure, case, response):
    # A body that is too large is refused before its fields are read.
    if isinstance(failure, AcceptedNegativeData) and response.status_code == 413:
        return False
    # Parts of a form have no types: null is the text "null".
    if isinstance(failure, AcceptedNegativeData) and case.operation.path == "/v1/files":
        return False
    if not isinstance(failure, RejectedPositiveData):
        return True
    body = response.json()
    error = body.get("error", body.get("message"))
    code, message = (None, error) if isinstance(error, str) else (error.get("code"), error["message"])
    return code not in BEYOND_SCHEMAS and not any(words in message for words in WORDS_BEYOND_SCHEMAS)


FOLLOWED = {"gbnf": "root ::= [a-z]+", "lark": 'start: "yes" | "no"', "regex": "[0-9]{1,3}"}


def followed(grammar):
    """A grammar in the place of a random text, of which hardly one is a grammar."""
    if isinstance(grammar, str) and len(grammar) < 1000 and len(grammar) % 2 == 0:
        return 'root ::= "yes" | "no"'
    if isinstance(grammar, dict) and set(grammar) == {"type", "value"} and isinstance(grammar["value"], str):
        return {**grammar, "value": FOLLOWED.get(str(grammar["type"]), grammar["value"])}
    return grammar


LENGTHS = {"max_tokens", "max_completion_tokens", "max_output_tokens", "n_predict"}


@schemathesis.hook
def before_call(context, case, kwargs):
    # Hundreds of long answers take minutes; the server's own tests go to the limits.
    for name in ("n", "best_of"):
        if isinstance(case.body, dict) and isinstance(case.body.get(name), int) and 0 < case.body[name] <= 128:
            case.body = {**case.body, name: min(case.body[name], 9)}
    if isinstance(case.body, dict) and case.operation.path.endswith("/completions"):
        if not LENGTHS & set(case.body):
            case.body = {**case.body, "max_tokens": 9}
    for name in LENGTHS:
        if isinstance(case.body, dict) and isinstance(case.body.get(name), int) and 9 < case.body[name] < 1 << 31:
            case.body = {**case.body, name: 9}
    if isinstance(case.body, dict) and "grammar" in case.body:
        case.body = {**case.body, "grammar": followed(case.body["grammar"])}


def ask(*more):
    try:
        command([*arguments, *more], standalone_mode=False)
    except SystemExit as end:
        if end.code:
            raise


url, cases = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
arguments = ["run", url + "/openapi.json", "--checks", "all", "--seed", "1"]
arguments += ["--continue-on-failure", "--generation-database", "none", "--no-color", "--request-timeout", "120"]
arguments += ["--header", "Authorization: Bearer secret of ada", "--suppress-health-check", "all"]
# The edges of their fields are tried one by one where there is time, and by the server's own tests.
DIALECTS = (
    "^/(api/|v1/messages|v1/responses|responses|completions?$|infill$|v2|apply-template|props|slots|chat/|embeddings?$|models"
    "|reranking|v1/reranking|v1/embed$|v1/health|v1/chat/completions/)"
)
if cases:
    ask("--max-examples", cases)
else:
    ask("--max-examples", "25", "--exclude-path-regex", DIALECTS)
    ask("--max-examples", "8", "--include-path-regex", DIALECTS, "--phases", "fuzzing")
print("ok")
