"""How an account's batches go where no fault strikes: their time, price, order and lines."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from pydantic import Field, model_validator

from hab_simulator.latency import FixedLatency, Latency
from hab_simulator.settings import Settings, Share

LineStatus = Literal[408, 409, 429, 500, 502, 503, 504, 529]


class LineFaults(Settings):
    """What goes wrong with single lines, as shares of a batch's lines.

    `failed` lines end with the vendor's error for `failed_status` and are drawn anew at every sending of a body;
    `refused` ones are turned down as invalid however often they are sent; a `malformed` one has Gemini refuse the whole
    create request that holds it. `missing` lines, which are never all of a batch, have no result and are not charged;
    `doubled` ones have theirs twice. Each `foreign` line is one more, with an id nobody sent.
    """

    failed: Share = 0.0
    failed_status: LineStatus = 500
    refused: Share = 0.0
    malformed: Share = 0.0
    missing: Share = 0.0
    doubled: Share = 0.0
    foreign: Share = 0.0

    @model_validator(mode="after")
    def _exclusive(self) -> LineFaults:
        if self.failed + self.refused + self.missing > 1:
            raise ValueError("failed, refused and missing: together they are more than 1")
        return self


class BatchSettings(Settings):
    """The batches of an account. Times are seconds of the vendor's clock.

    `turnaround` runs from the create request to the end, `cancelling_s` from a cancel request. `price_share` is
    what a line costs of the online price where the model has no batch price. `shuffled`: results come in the
    order of seeded draws, not of the requests. In the share `separators` of the answers U+2028 stands between
    sentences. `clean_error_file` is the share of OpenAI's batches without a failed line whose `error_file_id` is "" and
    not null: live captures of chat batches have null (OpenRouterTeam/docs, batch-research/openai.md, 2026-09-02); ""
    was seen on /v1/responses (tobert/kaibo#93, 2026-07-26). Gemini brings the results of a file of at most
    `inline_rows` rows inline.
    """

    turnaround: Latency = FixedLatency(value_s=2)
    cancelling_s: float = Field(default=0.0, ge=0)
    price_share: Decimal = Field(default=Decimal("0.5"), ge=0, le=1)
    shuffled: bool = True
    separators: Share = 0.0
    lines: LineFaults = LineFaults()
    clean_error_file: Share = 0.0
    inline_rows: int = Field(default=0, ge=0)
