"""Generation: one, many, streamed, awaited, constrained and interrupted."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
import time

import numpy as np
import pytest

import leyden
from conftest import needs

START = "Once upon a time"


def test_a_prompt_gives_its_text_and_facts(story: leyden.Model) -> None:
    made = story.generate(START, max_tokens=12, temperature=0)
    assert made.text and str(made) == made.text
    assert made.finish == "length" and len(made.tokens) == 12 and made.tokens.dtype == np.uint32
    assert story.detokenize(made.tokens).strip() == made.text.strip()
    assert made.prompt_tokens == len(story.tokenize(START))
    assert story.generate(START, max_tokens=12, temperature=0).text == made.text
    assert story.generate(story.tokenize(START), max_tokens=12, temperature=0).text == made.text
    assert story.generate(story.tokenize(START).tolist(), max_tokens=12, temperature=0).text == made.text


def test_many_prompts_give_what_each_gives_alone(story: leyden.Model) -> None:
    prompts = [f"The {who} went to the sea and" for who in ("king", "queen", "fox", "bear", "girl")]
    alone = [story.generate(prompt, max_tokens=9, seed=3).text for prompt in prompts]
    together = story.generate(prompts, max_tokens=9, seed=3)
    assert [made.text for made in together] == alone
    assert story.generate([], max_tokens=9) == []


def test_a_seed_decides_and_options_reach_the_sampler(story: leyden.Model) -> None:
    one, two = (story.generate(START, max_tokens=16, seed=seed, temperature=1.5).text for seed in (1, 2))
    assert one != two
    banned = int(story.generate(START, max_tokens=1, temperature=0).tokens[0])
    made = story.generate(START, max_tokens=1, temperature=0, logit_bias={banned: -float("inf")})
    assert made.tokens[0] != banned


def test_stops_and_logprobs(story: leyden.Model) -> None:
    whole = story.generate(START, max_tokens=24, temperature=0, logprobs=2)
    assert whole.logprobs is not None and whole.logprobs.shape == (24,) and (whole.logprobs <= 0).all()
    assert [top[0][0] for top in whole.top_logprobs] == whole.tokens.tolist()
    word = whole.text.split()[3]
    cut = story.generate(START, max_tokens=24, temperature=0, stop=word)
    assert cut.finish == "stop" and cut.text == whole.text[: whole.text.index(word)]


def test_a_stream_is_the_text_in_pieces(story: leyden.Model) -> None:
    whole = story.generate(START, max_tokens=20, temperature=0)
    stream = story.generate(START, max_tokens=20, temperature=0, stream=True)
    pieces = list(stream)
    assert len(pieces) > 5 and "".join(pieces) == whole.text
    assert stream.result is not None and stream.result.tokens.tolist() == whole.tokens.tolist()
    left = story.generate(START, max_tokens=400, stream=True)
    assert next(left)
    left.close()
    assert story.generate(START, max_tokens=20, temperature=0).text == whole.text


def test_tasks_of_an_event_loop_are_computed_together(story: leyden.Model) -> None:
    prompts = [f"The {who} said" for who in ("king", "queen", "fox")]

    async def all_of_them() -> tuple[list[leyden.Generation], str]:
        tasks = [story.agenerate(prompt, max_tokens=8, temperature=0) for prompt in prompts]
        made = await asyncio.gather(*tasks)
        pieces = [piece async for piece in story.astream(prompts[0], max_tokens=8, temperature=0)]
        return made, "".join(pieces)

    made, streamed = asyncio.run(all_of_them())
    assert [one.text for one in made] == [one.text for one in story.generate(prompts, max_tokens=8, temperature=0)]
    assert streamed == made[0].text


def test_a_cancelled_task_ends_its_request(story: leyden.Model) -> None:
    async def cancelled() -> float:
        task = asyncio.create_task(story.agenerate([START] * 32, max_tokens=None, temperature=1))
        await asyncio.sleep(0.05)
        task.cancel()
        start = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await task
        await story.agenerate(START, max_tokens=1)
        return time.monotonic() - start

    # The engine is free long before 32 answers of the whole context could have ended.
    assert asyncio.run(cancelled()) < 20


def test_threads_share_the_model(story: leyden.Model) -> None:
    wanted = story.generate(START, max_tokens=10, temperature=0).text
    found: list[str] = []
    work = lambda: found.append(story.generate(START, max_tokens=10, temperature=0).text)  # noqa: E731
    threads = [threading.Thread(target=work) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert found == [wanted] * 8


def test_other_threads_run_during_generation(story: leyden.Model) -> None:
    """Python's lock is free: this thread counts while another waits for 64 answers."""
    done = threading.Event()

    def work() -> None:
        story.generate([START] * 64, max_tokens=48)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    counted = 0
    while not done.is_set():
        counted += 1
        time.sleep(0.001)
    thread.join()
    assert counted > 10


def test_ctrl_c_interrupts_and_cancels(story: leyden.Model) -> None:
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        for _ in range(100):
            story.generate([START] * 64, max_tokens=None, temperature=1.5)
    assert story.generate(START, max_tokens=4).finish == "length"


def test_a_schema_gives_its_value(story: leyden.Model) -> None:
    schema = {
        "type": "object",
        "properties": {"kind": {"enum": ["king", "fox"]}, "age": {"type": "integer", "minimum": 0, "maximum": 99}},
        "required": ["kind", "age"],
        "additionalProperties": False,
    }
    made = story.generate("Who lived in the castle? ", schema=schema, seed=1)
    assert made.parsed == json.loads(made.text) and made.parsed["kind"] in ("king", "fox")
    assert story.generate("So? ", regex="(yes|no)").text in ("yes", "no")
    assert story.generate("So? ", grammar='root ::= "yes" | "no"').text in ("yes", "no")
    assert story.generate("So? ", lark='start: "yes" | "no"').text in ("yes", "no")


def test_a_pydantic_model_gives_its_instance(story: leyden.Model) -> None:
    pydantic = needs("pydantic")

    class Animal(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        legs: int = pydantic.Field(ge=0, le=8)
        wild: bool

    made = story.generate(["An animal: ", "Another: "], schema=Animal, temperature=0)
    assert all(isinstance(one.parsed, Animal) and 0 <= one.parsed.legs <= 8 for one in made)
    assert isinstance(story.chat("An animal", schema=Animal, temperature=0).parsed, Animal)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"temperature": -1}, "temperature: -1 is not between 0 and 100"),
        ({"no_such": 1}, "no_such: there is no such option"),
        ({"schema": {"type": "object", "unevaluatedProperties": False}}, "unevaluatedProperties"),
        ({"schema": {}, "regex": "a"}, "exclude each other"),
        ({"mirostat": 3}, "mirostat: 3 is not 0, 1 or 2"),
    ],
)
def test_a_wrong_option_is_an_error_of_the_request(story: leyden.Model, options: dict, words: str) -> None:
    with pytest.raises(leyden.RequestError, match=words):
        story.generate(START, **options)


def test_errors_have_the_words_of_the_program(story: leyden.Model, tmp_path: object) -> None:
    with pytest.raises(leyden.RequestError, match="do not fit the context of 512"):
        story.generate(START * 400)
    with pytest.raises(leyden.ModelError, match="no-such-model") as caught:
        leyden.Model("no-such-model")
    assert isinstance(caught.value, leyden.Error)
    wrong = tmp_path / "wrong.gguf"  # type: ignore[operator]
    wrong.write_bytes(b"not a model" * 9)
    with pytest.raises(leyden.ModelError, match="wrong.gguf"):
        leyden.Model(wrong)
    with pytest.raises(leyden.RequestError, match="ctx: 99999999 is not between 1 and"):
        leyden.Model(leyden.EMBEDDED, context=99999999).generate(START)
    with pytest.raises(ValueError, match="threads: 0 is not between 1 and 1024"):
        leyden.Model(leyden.EMBEDDED, threads=0)


def test_a_closed_model_says_so() -> None:
    with leyden.Model(leyden.EMBEDDED, context=64) as model:
        assert model.generate(START, max_tokens=2).text
    with pytest.raises(leyden.ModelError, match="closed"):
        model.generate(START)


def test_a_bar_counts_rows(story: leyden.Model, capfd: pytest.CaptureFixture[str]) -> None:
    needs("tqdm")
    story.generate([START] * 3, max_tokens=2, progress=True)
    assert "3/3" in capfd.readouterr().err
