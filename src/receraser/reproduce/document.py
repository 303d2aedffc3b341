"""The JSON file of a study: everything that its page and its picture are made of, and nothing of single users.

::

    cells -> Findings -> document (JSON) -> Findings -> page, picture

Pages and pictures are made of the document alone, also right after a run. So they never say anything else than it does,
and can be made again, with another layout, where the cells that it came from are long gone: in a fresh clone. What
needs single users, the comparisons of a page, is computed once, when there are cells, and written down.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from receraser.config import EngineConfig
from receraser.errors import DataError
from receraser.reproduce.cell import Cell, Result
from receraser.reproduce.comparing import Share
from receraser.reproduce.order import Order
from receraser.reproduce.page import named
from receraser.reproduce.studies.study import Entry, Findings, Pair, Place, Study

__all__ = ["ABOUT", "FORMAT", "Document", "document_of", "findings_of", "read_document", "write_document"]

Document = Mapping[str, Any]
FORMAT = 2
_HIDDEN = ("users", "digest")  # notes: digests of who was ranked for, and of states
_ORDERED = ("models", "methods", "seeds", "forgets", "within", "device")  # of an order; the rest says where, or how
_PARTS = ("metrics", "seconds", "numbers")
# What a document says of all lines together, or of each where they differ; and what a result calls it.
ABOUT = {"dates": "date", "hardware": "hardware", "code": "code", "versions": "versions", "split": "split"}


def document_of(study: Study, found: Findings) -> Document:
    """Return everything that was found, cell by cell, and every comparison that the page asks for."""
    study.page(found)  # which notes what it compares
    order = found.order
    told = {key: [result.about.get(key) for _, result in found.found] for key in ABOUT.values()}
    about = {
        name: list(dict.fromkeys([str(one) for one in told[key] if one is not None] + list(found.known.get(name, ()))))
        for name, key in ABOUT.items()
    }
    about["dates"].sort()
    several = [key for key, values in told.items() if len(set(values)) > 1]
    return {
        "format": FORMAT,
        "study": order.study,
        "title": study.title,
        "dataset": order.dataset,
        "command": order.command,
        "order": {name: _plain(getattr(order, name)) for name in _ORDERED},
        **about,
        "missing": dict(Counter(f"{named(entry.model)}: {named(entry.row)}" for entry in found.missing)),
        "settings": _configurations(found),
        "cells": [_line(entry, result, several) for entry, result in found.found],
        "compared": _compared(found),
        **({"extended": list(found.extensions)} if found.extensions else {}),
    }


def findings_of(document: Document, out: Path) -> Findings:
    """Return what a document says, to make a page of it; `out` is the folder that it is in."""
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in document["order"].items()
    }
    order = Order(document["study"], dataset=document["dataset"], out=out, report=True, **given)
    told = {key for key in ABOUT.values() if any(key in line for line in document["cells"])}
    whole = {key: document[name][0] for name, key in ABOUT.items() if key not in told and len(document[name]) == 1}
    found = [_pair(document, line, whole) for line in document["cells"]]
    shares: dict[Pair, Share | None] = {}
    p_values: dict[Pair, list[float]] = {}
    for one in document["compared"]:
        pair = _place(one["ours"]), _place(one["theirs"]), one["metric"]
        if "share" in one:
            shares[pair] = None if one["share"] is None else Share(*one["share"])
        if "p" in one:
            p_values[pair] = one["p"]
    known = {name: document[name] for name in ABOUT}
    return Findings(
        order, found, shares=shares, p_values=p_values, known=known, extensions=document.get("extended", ())
    )


def write_document(path: Path, document: Document) -> None:
    """Write it, one value a line: what a change of it changes can be read. Whole, or not at all."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    part.replace(path)


def read_document(path: Path) -> Document:
    """Read a document; raise `DataError` if it is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"the results cannot be read: {error}", path=str(path)) from None
    version = found.get("format") if isinstance(found, dict) else None
    if version != FORMAT:
        raise DataError(
            f"the results have the format {version}; expected {FORMAT}. Compute them again: the same command without "
            "--report",
            path=str(path),
        )
    assert isinstance(found, dict)
    return found


# ---------------------------------------------------------------------- to a document


def _configurations(found: Findings) -> dict[str, object]:
    """Return the configuration of each line; its shards, where it has several numbers of them, as a list.

    One shard is a retrain, whichever method's line it stands in: its settings are not those of the line.
    """
    settings: dict[str, dict[str, object]] = {}
    shards: dict[str, set[int]] = {}
    for entry, result in found.found:
        config = entry.cell.placed(str(result.about.get("device", "cpu")))
        if config is None:
            continue
        name = f"{entry.model}, {entry.row}"
        if name not in settings or config.shards > 1 or max(shards[name]) == 1:
            settings[name] = {"from": entry.origin, **config.as_dict()}
        shards.setdefault(name, set()).add(config.shards)
    for name, one in settings.items():
        del one["seed"]
        one["shards"] = sorted(shards[name])
    return dict(settings)


def _line(entry: Entry, result: Result, told: Sequence[str]) -> dict[str, object]:
    """Return a line; `told`: what is not the same of all lines, so that each has to say it, or that nobody knows."""
    line: dict[str, object] = {"model": entry.model, "row": entry.row, "what": entry.what, "x": entry.x}
    line |= {"kind": entry.cell.kind, "seed": entry.cell.seed}
    line |= {"extras": dict(entry.cell.extras)} if entry.cell.extras else {}
    line |= {key: result.about.get(key) for key in told}
    for name in _PARTS:
        values = {key: _rounded(value) for key, value in getattr(result, name).items()}
        line |= {name: values} if values else {}
    if result.series:
        line["series"] = {key: [_rounded(value) for value in values] for key, values in result.series.items()}
    notes = {key: value for key, value in result.notes.items() if key not in _HIDDEN}
    return line | ({"notes": notes} if notes else {})


def _compared(found: Findings) -> list[dict[str, object]]:
    """Return what was compared with what, in the order in which the page asked for it."""
    made: dict[Pair, dict[str, object]] = {}
    for pair, share in found.shares.items():
        ends = None if share is None else [_rounded(one) for one in (share.mean, share.low, share.high)]
        made.setdefault(pair, {})["share"] = ends
    for pair, values in found.p_values.items():
        made.setdefault(pair, {})["p"] = values
    return [
        {"ours": list(ours), "theirs": list(theirs), "metric": metric, **values}
        for (ours, theirs, metric), values in made.items()
    ]


def _rounded(value: float) -> float:
    return value if isinstance(value, int) else round(float(value), 6)


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


# ---------------------------------------------------------------------- from a document


def _entry(document: Document, line: Mapping[str, Any]) -> Entry:
    known = document["settings"].get(f"{line['model']}, {line['row']}")
    if known is not None and len(known["shards"]) > 1 and line["x"] == 1:  # one shard is a retrain, of its settings
        known = document["settings"].get(f"{line['model']}, retrain", known)
    config, origin = None, ""
    if known is not None:
        own = {key: value for key, value in known.items() if key not in ("from", "shards")}
        shards = known["shards"][0] if len(known["shards"]) == 1 else int(line["x"])  # several: x says how many
        config, origin = EngineConfig(**own, shards=shards, seed=line["seed"]), known["from"]
    cell = Cell(line["kind"], document["dataset"], config, line.get("extras", {}))
    return Entry(line["model"], line["row"], cell, origin, line["what"], line["x"])


def _pair(document: Document, line: Mapping[str, Any], whole: Mapping[str, str]) -> tuple[Entry, Result]:
    """Return a line again, with what is known of where and when it was computed; `whole`: of all lines alike."""
    entry = _entry(document, line)
    about = {**whole, **{key: line[key] for key in ABOUT.values() if line.get(key) is not None}}
    if entry.cell.config is not None:
        about["device"] = entry.cell.config.device
    parts = {name: line.get(name, {}) for name in (*_PARTS, "series", "notes")}
    return entry, Result(**parts, about=about)


def _place(values: Sequence[Any]) -> Place:
    model, row, what, x = values
    return model, row, what, x
