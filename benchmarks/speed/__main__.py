"""Speed on the CPU, ours beside the peers.

    python -m benchmarks.speed --data DIR                 everything; DIR holds the folder ml-1m
    python -m benchmarks.speed --data DIR wmf serving     some of it
    python -m benchmarks.speed --report                   the page again, from the figures that are there
    make bench DATA=DIR

Each part writes its figures to results/speed-PART.json; the page speed.md is made of all that are there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness import RESULTS, facts
from benchmarks.speed import fits, forgets, page, plots, scale, serving
from receraser.reproduce.datasets import load

if TYPE_CHECKING:
    from receraser.execution.local import LocalExecutor
    from receraser.reproduce.datasets import Dataset

Part = Callable[["Dataset", "LocalExecutor"], Any]
COMMAND = "python -m benchmarks.speed --data DIR"
EPOCHS = {"bpr": (4, 6, 8, 10, 12, 16, 20, 30), "lightgcn": (10, 15, 20, 25, 30, 40, 60)}
MILLIONS = 10_000_000
WEIGHED = ("partition", "partition-millions", "millions", "growth", "reading")  # their memory, or their size, counts


def _paper(model: str) -> Part:
    def part(data: Dataset, executor: LocalExecutor) -> Any:
        """How long ours takes with today's settings, and how long the first version took with those that it had.

        How many epochs the first version needs is found with today's kernels, which learn the same.
        """
        found = fits.paper_quality(data, executor, model, EPOCHS[model])
        first = fits.first_version(data.folder, model)
        then = {name: first["settings"][name] for name in ("batch_size", "learning_rate", "n_negatives")}
        needed = fits.paper_quality(data, executor, model, EPOCHS[model], **then)
        return found | {"first": first | {"epochs": needed["trials"][-1]["epochs"], "reached": needed["reached"]}}

    return part


PARTS: Mapping[str, Part] = {
    "wmf": fits.wmf,
    "bpr": fits.bpr,
    "lightgcn": fits.lightgcn,
    "paper-bpr": _paper("bpr"),
    "paper-lightgcn": _paper("lightgcn"),
    "serving": serving.top_ten,
    "person": serving.one_person,
    "forget-wmf": lambda data, executor: forgets.one_user(data, executor, "wmf"),
    "forget-bpr": lambda data, executor: forgets.one_user(data, executor, "bpr", in_turn=False),
    "forget-lightgcn": lambda data, executor: forgets.one_user(data, executor, "lightgcn", n=3, in_turn=False),
    "many": forgets.many,
    "attended-bpr": lambda data, executor: forgets.attended(data, executor, "bpr", n=5),
    "attended-lightgcn": lambda data, executor: forgets.attended(data, executor, "lightgcn"),
    "attended-wmf": lambda data, executor: forgets.attended(data, executor, "wmf"),
    "attended-wmf-adagrad": lambda data, executor: forgets.attended(data, executor, "wmf-adagrad"),
    "partition": lambda data, executor: scale.partition(data.train, executor),
    "partition-millions": lambda _, executor: scale.partition(scale.world(MILLIONS), executor, repeats=2),
    "millions": lambda _, executor: scale.fit_and_forget(scale.world(MILLIONS), executor),
    "growth": lambda _, executor: scale.growth(executor),
    "reading": lambda *_: scale.reading(MILLIONS),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; by default all")
    parser.add_argument("--data", type=Path, help="the folder that holds ml-1m")
    parser.add_argument("--report", action="store_true", help="make the page again from the JSON files")
    parser.add_argument("--no-page", action="store_true", help="measure, and leave the page to somebody else")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    if unknown := [one for one in options.parts if one not in PARTS]:
        parser.error(f"unknown part {unknown[0]!r}; expected some of {', '.join(PARTS)}")
    if not options.report:
        if options.data is None:
            parser.error("--data is missing: the folder that holds ml-1m")
        measure(options.parts or list(PARTS), options.data, options.out)
    if options.no_page:
        return
    there = page.read(options.out, list(PARTS))
    if "many" in there:
        plots.many(there["many"]["found"], options.out)
    plots.limits(page.rows_of(there), options.out)
    text = page.text_of(there, COMMAND)
    (options.out / "speed.md").write_text(text)
    print(text)


def measure(parts: list[str], folder: Path, out: Path) -> None:
    """Run these parts, one after the other, and write each down.

    What is weighed has a process of its own, or what earlier parts have left in memory would be weighed with it.
    """
    from receraser.execution.local import LocalExecutor

    out.mkdir(parents=True, exist_ok=True)
    together = parts if len(parts) == 1 else [name for name in parts if name not in WEIGHED]
    if together:
        data = load(folder, "ml-1m")
        with LocalExecutor() as executor:
            for name in together:
                print(f"{name} ...", file=sys.stderr, flush=True)
                found = facts(f"{COMMAND} {name}") | {"found": PARTS[name](data, executor)}
                (out / f"speed-{name}.json").write_text(json.dumps(found, indent=1) + "\n")
    for name in parts:
        if name not in together:
            again = [
                sys.executable,
                "-m",
                "benchmarks.speed",
                name,
                "--data",
                str(folder),
                "--out",
                str(out),
                "--no-page",
            ]
            subprocess.run(again, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
