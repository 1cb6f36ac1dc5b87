"""xAI's chat completions: OpenAI's protocol with different token counts.

Source: recorded replies. `completion_tokens` excludes the reasoning tokens, which are billed as output.
"""

from hab_ray.calls import Usage
from hab_ray.providers.base import JsonObject
from hab_ray.providers.openai.chat import OpenAIProvider, reasoning_on_top, tokens_counted


class XaiProvider(OpenAIProvider):
    """Chat completions and embeddings at one endpoint."""

    def read_usage(self, fields: JsonObject) -> Usage:
        return reasoning_on_top(tokens_counted(fields))
