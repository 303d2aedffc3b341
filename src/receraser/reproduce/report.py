"""Results to files: OUT/NAME-DATASET[-MODEL...].json, .md, .png and .svg, made of the cells that are there.

No row and no id is in them: means, spreads, times, settings, and with each the command, the day and the hardware.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from receraser.errors import UsageError
from receraser.reproduce.cell import Result
from receraser.reproduce.datasets import MADE, is_made
from receraser.reproduce.kept import Kept
from receraser.reproduce.machine import machines
from receraser.reproduce.order import Order
from receraser.reproduce.page import named
from receraser.reproduce.picture import saved
from receraser.reproduce.studies.study import Entry, Findings, Study

__all__ = ["findings", "write"]

_HIDDEN = ("users", "digest")  # digests of who was ranked for, and of states


def findings(order: Order, entries: Sequence[Entry], kept: Kept, rows: str, device: str) -> Findings:
    """Return what the cells say; with the device "auto" every model's from where most of its cells were computed."""
    places: dict[str, str] = {}
    for model in dict.fromkeys(entry.model for entry in entries):
        cells = [entry.cell for entry in entries if entry.model == model]
        asked = ("cuda", "cpu") if device == "auto" else (device,)
        places[model] = max(asked, key=lambda one: sum(kept.holds(cell.digest(rows, one)) for cell in cells))
    found: list[tuple[Entry, Result]] = []
    missing = []
    for entry in entries:
        result = kept.read(entry.cell.digest(rows, places[entry.model]))
        if result is None:
            missing.append(entry)
        else:
            found.append((entry, result))
    return Findings(order, found, missing)


def write(study: Study, found: Findings) -> list[Path]:
    """Write the document, the page and, where there is something to draw and something to draw with, the picture."""
    order = found.order
    base = order.out / order.name
    try:
        order.out.mkdir(parents=True, exist_ok=True)
        document = base.with_name(f"{order.name}.json")
        document.write_text(json.dumps(_document(study, found), indent=1) + "\n", encoding="utf-8")
        pictures = _pictures(study, found, base)
        page = base.with_name(f"{order.name}.md")
        page.write_text(_page(study, found, bool(pictures)), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{order.out} cannot be written: {error.strerror or error}") from None
    return [document, page, *pictures]


def _pictures(study: Study, found: Findings, base: Path) -> list[Path]:
    draw = study.draw
    if draw is None or not found.models:  # a model without shards alone is no picture
        return []
    return saved(base, study.size(len(found.models)), lambda figure: draw(found, figure))


def _page(study: Study, found: Findings, drawn: bool) -> str:
    order = found.order
    lines = [f"# {study.title}, {order.dataset}", "", f"`{order.command}`, {'; '.join(_about(found, 'date'))}.", ""]
    lines += [f"Computed on {' and on '.join(_about(found, 'hardware'))}.", ""]
    if is_made(order.dataset):
        lines += [f"**{MADE[0].upper()}{MADE[1:]}.**", ""]
    lines += [line for model in found.models for line in _several_machines(study, found, model)]
    if drawn:
        lines += [f"![{study.title}]({order.name}.svg)", ""]
    lines += [
        "Hyperparameters, merges and epochs were chosen on validation rows, never on the test rows. (The",
        "paper's published code stopped on the test rows.) Vectors have 64 numbers for every method, unless",
        "a line says otherwise.",
    ]
    lines += _missing(found)
    lines += ["", *study.page(found), "", "## Settings", "", *_settings(found), ""]
    return "\n".join(lines) + f"\nWritten by `{order.command} --report`.\n"


def _missing(found: Findings) -> list[str]:
    """Return a warning where cells are missing, and how many of which lines: those are means over the rest."""
    if not found.missing:
        return []
    lines = Counter(f"{named(entry.model)}: {named(entry.row)}" for entry in found.missing)
    told = "; ".join(f"{line}{f' ({n})' if n > 1 else ''}" for line, n in lines.items())
    total = len(found.missing) + len(found.found)
    return ["", f"**Not complete**: {len(found.missing)} of {total} cells are missing ({told})."]


def _several_machines(study: Study, found: Findings, model: str) -> list[str]:
    """Return a warning where times of a model that are compared come from several machines."""
    own = [(entry, one) for entry, one in found.found if entry.model == model and study.timed(entry)]
    places = machines(str(one.about["hardware"]) for _, one in own if "hardware" in one.about)
    if len(places) < 2:
        return []
    number = "two" if len(places) == 2 else str(len(places))
    told = "; and ".join(f"{place}: {_rows_at(own, place)}" for place in places)
    return [f"**{named(model)}: times from {number} machines**, not to be compared across them: {told}.", ""]


def _rows_at(some: Sequence[tuple[Entry, Result]], place: str) -> str:
    """Return the lines whose times are from a machine."""
    at = [entry.row for entry, one in some if str(one.about.get("hardware")) in (place, place.partition("; ")[2])]
    return ", ".join(named(row) for row in dict.fromkeys(at))


def _settings(found: Findings) -> Iterable[str]:
    """Yield where the settings of each line come from, and which they are."""
    seen: dict[tuple[str, str], Entry] = {}
    for entry, _ in found.found:
        known = seen.setdefault((entry.model, entry.row), entry)
        if _shards(known) == 1 < _shards(entry):  # one shard is a retrain, whichever method's line it stands in
            seen[entry.model, entry.row] = entry
    for (model, row), entry in seen.items():
        config = entry.cell.config
        if config is None:
            continue
        parts = [("submodels" if config.shards > 1 else "model", config.hyperparameters)]
        parts += [(config.partition, config.partition_settings), (config.aggregation, config.aggregation_settings)]
        told = "; ".join(f"{name}: {_values(own)}" for name, own in parts if own)
        yield f"- {model}, {row} (from {entry.origin}): {told}"


def _shards(entry: Entry) -> int:
    return 1 if entry.cell.config is None else entry.cell.config.shards


def _values(settings: object) -> str:
    assert isinstance(settings, dict)
    return ", ".join(f"{key}={value}" for key, value in settings.items())


def _about(found: Findings, key: str) -> list[str]:
    return list(dict.fromkeys(str(result.about[key]) for _, result in found.found if key in result.about)) or [
        "nowhere"
    ]


def _document(study: Study, found: Findings) -> dict[str, object]:
    """Return everything that was found, cell by cell, without what belongs to single users."""
    order = found.order
    return {
        "study": order.study,
        "title": study.title,
        "dataset": order.dataset,
        "command": order.command,
        "dates": _about(found, "date"),
        "hardware": _about(found, "hardware"),
        "versions": _about(found, "versions"),
        "missing": len(found.missing),
        "settings": _configurations(found),
        "cells": [_line(entry, result) for entry, result in found.found],
    }


def _configurations(found: Findings) -> dict[str, object]:
    """Return the configuration of each line; its shards, where it has several numbers of them, as a list."""
    settings: dict[str, dict[str, object]] = {}
    shards: dict[str, set[int]] = {}
    for entry, result in found.found:
        config = entry.cell.placed(str(result.about.get("device", "cpu")))
        if config is None:
            continue
        name = f"{entry.model}, {entry.row}"
        settings[name] = {"from": entry.origin, **config.as_dict()}
        shards.setdefault(name, set()).add(config.shards)
    for name, one in settings.items():
        del one["seed"]
        one["shards"] = sorted(shards[name])
    return dict(settings)


def _line(entry: Entry, result: Result) -> dict[str, object]:
    line: dict[str, object] = {"model": entry.model, "row": entry.row, "what": entry.what, "x": entry.x}
    line |= {
        "kind": entry.cell.kind,
        "seed": entry.cell.seed,
        **({"extras": dict(entry.cell.extras)} if entry.cell.extras else {}),
    }
    for name in ("metrics", "seconds", "numbers"):
        values = {key: _rounded(value) for key, value in getattr(result, name).items()}
        line |= {name: values} if values else {}
    if result.series:
        line["series"] = {key: [_rounded(value) for value in values] for key, values in result.series.items()}
    notes = {key: value for key, value in result.notes.items() if key not in _HIDDEN}
    return line | ({"notes": notes} if notes else {})


def _rounded(value: float) -> float:
    return value if isinstance(value, int) else round(float(value), 6)
