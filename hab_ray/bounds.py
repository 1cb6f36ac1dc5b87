"""The types of numeric settings. Each has bounds with a reason, which the error message gives.

Bounds catch typos before they become plans of years, overflowing prices or memory that no machine has. Messages do
not repeat the refused value, which may be a secret under the wrong key.
"""

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

_DAY_S = 86_400
MAX_LISTED = 1_000


def _refuse_bool(given: Any) -> Any:
    if isinstance(given, bool):
        raise ValueError("is a truth value (yes, no, on, off, true, false); write a number")
    return given


def _at_most(bound: float, why: str) -> AfterValidator:
    def checked(value: float) -> float:
        if value > bound:
            raise ValueError(f"is more than {bound:,}: {why}")
        return value

    return AfterValidator(checked)


def _at_least(bound: float, why: str) -> AfterValidator:
    def checked(value: float) -> float:
        if value < bound:
            raise ValueError(f"is less than {bound:,}: {why}")
        return value

    return AfterValidator(checked)


NUMBER = BeforeValidator(_refuse_bool)
_MAX_TIME = _at_most(1_000_000_000, "the time is in seconds, and this is more than thirty years; give a smaller one")

Positive = Annotated[int, NUMBER, Field(gt=0)]
Whole = Annotated[int, NUMBER, Field(ge=0)]
Amount = Annotated[float, NUMBER, Field(ge=0, allow_inf_nan=False)]
Int64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Seed = Annotated[int, NUMBER, Field(ge=-(2**63), lt=2**63)]
RandomState = Annotated[Whole, _at_most(2**32 - 1, "scikit-learn accepts no larger random state; give a smaller one")]

Tokens = Annotated[Positive, _at_most(10_000_000, "no model writes that many tokens; give the maximum for one answer")]
PromptTokens = Annotated[Whole, _at_most(1_000_000_000, "no model reads that many tokens; give the vendor's step")]
Reserve = Annotated[Whole, _at_most(10_000_000, "no model reasons for that many tokens; give a smaller number")]
Candidates = Annotated[
    Positive,
    _at_most(1_000_000, "each is generated, validated and compared with all others; give what a dimension needs"),
]
Samples = Annotated[
    Positive,
    _at_most(1_000, "each is one more paid answer per subject and test; more varied tests tell more than repeats"),
]
Sentinels = Annotated[
    Whole,
    _at_most(100_000, "each is one more paid verdict per judge; `hab plan` shows how small a shift they can detect"),
]
Replicates = Annotated[
    Positive, _at_most(100, "each is one more paid verdict per judge and answer; a few show how steady a judge is")
]
Shown = Annotated[Positive, _at_most(1_000, "a request can show no more; a few are enough")]
Components = Annotated[Positive, _at_most(10_000, "no embedding has that many dimensions; the paper used 50")]
PerCall = Annotated[int, NUMBER, Field(gt=0, le=20)]
Points = Annotated[int, NUMBER, Field(ge=0, le=1000)]
Temperature = Annotated[float, NUMBER, Field(ge=0, le=2)]
HighestTemperature = Annotated[float, NUMBER, Field(gt=0, le=10)]
TopP = Annotated[float, NUMBER, Field(gt=0, le=1)]
Share = Annotated[float, NUMBER, Field(ge=0, le=1)]

BudgetUsd = Annotated[Amount, _at_most(1_000_000_000, "leave `budget_usd` out for no limit")]
Risk = Annotated[
    float,
    NUMBER,
    Field(gt=0),
    _at_least(1e-100, "split over stages and waves, it would be zero; `reserve: hard` takes no risk at all"),
    _at_most(0.05, "a budget that may be exceeded in more than one of twenty runs is not a budget"),
]
UsdPerMillion = Annotated[
    Amount, _at_most(1_000_000, "prices are in dollars per million tokens; convert a price per another unit")
]

PerMinute = Annotated[
    Positive, _at_most(1_000_000_000_000, "no account allows that much; leave the limit out if there is none")
]
Concurrent = Annotated[
    Positive, _at_most(100_000, "no machine can hold that many connections; a few hundred are usual")
]
PerList = Annotated[Positive, _at_most(100_000, "no vendor accepts that many texts in one request; hundreds are usual")]
BatchRows = Annotated[Positive, _at_most(1_000_000, "no vendor accepts that many rows in one batch; 50,000 are usual")]
Lanes = Annotated[int, NUMBER, Field(gt=0, le=64)]
Megabytes = Annotated[float, NUMBER, Field(gt=0, le=64)]
Seconds = Annotated[float, NUMBER, Field(gt=0, le=_DAY_S, allow_inf_nan=False)]
LongSeconds = Annotated[float, NUMBER, Field(gt=0, allow_inf_nan=False), _MAX_TIME]
WaitSeconds = Annotated[Amount, _MAX_TIME]
