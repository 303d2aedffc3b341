"""The numbers of the paper, as printed: Chen, Sun, Zhang and Ding, "Recommendation Unlearning", WWW 2022.

Tables 2, 3 and 4 cell by cell; of the figures, which are pictures there, what the text says. Where a number cannot be
right, it stands here as printed, and `MISPRINTS` says so. Its authors' code stopped training by looking at the test
rows, so that quality may be somewhat lower for who does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = [
    "FIGURE2",
    "FIGURE3",
    "METHODS",
    "METRICS",
    "MISPRINTS",
    "MODELS",
    "TABLE2",
    "TABLE3",
    "TABLE4",
    "Counts",
    "Minutes",
    "Table",
]

MODELS = ("bpr", "wmf", "lightgcn")
METHODS = ("retrain", "sisa", "grapheraser", "receraser")
METRICS = ("recall@10", "recall@20", "recall@50", "ndcg@10", "ndcg@20", "ndcg@50")


@dataclass(frozen=True)
class Counts:
    """A row of Table 2; the density in percent."""

    users: int
    items: int
    interactions: int
    density: float


@dataclass(frozen=True)
class Minutes:
    """A column of Table 4: a full retrain; of RecEraser, a shard, the aggregation, and both as printed."""

    retrain: float
    shard: float
    aggregation: float
    total: float


TABLE2: Mapping[str, Counts] = {
    "yelp2018": Counts(31_668, 38_048, 1_561_406, 0.13),
    "ml-1m": Counts(6_940, 3_706, 1_000_209, 3.89),
    "ml-10m": Counts(71_567, 10_681, 10_000_054, 1.31),
}

# A line is a metric, in the order of METRICS; its columns are the METHODS of each of the MODELS.
_TABLE3: Mapping[str, str] = {
    "yelp2018": """
        .0302 .0151 .0224 .0249   .0368 .0235 .0250 .0335   .0367 .0221 .0278 .0328
        .0521 .0272 .0397 .0439   .0619 .0401 .0431 .0572   .0637 .0392 .0479 .0568
        .1028 .0566 .0798 .0889   .1189 .0785 .0825 .1105   .1216 .0768 .0924 .1112
        .0344 .0181 .0254 .0282   .0422 .0278 .0295 .0385   .0424 .0259 .0319 .0377
        .0423 .0224 .0319 .0353   .0512 .0336 .0360 .0471   .0524 .0321 .0393 .0465
        .0612 .0334 .0468 .0523   .0723 .0478 .0508 .0669   .0735 .0461 .0557 .0669
    """,
    "ml-1m": """
        .1510 .1080 .1190 .1393   .1592 .0759 .1127 .1435   .1544 .1089 .1174 .1425
        .2389 .1737 .1906 .2254   .2507 .1266 .1823 .2254   .2428 .1743 .1914 .2266
        .4005 .2970 .3271 .3822   .4165 .2309 .3081 .3818   .4076 .3084 .3322 .3839
        .3412 .2774 .2844 .3208   .3546 .2058 .2575 .3317   .3509 .2767 .3832 .3276
        .3368 .2679 .2827 .3186   .3509 .1998 .2557 .3253   .3447 .2686 .2791 .3229
        .3669 .2840 .3105 .3483   .3838 .2174 .2807 .3542   .3754 .2905 .3043 .3520
    """,
    "ml-10m": """
        .1951 .1620 .1556 .1798   .2094 .1332 .1135 .1994   .1994 .1221 .1055 .1881
        .3016 .2507 .2470 .2808   .3177 .2142 .1766 .3031   .3059 .2033 .1676 .2899
        .4688 .3906 .3979 .4436   .4838 .3515 .2838 .4655   .4748 .3314 .2632 .4537
        .3425 .3002 .2688 .3223   .3704 .2499 .2209 .3575   .3555 .2289 .2139 .3369
        .3534 .3053 .2813 .3319   .3784 .2579 .2243 .3642   .3635 .2476 .2141 .3352
        .3946 .3366 .3219 .3719   .4169 .2918 .2484 .4015   .4037 .2808 .2288 .3844
    """,
}


def _cells(text: str) -> dict[tuple[str, str], dict[str, float]]:
    """Return the metrics of every (model, method) of one data set."""
    columns = [(model, method) for model in MODELS for method in METHODS]
    lines = [[float(value) for value in line.split()] for line in text.strip().splitlines()]
    found: dict[tuple[str, str], dict[str, float]] = {column: {} for column in columns}
    for metric, line in zip(METRICS, lines, strict=True):
        for column, value in zip(columns, line, strict=True):
            found[column][metric] = value
    return found


Table = Mapping[tuple[str, str], Mapping[str, float]]  # the metrics of every model and method
TABLE3: Mapping[str, Table] = {name: _cells(text) for name, text in _TABLE3.items()}

TABLE4: Mapping[str, Mapping[str, Minutes]] = {
    "yelp2018": {
        "bpr": Minutes(400, 39, 13, 52),
        "wmf": Minutes(75, 2.5, 1.3, 3.8),
        "lightgcn": Minutes(1090, 52, 34, 86),
    },
    "ml-1m": {
        "bpr": Minutes(330, 12, 10, 22),
        "wmf": Minutes(13, 0.9, 0.2, 1.1),
        "lightgcn": Minutes(545, 17, 14, 31),
    },
    "ml-10m": {
        "bpr": Minutes(3250, 240, 80, 320),
        "wmf": Minutes(292, 14, 4, 16),
        "lightgcn": Minutes(25330, 610, 330, 940),
    },
}

# Recall@20 where the text beside a picture names it: (data set, model) -> partition, or aggregation.
FIGURE2: Mapping[tuple[str, str], Mapping[str, float]] = {("yelp2018", "lightgcn"): {"inbp": 0.0568, "random": 0.0472}}
FIGURE3: Mapping[tuple[str, str], Mapping[str, float]] = {
    ("yelp2018", "wmf"): {"attention": 0.0572, "mean": 0.0475, "static": 0.0482}
}

MISPRINTS = (
    (
        "Table 2 says 6,940 users for Movielens-1m; there are 6,040, and the density printed beside it (3.89 %) is "
        "1,000,209 / (6,940 x 3,706); with 6,040 users it is 4.47 %."
    ),
    "Table 3, Movielens-1m, GraphEraser with LightGCN: NDCG@10 .3832 is above the retrain's; surely .2832.",
    (
        "Table 4, Movielens-10m, WMF: 14 and 4 minutes are printed with a total of 16; the text says 920 minutes for "
        "LightGCN where the table has 940."
    ),
)
