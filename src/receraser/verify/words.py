"""How the verifier tells what it found: numbers with their nouns, faults as one text, what differs between tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["counted", "differences", "shown"]

_MOST_NAMED = 5


def counted(n: int, one: str, many: str | None = None) -> str:
    """Return a number and its noun.

    Examples
    --------
    >>> counted(1, "entry", "entries"), counted(2000, "row")
    ('1 entry', '2,000 rows')
    """
    return f"{n:,} {one if n == 1 else many or f'{one}s'}"


def shown(faults: Sequence[str]) -> str:
    """Return faults as one text; of many, the first few.

    Examples
    --------
    >>> shown([str(n) for n in range(7)])
    '0; 1; 2; 3; 4; and 2 more'
    """
    more = [f"and {len(faults) - _MOST_NAMED} more"] if len(faults) > _MOST_NAMED else []
    return "; ".join([*faults[:_MOST_NAMED], *more])


def differences(pairs: Sequence[tuple[str, object, object]], sentence: str) -> list[str]:
    """Return a sentence for every field that is found to be other than expected; of tables, what differs in them.

    Examples
    --------
    >>> differences([("level", "L3", "L2"), ("debt", {"a": 1, "b": 2}, {"a": 1, "b": 3})], "found {}; expected {}")
    ['level: found L3; expected L2', "debt: found {'b': 2}; expected {'b': 3}"]
    """
    faults = []
    for field, found, expected in pairs:
        if found == expected:
            continue
        if isinstance(found, Mapping) and isinstance(expected, Mapping):
            names = sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name))
            found, expected = ({name: one.get(name) for name in names} for one in (found, expected))
        faults.append(f"{field}: {sentence.format(found, expected)}")
    return faults
