"""Results to files: OUT/NAME-DATASET[-MODEL...].json, .md, .png and .svg, made of the cells that are there.

The document (.json) comes first, page and picture are made of it (`document`), right away or at any later time: also
where there are no cells any more. No row and no id is in them: means, spreads, times, settings, and with each the
command, the day, the hardware and the version.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from receraser.errors import UsageError
from receraser.reproduce.cell import Result
from receraser.reproduce.datasets import MADE, is_made
from receraser.reproduce.document import Document, document_of, findings_of, read_document, write_document
from receraser.reproduce.kept import Kept
from receraser.reproduce.machine import machines
from receraser.reproduce.order import Order
from receraser.reproduce.page import named
from receraser.reproduce.picture import saved
from receraser.reproduce.studies.registry import find_study
from receraser.reproduce.studies.study import Entry, Findings, Study

__all__ = ["document_path", "findings", "page_of", "rewrite", "write"]


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


def document_path(order: Order) -> Path:
    """Return where an order's document is, or would be."""
    return order.out / f"{order.name}.json"


def write(found: Findings) -> list[Path]:
    """Write the document and, made of it, the page and, where there is something to draw and to draw with, the picture.

    Returns the files.
    """
    order = found.order
    try:
        order.out.mkdir(parents=True, exist_ok=True)
        write_document(document_path(order), document_of(find_study(order.study), found))
        return rewrite(document_path(order))
    except OSError as error:
        raise UsageError(f"{order.out} cannot be written: {error.strerror or error}") from None


def rewrite(path: Path) -> list[Path]:
    """Make the page and the picture of a document again; return all files, the document first."""
    document = read_document(path)
    study, found = find_study(document["study"]), findings_of(document, path.parent)
    pictures = _pictures(study, found, path.with_suffix(""))
    page = path.with_suffix(".md")
    page.write_text(page_of(document, drawn=bool(pictures)), encoding="utf-8")
    return [path, page, *pictures]


def _pictures(study: Study, found: Findings, base: Path) -> list[Path]:
    draw = study.draw
    if draw is None or not found.models:  # a model without shards alone is no picture
        return []
    return saved(base, study.size(len(found.models)), lambda figure: draw(found, figure))


def page_of(document: Document, *, drawn: bool) -> str:
    """Return the page of a document; `drawn`: there is a picture of it."""
    study, found = find_study(document["study"]), findings_of(document, Path())
    dataset, command = document["dataset"], document["command"]
    lines = [f"# {study.title}, {dataset}", "", f"`{command}`, {_told(document['dates'], '; ')}.", ""]
    lines += [f"Computed on {_told(machines(document['hardware']), ' and on ')}{_beside_gpu(document['hardware'])}"]
    lines[-1] += f"{_version(document['code'])}."
    lines += [*(f"Split: {one}." for one in document["split"] if not is_made(dataset)), ""]
    if is_made(dataset):
        lines += [f"**{MADE[0].upper()}{MADE[1:]}.**", ""]
    lines += _several_runs(found)
    lines += [line for model in found.models for line in _several_machines(study, found, model)]
    if drawn:
        lines += [f"![{study.title}]({found.order.name}.svg)", ""]
    lines += [
        "Hyperparameters, merges and epochs were chosen on validation rows, never on the test rows. (The",
        "paper's published code stopped on the test rows.) Vectors have 64 numbers for every method, unless",
        "a line says otherwise.",
    ]
    lines += _missing(document["missing"], len(document["cells"]))
    lines += ["", *study.page(found), "", "## Settings", "", *_settings(document["settings"]), ""]
    return "\n".join(lines) + f"\nWritten by `{command} --report`.\n"


def _told(some: Sequence[str], between: str) -> str:
    return between.join(some) or "nowhere"


def _beside_gpu(some: Sequence[str]) -> str:
    """Say it where something was computed on the cores of a GPU's machine: their seconds are of those."""
    return " (what needs no shards on its cores)" if len(machines(some)) < len(some) else ""


def _version(some: Sequence[str]) -> str:
    return f", version{'s' * (len(some) > 1)} {' and '.join(some)}" if some else ""


def _missing(lines: Mapping[str, int], n_found: int) -> list[str]:
    """Return a warning where cells are missing, and how many of which lines: those are means over the rest."""
    if not lines:
        return []
    told = "; ".join(f"{line}{f' ({n})' if n > 1 else ''}" for line, n in lines.items())
    total = sum(lines.values())
    return ["", f"**Not complete**: {total} of {total + n_found} cells are missing ({told})."]


def _several_runs(found: Findings) -> list[str]:
    """Return which lines are of which day and version, where they are of several; and what was added later."""
    runs: dict[str, dict[str, list[str]]] = {}
    for entry, one in found.found:
        version = f", version {one.about['code']}" if "code" in one.about else ""
        run = f"{one.about.get('date', 'on a day that is not known')}{version}"
        rows = runs.setdefault(run, {}).setdefault(named(entry.model), [])
        rows += [] if named(entry.row) in rows else [named(entry.row)]
    lines = []
    if found.extensions and len(runs) > 1:
        lines += ["Not computed in one go:", ""]
        for run, models in sorted(runs.items()):
            told = [f"{model}: {'; '.join(rows)}" for model, rows in models.items()]
            lines.append(f"- {run}: {'. '.join(told)}")
        lines.append("")
    return lines + [line for one in found.extensions for line in (f"Extended: {one}.", "")]


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


def _settings(known: Mapping[str, Mapping[str, Any]]) -> Iterable[str]:
    """Yield where the settings of each line come from, and which they are."""
    for name, one in known.items():
        parts = [("submodels" if max(one["shards"]) > 1 else "model", one["hyperparameters"])]
        parts += [(one[part], one[f"{part}_settings"]) for part in ("partition", "aggregation")]
        told = "; ".join(f"{part}: {_values(own)}" for part, own in parts if own)
        yield f"- {name} (from {one['from']}): {told}"


def _values(settings: Mapping[str, object]) -> str:
    return ", ".join(f"{key}={value}" for key, value in settings.items())
