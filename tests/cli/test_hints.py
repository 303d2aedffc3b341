from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from receraser.cli.hints import hints
from receraser.config import EngineConfig, resolve
from receraser.data.interactions import Interactions
from tests.cli.conftest import Cli, Files


class Size(Interactions):
    """As many rows of as many items as are said, none of which are there."""

    def __init__(self, rows: int, items: int) -> None:
        object.__setattr__(self, "_rows", rows)
        object.__setattr__(self, "items", range(items))

    def __len__(self) -> int:
        return int(vars(self)["_rows"])


@pytest.mark.parametrize(
    ("given", "rows", "items", "expected"),
    [
        ({}, 99_000, 9000, []),
        ({}, 1_000_000, 4000, []),
        (
            {},
            1_000_000,
            40_000,
            ["only 25 rows for each item; on data as sparse as that (Yelp2018) --method retrain --model graphfilter"],
        ),
        ({"model": "graphfilter"}, 1_000_000, 40_000, []),
        ({"method": "spectral"}, 1_000_000, 4000, []),
        ({"method": "sisa"}, 1_000_000, 4000, ["with 1,000,000 rows a refit of wmf takes seconds"]),
        ({"method": "sisa"}, 11_000_000, 4000, []),
        ({"method": "spectral", "model": "gram"}, 1_000_000, 4000, ["a refit of gram takes a second or two"]),
        ({"method": "spectral", "model": "gram"}, 11_000_000, 4000, []),
        (
            {"model": "bpr"},
            200_000,
            4000,
            ["all 200,000 rows on a CPU, bpr takes about a hundred times as long as gram, which is about as good"],
        ),
        ({"model": "bpr", "device": "cuda"}, 200_000, 4000, []),
        (
            {"model": "bpr", "method": "receraser"},
            19_000,
            900,
            ["10 shards of 1,900 rows each know little; --shards 4"],
        ),
        (
            {"model": "bpr", "shards": 10},
            19_000,
            900,
            ["10 shards of 1,900 rows each know little; --shards 4 wou"],
        ),
        ({"model": "bpr", "shards": 10}, 3000, 90, ["with so little data --method retrain is cheap"]),
        ({"model": "bpr", "shards": 10}, 1000, 90, []),
    ],
)
def test_hints(given: dict[str, Any], rows: int, items: int, expected: list[str]) -> None:
    device = given.pop("device", "cpu")
    if "shards" in given:
        given |= {"method": "receraser"}
    config = replace(resolve(EngineConfig(device="cpu", **given)), device=device)
    found = hints(config, Size(rows, items))
    assert len(found) == len(expected)
    for said, part in zip(found, expected, strict=True):
        assert part in said


def test_a_hint_goes_to_people_and_changes_nothing(cli: Cli, files: Files) -> None:
    done = cli("fit", files.train, "--store", files.store.parent / "none", "--method", "sisa", "--dry-run", "--json")
    assert done.code == 0
    assert [line for line in done.err.splitlines() if line.startswith("hint: with ")]
    assert done.json["dry_run"] is True
