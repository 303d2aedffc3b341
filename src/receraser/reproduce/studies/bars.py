"""What Figures 2 and 3 share: variants of one method side by side, as a table and as bars of Recall@20."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from receraser.reproduce.page import against, named, share_text, table
from receraser.reproduce.picture import PRINTED, label_below, level_line, panels, titled
from receraser.reproduce.studies.study import ADDITIVE, Findings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Bars"]

_OURS, _PAPERS, _REFERENCE = "#0072B2", "#8CBFDE", "#444444"
_SHORT = 0.45  # of the highest bar: in one that is shorter its number has no room
_NEW = ("hash", "spectral", "attention, hash", "spectral, hash")  # not in the paper


@dataclass(frozen=True)
class Bars:
    """A table and a picture of variants.

    Attributes
    ----------
    introduction
        The first lines of the page.
    printed
        Recall@20 that the paper names, by (data set, model) and line.
    message
        What the picture is about.
    names
        Of lines that need another one than `page.named` gives them.
    """

    introduction: Sequence[str]
    printed: Mapping[tuple[str, str], Mapping[str, float]]
    message: str
    names: Mapping[str, str] = field(default_factory=dict)

    def page(self, found: Findings) -> list[str]:
        """Return a table for each model."""
        lines = list(self.introduction)
        for model in found.models:
            rows = []
            for row in found.rows(model):
                printed = self._printed(found, model).get(row)
                cells = [self._named(row), against(found.spread(model, row, "recall@20"), printed)]
                ndcg = found.spread(model, row, "ndcg@20")
                cells.append("" if ndcg is None else ndcg.text())
                for metric in ("recall@20", "ndcg@20"):
                    share = found.share((model, row, "fit", None), (model, "retrain", "fit", None), metric)
                    cells.append(share_text(share))
                cells.append(f"{_mean([one.numbers['balance'] for one in found.of(model, row)]):.2f}")
                rows.append(cells)
            columns = ["", "R@20", "N@20", "share R@20", "share N@20", "balance"]
            lines += ["", f"## {named(model)}", "", *table(columns, rows)]
        return lines

    def draw(self, found: Findings, figure: Figure) -> None:
        """Draw Recall@20 of each variant; the lines are the full retrain, and models without shards."""
        from matplotlib.colors import to_rgba

        models = found.models
        for axes, model in zip(panels(figure, [named(one) for one in models]), models, strict=True):
            rows = [row for row in found.rows(model) if row not in ("retrain", *ADDITIVE)]
            spreads = [found.spread(model, row, "recall@20") for row in rows]
            heights = [0.0 if one is None else one.mean for one in spreads]
            halves = [0.0 if one is None else one.half for one in spreads]
            colours = [_OURS if row in _NEW else _PAPERS for row in rows]
            bars = axes.bar(range(len(rows)), heights, yerr=halves, color=colours)
            for bar, height, half in zip(bars, heights, halves, strict=True):  # inside, where no line crosses them
                inside = height > _SHORT * max(heights)
                place = bar.get_x() + bar.get_width() / 2, 0.04 * max(heights) + (0 if inside else height + half)
                ink = "white" if inside and bar.get_facecolor() == to_rgba(_OURS) else "black"
                axes.annotate(f"{height:.4f}", place, rotation=90, ha="center", va="bottom", color=ink)
            for x, row in enumerate(rows):
                if row in (printed := self._printed(found, model)):
                    axes.plot(
                        x,
                        printed[row],
                        color=PRINTED,
                        marker="D",
                        markeredgecolor="white",
                        linestyle="none",
                        label="printed in the paper",
                    )
            for fill, text in ((_PAPERS, "one of the paper's"), (_OURS, "not in the paper")):
                axes.bar(0, 0, color=fill, label=text)
            full = found.spread(model, "retrain", "recall@20")
            if full is not None:
                axes.axhline(full.mean, color=_REFERENCE, linestyle="--", label="full retrain")
            for row in [one for one in found.rows(model) if one in ADDITIVE]:  # no variants of it: other models
                alone = found.spread(model, row, "recall@20")
                assert alone is not None, row
                level_line(axes, row, alone.mean)
            axes.set_xticks(range(len(rows)), [self._named(row) for row in rows], rotation=30, ha="right")
            axes.margins(y=0.15)
            axes.grid(axis="x", visible=False)
            if model == models[0]:
                axes.set_ylabel("Recall@20")
        titled(figure, f"{found.order.dataset}: {self.message}")
        label_below(figure)

    def _named(self, row: str) -> str:
        return self.names.get(row, named(row))

    def _printed(self, found: Findings, model: str) -> Mapping[str, float]:
        return self.printed.get((found.order.dataset, model), {})


def _mean(values: Sequence[float]) -> float:
    return sum(values) / max(1, len(values))
