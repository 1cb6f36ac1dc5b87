"""Which requests are taken: what our clients send, and a plain client's usual settings; nothing else."""

from collections.abc import Callable
from typing import Any

import pytest

from hab_simulator.accounts import vendors
from hab_simulator.anthropic import requests as anthropic_requests
from hab_simulator.anthropic.bodies import read_messages
from hab_simulator.asks import Ask, ChatAsk, Refused
from hab_simulator.google import requests as google_requests
from hab_simulator.google.bodies import read_embed, read_generate
from hab_simulator.openai import requests as openai_requests
from hab_simulator.openai.bodies import read_chat, read_embeddings

MESSAGE = {"role": "user", "content": "hello"}
TEXT = {"parts": [{"text": "hello"}]}


def openai(**more: Any) -> Ask:
    return read_chat(vendors()["openai"], {"model": "gpt-4.1", "messages": [MESSAGE], **more})


def openai_embeddings(**more: Any) -> Ask:
    return read_embeddings(vendors()["openai"], {"model": "text-embedding-3-small", "input": "hello", **more})


def anthropic(**more: Any) -> Ask:
    body = {"model": "claude-sonnet-4-6", "max_tokens": 2000, "messages": [MESSAGE], **more}
    return read_messages(vendors()["anthropic"], {"anthropic-version": "2026-10-21"}, body)


def gemini(**more: Any) -> Ask:
    return read_generate(vendors()["google"], "gemini-3.8-flash", {"contents": [TEXT], **more})


def gemini_generation(**more: Any) -> Ask:
    return gemini(generationConfig=more)


def gemini_embeddings(**more: Any) -> Ask:
    return read_embed(vendors()["google"], "gemini-embedding-2", {"requests": [{"content": TEXT, **more}]})


Reader = Callable[..., Ask]
READERS: list[tuple[Reader, frozenset[str]]] = [
    (openai, openai_requests.HARMLESS),
    (openai_embeddings, openai_requests.HARMLESS),
    (anthropic, anthropic_requests.HARMLESS),
    (gemini, google_requests.HARMLESS),
    (gemini_generation, google_requests.HARMLESS),
    (gemini_embeddings, google_requests.HARMLESS),
]
REFUSED: list[tuple[Reader, dict[str, Any], str]] = [
    (openai, {"tools": []}, "Unknown parameter: 'tools'."),
    (openai, {"stream": True}, "Invalid value for 'stream'"),
    (openai, {"n": 2}, "Invalid value for 'n'"),
    (openai, {"messages": [MESSAGE | {"name": "ann"}]}, "Unknown parameter: 'messages.0.name'."),
    (openai, {"messages": [MESSAGE | {"role": "tool"}]}, "Invalid value for 'messages.0.role'"),
    (openai, {"messages": [MESSAGE | {"content": None}]}, "Invalid value for 'messages.0.content'"),
    (openai_embeddings, {"input": [[1, 2]]}, "Invalid value for 'input"),
    (anthropic, {"tools": []}, "tools: Extra inputs are not permitted"),
    (anthropic, {"stream": True}, "stream: Input should be False"),
    (anthropic, {"messages": [MESSAGE | {"content": ""}]}, "messages.0.content: "),
    (anthropic, {"messages": [MESSAGE | {"content": [{"type": "image"}]}]}, "messages.0.content: "),
    (gemini, {"tools": []}, 'Unknown name \\"tools\\": Cannot find field.'),
    (gemini, {"contents": [{"parts": [{}]}]}, "contents.0.parts.0.text: Field required"),
    (gemini, {"safetySettings": [{"category": "HARM_CATEGORY_A", "threshold": "LOW"}]}, "safetySettings.0.threshold"),
    (gemini_generation, {"candidateCount": 2}, "generationConfig.candidateCount: Input should be 1"),
    (gemini_generation, {"logprobs": 2}, "Unknown name"),
    (gemini_embeddings, {"content": {}}, "requests.0.content.parts: Field required"),
]


@pytest.mark.parametrize(("read", "harmless"), READERS)
def test_usual_settings_without_effect_are_taken(read: Reader, harmless: frozenset[str]) -> None:
    plain, ask = read(), read(**dict.fromkeys(harmless, "any"))
    assert ask.identity != plain.identity
    if isinstance(ask, ChatAsk):
        assert isinstance(plain, ChatAsk) and ask.transcript == plain.transcript


def test_one_answer_may_be_asked_for_by_number() -> None:
    assert isinstance(openai(n=1), ChatAsk) and isinstance(gemini_generation(candidateCount=1), ChatAsk)


@pytest.mark.parametrize(("read", "more", "words"), REFUSED)
def test_what_no_client_of_ours_sends_is_refused_in_the_vendors_words(
    read: Reader, more: dict[str, Any], words: str
) -> None:
    with pytest.raises(Refused) as refused:
        read(**more)
    assert words in refused.value.answer.body.decode()
