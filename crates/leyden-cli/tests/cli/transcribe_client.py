"""Transcribes a file through the official client of OpenAI: `python3 transcribe_client.py BASE_URL FILE`.

Every check is an assertion; the last line of a run in which all held is `ok`.
"""

import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="none", max_retries=0, timeout=120)
MODEL = "tiny-whisper"
audio = open(sys.argv[2], "rb").read()
named = ("tone.wav", audio)


def failure(kind, **fields):
    try:
        client.audio.transcriptions.create(**{"model": MODEL, "file": named, **fields})
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def whole(**fields):
    return client.audio.transcriptions.create(model=MODEL, file=named, **fields)


text = whole().text
assert whole(response_format="text") == text + "\n"
assert whole(response_format="vtt").startswith("WEBVTT")
assert isinstance(whole(response_format="srt"), str)
verbose = whole(response_format="verbose_json")
assert verbose.text == text and verbose.language == "english" and float(verbose.duration) == 2.0
for segment in verbose.segments:
    assert 0 <= segment.start <= segment.end and segment.tokens
words = whole(response_format="verbose_json", timestamp_granularities=["word"])
assert words.text is not None and not getattr(words, "segments", None)

# A stream: the pieces are the text.
events = list(whole(stream=True))
assert events[-1].type == "transcript.text.done" and events[-1].text == text
assert "".join(event.delta for event in events[:-1]).strip() == text
assert all(event.type == "transcript.text.delta" for event in events[:-1])

# Fields without a use here are named, and those that would change the answer are refused.
raw = client.audio.transcriptions.with_raw_response.create(
    model=MODEL, file=named, languages=["en", "de"], extra_body={"seed": 7, "own_field": "x"}
)
assert raw.headers["x-leyden-ignored"] == "languages, own_field", raw.headers
assert failure(openai.BadRequestError, include=["logprobs"]).param == "include"

# Fields at their edges, and a model of English alone.
assert failure(openai.BadRequestError, temperature=1.5).param == "temperature"
assert failure(openai.BadRequestError, language="xx").param == "language"
assert failure(openai.BadRequestError, response_format="doc").param == "response_format"
assert failure(openai.BadRequestError, timestamp_granularities=["word"]).param == "timestamp_granularities[]".removesuffix("[]")
assert failure(openai.BadRequestError, file=("x.mp3", b"no audio at all")).param == "file"
assert failure(openai.NotFoundError, model="other").code == "model_not_found"
try:
    client.audio.translations.create(model=MODEL, file=named)
    raise AssertionError("a translation by a model of English")
except openai.BadRequestError as error:
    assert "English alone" in error.message
print("ok")
