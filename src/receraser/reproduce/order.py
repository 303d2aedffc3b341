"""`Order`: what was asked for. Checked when made; the same for the command and for `python -m receraser.reproduce`."""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass
from pathlib import Path

from receraser.errors import UsageError, nearest
from receraser.reproduce import paper
from receraser.reproduce.datasets import check_name, is_made

__all__ = ["DEVICES", "OUT", "STUDIES", "Order", "several"]

OUT = Path("benchmarks/results/reproduce")
DEVICES = ("auto", "cpu", "cuda")
STUDIES = {
    "table2": "the data sets",
    "table3": "quality of every method with every model",
    "table4": "time of a full retrain, of a shard, of the aggregation",
    "figure2": "ways to cut the rows into shards",
    "figure3": "ways to put the submodels together",
    "figure4": "number of shards, against quality and time",
    "first": "what a first fit costs, stage by stage (beyond the paper)",
    "batch": "many users forgotten at once (beyond the paper)",
    "levels": "interactions, users and items forgotten (beyond the paper)",
    "gradual": "30 % of the users leave step by step (beyond the paper)",
    "storage": "what each method keeps (beyond the paper)",
    "pareto": "quality against the cost of forgetting (beyond the paper)",
}


@dataclass(frozen=True)
class Order:
    """What was asked for.

    Attributes
    ----------
    study
        One of `STUDIES`.
    dataset, data
        Its name, and the folder that holds it.
    models, methods
        Of those that the study has; all where none is named.
    seeds
        So many: 0, 1, 2.
    device
        "auto": where there is a GPU, there; for a report, where most cells were computed.
    forgets
        Requests one after another, for times; by default as many as the study wants.
    within
        Seconds for the requests of a line that are timed one by one; those that are left then are forgotten at once.
    out
        Folder of the results; finished cells are in its folder `cells`.
    report
        Compute nothing; make page and picture of the cells that are there, or of the document of an earlier run.
    extend
        Keep lines of the results of an earlier run that this one does not have.
    jobs
        Cells at a time; those whose seconds count are computed alone.
    """

    study: str
    dataset: str = "ml-1m"
    data: Path | None = None
    models: tuple[str, ...] = paper.MODELS
    methods: tuple[str, ...] = ()
    seeds: int = 3
    device: str = "auto"
    forgets: int | None = None
    within: float | None = None
    out: Path = OUT
    report: bool = False
    extend: bool = False
    jobs: int = 1

    def __post_init__(self) -> None:
        if self.study not in STUDIES:
            raise UsageError(f"unknown table or figure {self.study!r}: {nearest(self.study, STUDIES)}")
        check_name(self.dataset)
        for model in self.models:
            if model not in paper.MODELS:
                raise UsageError(f"unknown model {model!r}: {nearest(model, paper.MODELS)}")
        if self.seeds < 1:
            raise UsageError(f"--seeds is {self.seeds}; expected at least 1")
        if self.forgets is not None and self.forgets < 1:
            raise UsageError(f"--forgets is {self.forgets}; expected at least 1")
        if self.within is not None and not 0 < self.within < math.inf:
            raise UsageError(f"--within is {self.within}; expected more than 0 seconds, or leave it out")
        if self.jobs < 1:
            raise UsageError(f"--jobs is {self.jobs}; expected at least 1")
        if self.device not in DEVICES:
            raise UsageError(f"unknown device {self.device!r}: {nearest(self.device, DEVICES)}")

    @property
    def cells(self) -> Path:
        """Folder of the finished cells."""
        return self.out / "cells"

    @property
    def name(self) -> str:
        """What the results' files begin with: some models alone have files of their own.

        Examples
        --------
        >>> Order("batch", models=("wmf", "bpr")).name, Order("batch", models=("wmf", "lightgcn", "bpr")).name
        ('batch-ml-1m-bpr-wmf', 'batch-ml-1m')
        """
        some = [one for one in paper.MODELS if one in self.models]
        whole = self.study == "table2" or set(some) == set(paper.MODELS)  # data sets have no model
        return "-".join([self.study, self.dataset, *([] if whole else some)])

    @property
    def command(self) -> str:
        """What does it again; folders of this machine are left out."""
        words = ["receraser", "reproduce", self.study]
        words += [] if is_made(self.dataset) else ["--data", "DIR"]
        words += ["--dataset", self.dataset]
        if self.models != paper.MODELS:
            words += ["--models", ",".join(self.models)]
        if self.methods:
            words += ["--methods", ",".join(self.methods)]
        words += ["--seeds", str(self.seeds)]
        if self.forgets is not None:
            words += ["--forgets", str(self.forgets)]
        if self.within is not None:
            words += ["--within", f"{float(self.within)!r}"]
        return shlex.join([*words, "--device", self.device])


def several(texts: list[str] | tuple[str, ...]) -> tuple[str, ...]:
    """Split lists such as bpr,wmf; each name once.

    Examples
    --------
    >>> several(["bpr,wmf", "bpr"])
    ('bpr', 'wmf')
    """
    return tuple(dict.fromkeys(name.strip() for text in texts for name in text.split(",") if name.strip()))
