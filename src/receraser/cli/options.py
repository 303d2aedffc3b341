"""The options that several commands share, written once so that they are the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from receraser.errors import UsageError

__all__ = [
    "Aggregation",
    "AsJson",
    "Columns",
    "Config",
    "Device",
    "Dim",
    "DryRun",
    "Keys",
    "Method",
    "MinRating",
    "Model",
    "Partition",
    "Polish",
    "Rank",
    "RebuildDays",
    "RebuildEvery",
    "Seed",
    "Settings",
    "Shards",
    "SkipBadRows",
    "Store",
    "Valid",
    "id_given",
    "integers",
    "method_names",
    "model_names",
    "pair_given",
    "pairs",
]

_DEEPEST = 10_000  # nobody reads a longer list, and every user's is held in memory


def model_names() -> list[str]:
    """Return the models, for the shell's completion."""
    from receraser.config import MODEL_NAMES

    return list(MODEL_NAMES)


def method_names() -> list[str]:
    """Return the methods, for the shell's completion."""
    from receraser.methods import METHODS

    return list(METHODS)


Store = Annotated[Path, typer.Option("--store", metavar="DIR", help="Folder of the store.", show_default=False)]
Keys = Annotated[
    Path | None,
    typer.Option(
        "--keys", metavar="DIR", help="Folder with the key of the users' pseudonyms. Without it, a public key is used."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")]
Columns = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="ROLE=NAME,...",
        help="Which columns to read, e.g. user=uid,item=film,rating=stars; or by position: user=1,item=2.",
    ),
]
MinRating = Annotated[float | None, typer.Option("--min-rating", metavar="X", help="Leave out rows rated lower.")]
RebuildEvery = Annotated[
    int | None,
    typer.Option(
        "--rebuild-every", metavar="N", min=1, help="A new partition with every N-th request (ubp, ibp, ...)."
    ),
]
RebuildDays = Annotated[
    int | None,
    typer.Option("--rebuild-days", metavar="N", min=1, help="A new partition with the first request after N days."),
]
Valid = Annotated[
    Path | None, typer.Option("--valid", metavar="FILE", help="Rows that choose the epoch; never trained on.")
]
Method = Annotated[
    str | None,
    typer.Option(
        "--method",
        metavar="M",
        help="retrain, sisa, grapheraser, receraser or spectral.",
        autocompletion=method_names,
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="B",
        help="wmf, bpr, lightgcn; without shards gram, ease, graphfilter; with spectral gram too; MODULE:OBJECT.",
        autocompletion=model_names,
    ),
]
Partition = Annotated[
    str | None,
    typer.Option("--partition", metavar="P", help="Instead of the method's: whole hash random ubp ibp inbp bekm blpa."),
]
Aggregation = Annotated[
    str | None,
    typer.Option("--aggregation", metavar="A", help="Instead of the method's: alone mean static attention spectral."),
]
Shards = Annotated[int | None, typer.Option("--shards", metavar="K", help="How many shards.")]
Dim = Annotated[int | None, typer.Option("--dim", metavar="D", help="Length of the vectors.")]
Rank = Annotated[
    int | None,
    typer.Option("--rank", metavar="R", help="Length of the merged vectors (spectral), or of gram, graphfilter."),
]
Polish = Annotated[
    int | None, typer.Option("--polish", metavar="N", help="Sweeps over all rows after it (spectral, gram).")
]
Seed = Annotated[int | None, typer.Option("--seed", metavar="N", help="Root of every random draw.")]
Device = Annotated[str | None, typer.Option("--device", metavar="auto|cpu|cuda", help="Where to compute.")]
Config = Annotated[
    str | None, typer.Option("--config", metavar="FILE", help="A TOML file, or a preset by name, such as bpr-ml-1m.")
]
Settings = Annotated[
    list[str],
    typer.Option("--set", metavar="KEY=VALUE", help="A setting; also partition.KEY, aggregation.KEY; repeatable."),
]
SkipBadRows = Annotated[bool, typer.Option("--skip-bad-rows", help="Leave out bad rows, count them and list them.")]


def pairs(settings: list[str]) -> dict[str, str]:
    """Split KEY=VALUE texts.

    Examples
    --------
    >>> pairs(["dim=8"])
    {'dim': '8'}
    """
    found = {}
    for text in settings:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"--set {text!r}: expected KEY=VALUE, as in --set dim=32")
        found[key.strip()] = value.strip()
    return found


def integers(text: str, option: str) -> list[int]:
    """Split a list such as 10,20,50.

    Examples
    --------
    >>> integers("10,20", "--at")
    [10, 20]
    """
    try:
        values = [int(part) for part in text.split(",")]
    except ValueError:
        values = []
    if not values or min(values) < 1 or max(values) > _DEEPEST:
        raise UsageError(f"{option} {text!r}: expected whole numbers from 1 to {_DEEPEST:,}, as in {option} 10,20,50")
    return list(dict.fromkeys(values))


def id_given(text: str, option: str) -> str:
    """Return an id given on the command line, checked.

    Examples
    --------
    >>> id_given("u 17", "--user")
    'u 17'
    """
    from receraser.data.ids import id_problem

    problem = id_problem(text)
    if problem is not None:
        raise UsageError(f"{option} {text!r}: {problem}")
    return text


def pair_given(text: str, option: str) -> tuple[str, str]:
    """Return a user and an item given as one text; no id holds a comma.

    Examples
    --------
    >>> pair_given("u1,i7", "--interaction")
    ('u1', 'i7')
    """
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(parts):
        raise UsageError(f"{option} {text!r}: expected a user and an item, as in {option} U,I")
    return id_given(parts[0], option), id_given(parts[1], option)
