"""`python -m receraser.reproduce`: the command where only numpy, scipy and torch are installed.

Computes and keeps cells; with `--report`, makes pages and pictures of those that are there (which needs matplotlib).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from receraser.errors import ReceraserError
from receraser.reproduce import paper
from receraser.reproduce.command import orders_of, reproduce
from receraser.reproduce.order import DEVICES, OUT, STUDIES, Order, several

__all__ = ["main"]

_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code: 0 done, 1 a cell failed, 2 wrong usage, 130 interrupted."""
    parser = argparse.ArgumentParser(prog="python -m receraser.reproduce", description=__doc__)
    parser.add_argument("names", metavar="NAME", nargs="+", help=f"of {', '.join(STUDIES)}")
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder that holds the folder of the data set")
    parser.add_argument("--dataset", default="ml-1m", help="ml-1m, ml-100k, yelp2018, ml-10m or synthetic")
    parser.add_argument("--models", action="append", default=[], metavar="M,M", help=", ".join(paper.MODELS))
    parser.add_argument("--methods", action="append", default=[], metavar="M,M", help="of those that the study has")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", default="auto", help=", ".join(DEVICES))
    parser.add_argument("--forgets", type=int, help="requests one after another, for times")
    parser.add_argument("--within", type=float, help="seconds for those of a line; the rest are forgotten at once")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time; timed ones are computed alone")
    parser.add_argument("--report", action="store_true", help="compute nothing, make the page of what is there")
    parser.add_argument("--extend", action="store_true", help="keep lines of the results that are there")
    given = parser.parse_intermixed_args(arguments)
    try:
        order = Order(
            given.names[0],
            dataset=given.dataset,
            data=given.data,
            models=several(given.models) or paper.MODELS,
            methods=several(given.methods),
            seeds=given.seeds,
            device=given.device,
            forgets=given.forgets,
            within=given.within,
            out=given.out,
            report=given.report,
            extend=given.extend,
            jobs=given.jobs,
        )
        ran, files = reproduce(orders_of(given.names, order), _say, pages=given.report)
    except ReceraserError as error:
        _say(f"error: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        return _INTERRUPTED
    _say(", ".join(str(file) for file in files) or f"cells computed: {ran.done}; all are in {order.cells}")
    return 1 if ran.failed else 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
