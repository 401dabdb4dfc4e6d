"""A model that answers the canary as engines do: in their shapes, with drift and noise."""

import asyncio
import random

from cacheaware_sidecar.canary.baseline import Baseline, Identity
from cacheaware_sidecar.canary.completion import Run, Token, Way
from cacheaware_sidecar.engine_answers import Answer

PROMPT_TOKENS = 40
ANSWER = tuple(f" w{at}" for at in range(16))


def run(
    *, shift=0.0, noise=0.0, seed=0, answer=ANSWER, lead=3.0123, prompt=PROMPT_TOKENS, weights=7
):
    """A run; `weights` is the model, `seed` the noise of this one answer."""
    dice, model = random.Random(seed), random.Random(weights)
    logprobs = [-0.05 - 5 * model.random() for _ in range(prompt + len(answer))]
    moved = [value + shift + dice.gauss(0, noise) for value in logprobs]
    names = tuple(f"p{at}" for at in range(prompt))
    return Run(
        prompt=tuple(Token(name, None if at == 0 else moved[at]) for at, name in enumerate(names)),
        answer=tuple(
            Token(name, value, lead) for name, value in zip(answer, moved[prompt:], strict=True)
        ),
    )


def baseline(noise=0.01, runs=8, **identity):
    """Repeats of the healthy model."""
    repeats = tuple(run(noise=noise, seed=1000 + at) for at in range(runs))
    return Baseline(identity=Identity(**identity), prompt="the canary", way=Way.ECHO, runs=repeats)


def completion(one: Run, *, model="m", fingerprint=None):
    """OpenAI's old shape, as vLLM and SGLang have it, with the prompt if the run has one."""
    tokens = (*one.prompt, *one.answer)
    tops = [
        None
        if each.margin is None
        else {each.text: each.logprob, "other": (each.logprob or 0.0) - each.margin}
        for each in tokens
    ]
    return {
        "model": model,
        "system_fingerprint": fingerprint,
        "choices": [
            {
                "text": "".join(each.text for each in tokens),
                "logprobs": {
                    "tokens": [each.text for each in tokens],
                    "token_logprobs": [each.logprob for each in tokens],
                    "top_logprobs": tops,
                },
            }
        ],
        "usage": {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": len(one.answer)},
    }


def chat(one: Run):
    """The shape of chats, which llama.cpp has in both routes."""
    content = [
        {
            "token": each.text,
            "logprob": each.logprob,
            "top_logprobs": [
                {"token": each.text, "logprob": each.logprob},
                {"token": "other", "logprob": each.logprob - (each.margin or 0.0)},
            ],
        }
        for each in one.answer
    ]
    return {
        "choices": [{"message": {"content": "x"}, "logprobs": {"content": content}}],
        "usage": {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": len(one.answer)},
    }


class Engine:
    """Answers by route and way; may hold its answers back."""

    def __init__(self):
        self.model = run()
        self.refuses = set()
        self.status = 200
        self.served = {"data": [{"id": "m"}, {"id": "alias"}]}
        self.asked = []
        self.held: asyncio.Event | None = None
        self.tells = "0.32.0"
        self.most_at_once = self.at_once = 0

    async def models(self):
        return self.served

    async def version(self):
        return self.tells

    async def ask(self, path, body, timeout_s, headers):
        way = Way.CHAT if "messages" in body else Way.ECHO if body.get("echo") else Way.PLAIN
        self.asked.append((way, body, timeout_s, dict(headers)))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if self.held:
                await self.held.wait()
        finally:
            self.at_once -= 1
        if way in self.refuses:
            return Answer(400, {"message": f"no {way}"})
        if self.status != 200:
            return Answer(self.status, {})
        one = self.model if way is Way.ECHO else run(prompt=0)
        told = chat(one) if way is Way.CHAT else completion(one, fingerprint="b4501")
        return Answer(200, told)
