"""xAI's wire protocol: OpenAI's, with a usage of its own.

Completion tokens leave out the reasoning, which is billed all the same, and the price of the call is stated in ticks
of 1e-10 dollars. Source: live replies of August 2026.
"""

from typing import Any

from hab_simulator.asks import Bill
from hab_simulator.openai.online import OpenAiOnline

_TICKS_PER_NANOUSD = 10


class XaiOnline(OpenAiOnline):
    """OpenAI's protocol with another count of tokens."""

    def usage(self, bill: Bill) -> dict[str, Any]:
        used = bill.usage
        return {
            "prompt_tokens": used.input,
            "completion_tokens": used.output - used.reasoning,
            "total_tokens": used.input + used.output,
            "prompt_tokens_details": {"text_tokens": used.input, "cached_tokens": used.cached},
            "completion_tokens_details": {"reasoning_tokens": used.reasoning},
            "num_sources_used": 0,
            "cost_in_usd_ticks": bill.nanousd * _TICKS_PER_NANOUSD,
        }
