"""Asks a server for answers after real schemas: `python3 schemas_check.py BASE_URL FILE STEP SEEDS`.

FILE has a JSON object with `name` and `json` per line; of it every STEP-th schema is asked for with SEEDS seeds, 16
requests at a time. Every schema must be taken, or refused with a keyword and the place where it stands; every answer
that was finished within the context must parse and validate. Prints the figures, and `ok` if all held.
"""

import collections
import concurrent.futures
import json
import re
import sys
import urllib.error
import urllib.request

import jsonschema

url, file, step, seeds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])


def ask(schema, seed):
    body = {
        "messages": [{"role": "user", "content": "Once upon a time"}],
        "seed": seed,
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}},
    }
    headers = {"Content-Type": "application/json", "Authorization": "Bearer secret of ada"}
    data = json.dumps(body).encode()
    request = urllib.request.Request(url + "/v1/chat/completions", data, headers)
    try:
        with urllib.request.urlopen(request, timeout=600) as answer:
            return 200, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def refused_by_name(schema, error):
    """Whether a refusal names a keyword and the place where it stands; its keyword."""
    assert error["code"] == "invalid_grammar", error
    assert error["param"] == "response_format.json_schema.schema", error
    pointer, keyword = re.match(r"JSON schema: (/.*?): `(.+?)`: ", error["message"]).groups()
    place = schema
    for part in pointer.split("/")[1:] if pointer != "/" else []:
        part = part.replace("~1", "/").replace("~0", "~")
        place = place[int(part) if isinstance(place, list) else part]
    assert keyword in place, (pointer, keyword)
    return keyword


def check(row, seed):
    """What came of a schema: a keyword that it was refused for, `unfinished` or `valid`."""
    schema = row["json"]
    status, answer = ask(schema, seed)
    if status == 400:
        return "refused", refused_by_name(schema, answer["error"])
    assert status == 200, (status, answer)
    choice = answer["choices"][0]
    if choice["finish_reason"] == "length":
        return "unfinished", None
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    kind(schema).validate(json.loads(choice["message"]["content"]))
    return "valid", None


rows = [json.loads(line) for line in open(file, encoding="utf-8")][::step]
counts, keywords, wrong = collections.Counter(), collections.Counter(), 0
with concurrent.futures.ThreadPoolExecutor(16) as pool:
    running = {pool.submit(check, row, seed): (row["name"], seed) for row in rows for seed in range(seeds)}
    for done in concurrent.futures.as_completed(running):
        try:
            what, keyword = done.result()
        except Exception as error:
            wrong += 1
            print(running[done], repr(error)[:1000])
            continue
        counts[what] += 1
        keywords.update([keyword] if keyword else [])
refused = f"{counts['refused'] // seeds} refused by keyword {dict(keywords)}"
print(f"{len(rows)} schemas, {seeds} seeds: {refused}; answers: {counts['valid']} finished and valid, {wrong} wrong,")
print(f"{counts['unfinished']} did not fit the context")
if not wrong:
    print("ok")
