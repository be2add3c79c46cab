"""A fact is either known or unknown; unknown is never read as absent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)

#: It was asked for and no answer that can be trusted came: what depends on it is held.
UNOBSERVED = "unobserved"
#: Nobody answers for it (no source covers the item, the record is another machine's).
OUTSIDE = "outside"
#: It was not asked for, because nothing depended on it.
UNASKED = "unasked"
#: It was refused: what was asked for certainly did not happen.
REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Known(Generic[T_co]):
    """A value that was observed."""

    value: T_co


@dataclass(frozen=True, slots=True)
class Unknown:
    """Why a value could not be observed."""

    reason: str
    kind: str = UNOBSERVED


Fact = Known[T_co] | Unknown
