"""What a certificate covers and what it does not, in plain sentences for somebody who answers for people's data.

The sentences are part of what is signed. They promise no more than the level they belong to, and what is left out at
every level (snapshots, backups, copies elsewhere) is said at every level.
"""

from __future__ import annotations

import math

from receraser.errors import UsageError, nearest

__all__ = ["LEVELS", "covers", "not_covered"]

LEVELS = {
    "L0": "the rows are gone from the store; the weights may still remember them",
    "L1": "every weight is that of a fresh fit on the remaining rows, given the same shards",
    "L2": "the whole model is that of a fresh fit on the remaining rows",
    "L3": "the whole model is that of a fresh fit on the remaining rows, and the old files are destroyed",
}

_ROWS_GONE = (
    "The rows asked for are gone from the stored interactions; a user or an item whose last row is gone is no longer "
    "known; none of it is used any more to recommend."
)
_ROWS_STORED = "The model and its recommendations rest on the rows that are stored, and on no others."
_SAME_WEIGHTS = (
    "Every published weight is, bit for bit, that of a fresh fit on the remaining rows with the same assignment of "
    "rows to shards."
)
_SAME_MODEL = (
    "The whole model (rows, shards, configuration, weights) is, bit for bit, what a fresh process gives that has only "
    "ever seen the remaining rows."
)
_OLD_DESTROYED = "The files of the state before are destroyed (unlinked) as the new state takes its place."

_WEIGHTS_REMEMBER = "The weights: they may still reflect the rows that were removed."
_SHARDS_REMEMBER = (
    "The assignment of rows to shards: it was computed from data that may have been deleted since, and may still "
    "reflect it, until a rebuild computes it from what is left. (Vectors that were read from a file stay as they are.)"
)
_OLD_KEPT = "The old state: it was kept on purpose, with all its data, until a later change destroys it."
_WISH_STORED = (
    "A wish to hide: it is stored which items a person no longer wants to see, under their pseudonym, for as long as "
    "the wish stands."
)
_TUNED = "The choice of the configuration: it came out of a search that may have seen rows deleted since."
_RECORD = (
    "The record of the request: this certificate, and in the ledger a keyed hash of everybody and everything named, "
    "which can be recognised until the ledger's key is shredded."
)
_LAWFUL = (
    "Lawfulness: a certificate is about the model being equal to a fresh fit. Whether the data was collected lawfully, "
    "and whether the right person asked, it does not say."
)


def covers(level: str, *, action: str = "forget") -> list[str]:
    """Return what holds after a change at this level.

    Examples
    --------
    >>> covers("L3")[-1]
    'The files of the state before are destroyed (unlinked) as the new state takes its place.'
    """
    _check(level)
    said = [_ROWS_GONE if action == "forget" else _ROWS_STORED]
    if level == "L1":
        said.append(_SAME_WEIGHTS)
    if level in ("L2", "L3"):
        said.append(_SAME_MODEL)
    if level == "L3" and action != "fit":
        said.append(_OLD_DESTROYED)
    return said


def not_covered(
    level: str,
    *,
    action: str = "forget",
    shards: int = 1,
    retrained: int = 0,
    kept_old: bool = False,
    wishes: bool = False,
    tuned: bool = False,
    exports: int = 0,
) -> list[str]:
    """Return what a certificate does not cover: first what is so for this one, then what is so for all.

    Parameters
    ----------
    level, action
        As in the certificate.
    shards, retrained
        How many shards there are, and how many of them are named as retrained.
    kept_old
        Whether the state before was kept on purpose; at L2 it always was.
    wishes
        Whether a wish to hide items was stored with the request.
    tuned
        Whether the configuration came out of a search.
    exports
        How many copies are on record as handed out.

    Examples
    --------
    >>> not_covered("L3", shards=8, retrained=1)[0]
    'Where the data was: that 1 of 8 shards was retrained tells in which of them it lay (3.0 bits).'
    """
    _check(level)
    said = []
    if level == "L0":
        said.append(_WEIGHTS_REMEMBER)
    if level in ("L0", "L1"):
        said.append(_SHARDS_REMEMBER)
    if level == "L2" or kept_old:
        said.append(_OLD_KEPT)
    if wishes:
        said.append(_WISH_STORED)
    if tuned:
        said.append(_TUNED)
    if action in ("forget", "add") and 0 < retrained < shards:
        bits = math.log2(math.comb(shards, retrained))
        said.append(
            f"Where the data was: that {retrained} of {shards} shards {'was' if retrained == 1 else 'were'} retrained "
            f"tells in which of them it lay ({bits:.1f} bits)."
        )
    if action == "forget":
        said.append(_RECORD)
    on_record = f" ({exports} on record)" if exports else ""
    return [
        *said,
        "File-system snapshots: one taken before the change still has the old files.",
        "SSD remnants: unlinking a file does not overwrite what lies under it.",
        "Backups: those made before the change still have the old data, until they are deleted.",
        f"Copies and exports already handed out: whoever has them must be told{on_record}.",
        "Models trained elsewhere: on this data, or on what this model recommended.",
        "Recommendations already shown: neither they nor what came of them can be taken back.",
        "Logs and databases of other systems: among them the one the data came from.",
        _LAWFUL,
    ]


def _check(level: str) -> None:
    if level not in LEVELS:
        raise UsageError(f"there is no level {level!r}: {nearest(level, LEVELS)}")
