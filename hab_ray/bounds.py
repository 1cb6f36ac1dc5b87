"""Bounds for the numbers in settings. The message of each bound gives its reason.

A typo is reported with its key, before it becomes a plan of years, a price that overflows or memory that no machine
has. Messages never repeat the refused value: it may be a secret in the wrong key.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

_DAY_S = 86_400
MAX_LISTED = 1_000


def _no_truth_value(given: Any) -> Any:
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


NUMBER = BeforeValidator(_no_truth_value)
_NO_AGES = _at_most(1_000_000_000, "the time is in seconds, and this is more than thirty years; give a smaller one")

Int64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Seed = Annotated[int, NUMBER, Field(ge=-(2**63), lt=2**63)]
RandomState = Annotated[
    int, NUMBER, Field(ge=0), _at_most(2**32 - 1, "scikit-learn takes no larger random state; give a smaller one")
]

Tokens = Annotated[
    int,
    NUMBER,
    Field(gt=0),
    _at_most(10_000_000, "no model writes so many tokens; give the most that one answer may take"),
]
Reserve = Annotated[
    int, NUMBER, Field(ge=0), _at_most(10_000_000, "no model thinks for so many tokens; give what it may take")
]
Candidates = Annotated[
    int,
    NUMBER,
    Field(gt=0),
    _at_most(1_000_000, "each is asked for, checked and compared with all others; give what a dimension needs"),
]
Samples = Annotated[
    int,
    NUMBER,
    Field(gt=0),
    _at_most(1_000, "each is one more paid answer per subject and test; tests of more kinds tell more than repeats"),
]
Sentinels = Annotated[
    int,
    NUMBER,
    Field(ge=0),
    _at_most(100_000, "each is one more paid verdict per judge; `hab plan` says how small a shift so many show"),
]
Replicates = Annotated[
    int,
    NUMBER,
    Field(gt=0),
    _at_most(100, "each is one more paid verdict per judge and answer; a few show how steady a judge is"),
]
Shown = Annotated[int, NUMBER, Field(gt=0), _at_most(1_000, "a request can show no more; a few are enough")]
Components = Annotated[
    int, NUMBER, Field(gt=0), _at_most(10_000, "no embedding has so many dimensions; the paper took 50")
]
PerCall = Annotated[int, NUMBER, Field(gt=0, le=20)]
Points = Annotated[int, NUMBER, Field(ge=0, le=1000)]
Temperature = Annotated[float, NUMBER, Field(ge=0, le=2)]
HighestTemperature = Annotated[float, NUMBER, Field(gt=0, le=10)]
TopP = Annotated[float, NUMBER, Field(gt=0, le=1)]
Share = Annotated[float, NUMBER, Field(ge=0, le=1)]

BudgetUsd = Annotated[
    float,
    NUMBER,
    Field(ge=0, allow_inf_nan=False),
    _at_most(1_000_000_000, "leave `budget_usd` out where nothing is to be kept from being spent"),
]
Risk = Annotated[
    float,
    NUMBER,
    Field(gt=0),
    _at_least(1e-100, "split over stages and waves, a smaller one is none; `reserve: hard` takes no risk at all"),
    _at_most(0.05, "a budget that is exceeded more often than once in twenty runs is none"),
]
UsdPerMillion = Annotated[
    float,
    NUMBER,
    Field(ge=0, allow_inf_nan=False),
    _at_most(1_000_000, "prices are in dollars per million tokens; divide, if it is meant per other units"),
]

PerMinute = Annotated[
    int,
    NUMBER,
    Field(gt=0),
    _at_most(1_000_000_000_000, "no account may do so much; leave the limit out if there is none"),
]
Concurrent = Annotated[
    int, NUMBER, Field(gt=0), _at_most(100_000, "no machine holds so many connections; some hundreds are usual")
]
PerList = Annotated[
    int, NUMBER, Field(gt=0), _at_most(100_000, "no vendor takes so many texts in one request; hundreds are usual")
]
BatchRows = Annotated[
    int, NUMBER, Field(gt=0), _at_most(1_000_000, "no vendor takes so many rows in one batch; 50,000 are usual")
]
Lanes = Annotated[int, NUMBER, Field(gt=0, le=64)]
Megabytes = Annotated[float, NUMBER, Field(gt=0, le=64)]
Seconds = Annotated[float, NUMBER, Field(gt=0, le=_DAY_S, allow_inf_nan=False)]
LongSeconds = Annotated[
    float,
    NUMBER,
    Field(gt=0, allow_inf_nan=False),
    _NO_AGES,
]
WaitSeconds = Annotated[
    float,
    NUMBER,
    Field(ge=0, allow_inf_nan=False),
    _NO_AGES,
]
