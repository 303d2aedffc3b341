"""Write the paper's numbers, ours and the differences into docs/reproduction.md, from the results that are there.

Run `.venv/bin/python tools/paper_docs.py` after a new Table 3; a test fails until then.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path

from receraser.reproduce import paper

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reproduction.md"
RESULTS = ROOT / "benchmarks" / "results" / "reproduce"
BEGIN, END = "<!-- table3: written by tools/paper_docs.py -->", "<!-- table3: end -->"
NAMES = {"retrain": "Retrain", "sisa": "SISA", "grapheraser": "GraphEraser", "receraser": "RecEraser"}
MODELS = {"bpr": "BPR", "wmf": "WMF", "lightgcn": "LightGCN"}


def tables() -> str:
    """Return a table for every data set that the paper has and we have results of."""
    lines: list[str] = []
    for dataset, printed in paper.TABLE3.items():
        path = RESULTS / f"table3-{dataset}.json"
        if path.is_file():
            lines += ["", *_table(dataset, printed, json.loads(path.read_text(encoding="utf-8")))]
    return "\n".join(lines)


def _table(dataset: str, printed: paper.Table, found: dict[str, object]) -> list[str]:
    cells = found["cells"]
    assert isinstance(cells, list)
    seeds = len({one["seed"] for one in cells})
    about = f"{dataset}**, {seeds} seed{'s' * (seeds > 1)}"
    lines = [f"**{about}: ours, and by how much it is above or below the paper's number", ""]
    short = [f"{metric[0].upper()}@{metric.partition('@')[2]}" for metric in paper.METRICS]
    lines += ["| | | " + " | ".join(short) + " |", "|---" * (2 + len(short)) + "|"]
    for model in paper.MODELS:
        for method in paper.METHODS:
            own = [one for one in cells if (one["model"], one["row"], one["what"]) == (model, method, "fit")]
            texts = [f"paper {printed[model, method][metric]:.4f}; not measured" for metric in paper.METRICS]
            if own:
                means = [statistics.fmean(one["metrics"][metric] for one in own) for metric in paper.METRICS]
                differences = [
                    mean - printed[model, method][key] for mean, key in zip(means, paper.METRICS, strict=True)
                ]
                texts = [f"{mean:.4f} ({by:+.4f})" for mean, by in zip(means, differences, strict=True)]
            lines.append(f"| {MODELS[model]} | {NAMES[method]} | " + " | ".join(texts) + " |")
    return lines


def page() -> str:
    """Return docs/reproduction.md with the tables in it."""
    text = PAGE.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin, f"{PAGE}: expected a line {BEGIN}"
    assert end, f"{PAGE}: expected a line {END}"
    return f"{before}{BEGIN}\n{tables()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
