"""What the command does: the missing cells of one study or several, then their pages and pictures."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

from receraser.errors import DataError, ReceraserError, UsageError, nearest
from receraser.reproduce import paper
from receraser.reproduce.datasets import Dataset, load
from receraser.reproduce.drawn import sets_digest
from receraser.reproduce.extending import check, extended, widened
from receraser.reproduce.kept import Kept
from receraser.reproduce.order import Order
from receraser.reproduce.runner import Ran, run
from receraser.reproduce.studies.registry import find_study
from receraser.reproduce.studies.study import Entry, Findings

__all__ = ["orders_of", "planned", "reproduce"]

Say = Callable[[str], None]


def orders_of(names: Sequence[str], order: Order) -> list[Order]:
    """Return an order for each of these studies, each once, otherwise like the one that is given.

    With several studies each takes those methods of the order that it has. Raises `UsageError` for a method that none
    of them has, and for a study that has none of the methods.

    Examples
    --------
    >>> some = orders_of(["batch", "levels"], Order("batch", methods=("spectral", "spectral-32")))
    >>> [(one.study, one.methods) for one in some]
    [('batch', ('spectral', 'spectral-32')), ('levels', ('spectral',))]
    """
    made = [dataclasses.replace(order, study=name) for name in dict.fromkeys(names)]
    if len(made) == 1 or not order.methods:
        return made
    known = {one.study: find_study(one.study).methods for one in made}
    everywhere = {method for methods in known.values() for method in methods}
    for method in order.methods:
        if method not in everywhere:
            raise UsageError(f"none of {', '.join(known)} has a method {method!r}: {nearest(method, everywhere)}")
    for name, methods in known.items():
        if methods and not set(methods) & set(order.methods):
            asked = ", ".join(order.methods)
            has = ", ".join(methods)
            raise UsageError(f"{name} has none of the methods {asked}; name one of {has} too, or leave {name} out")
    return [
        dataclasses.replace(one, methods=tuple(method for method in order.methods if method in known[one.study]))
        for one in made
    ]


def planned(orders: Sequence[Order]) -> list[str]:
    """Return the cells that some orders need, in words, each once."""
    cells = [entry.cell for order in orders for entry in find_study(order.study).entries(order)]
    return list({cell.digest("", "cpu"): cell.label for cell in cells}.values())


def reproduce(orders: Sequence[Order], say: Say, *, pages: bool = True) -> tuple[Ran, list[Path]]:
    """Compute what is missing (unless a report is all that was asked for), and write the pages (if wanted).

    The orders differ in nothing but study and methods, as those of `orders_of` do. Their cells are computed together:
    those of the same submodels have them from one fit, whichever study they are of. A report is made of the cells that
    are kept or, where it has more of them, of the document of an earlier run; with `extend` of both.

    Returns how the run ended, and the files that were written.
    """
    order = orders[0]
    assert all(dataclasses.replace(one, study=order.study, methods=order.methods) == order for one in orders), orders
    cells = [entry.cell for one in orders for entry in find_study(one.study).entries(one)]
    earlier = {one.study: _earlier(one) for one in orders if one.extend and (pages or _document(one).exists())}
    kept = Kept(order.cells)
    device, ran = order.device, Ran()
    rows: str | None
    sets: str | None
    if order.report and order.data is None:
        rows, sets = kept.rows_of(order.dataset), kept.sets_of(order.dataset)
    else:
        data = load(order.data, order.dataset)
        rows = data.digest
        sets = sets_digest(data) if any(cell.takes_sets for cell in cells) else ""
        if not order.report:
            from receraser.models.factors import torch_device

            device = torch_device(order.device).type
            for one in orders:
                if one.study in earlier:
                    _check(one, sets, earlier[one.study], device)
            _say_of_the_split(data, say)
            say(f"{order.dataset}: {len(data.full):,} rows to fit, {len(data.test):,} to test on; {data.origin}")
            ran = run([cell.of_sets(sets) for cell in cells], data, kept, device, say, order.jobs)
    if not pages:
        return ran, []
    files = []
    for one in orders:
        found = None
        if rows is not None and sets is not None:
            try:
                found = _found(dataclasses.replace(one, device=device), kept, rows, sets, earlier.get(one.study), say)
            except ReceraserError as error:
                if not ran.failed:
                    raise
                say(f"{one.name} stays as it is: {error}")  # for want of what failed, of which there is a summary
                continue
        files += _written(one, found, say)
    return ran, files


def _found(order: Order, kept: Kept, rows: str, sets: str, earlier: Findings | None, say: Say) -> Findings:
    """Return what the cells of an order say, and the results of an earlier run where they are to be extended."""
    from receraser.reproduce.report import findings

    if earlier is None:
        return findings(order, _entries(order, sets), kept, rows, order.device)
    _check(order, sets, earlier, None)
    wide = widened(order, find_study(order.study), earlier.order)
    entries = _entries(wide, sets)
    found = extended(findings(wide, entries, kept, rows, order.device), entries, earlier, find_study(order.study))
    said = found.extensions[len(earlier.extensions) :]
    say(f"{order.name}: {said[0] if said else 'nothing is here that it has not'}")
    return found


def _check(order: Order, sets: str, earlier: Findings, device: str | None) -> None:
    """Raise where an order cannot extend what there is, which is better known before hours of work."""
    study = find_study(order.study)
    wide = widened(order, study, earlier.order)
    check(_entries(order, sets), _entries(wide, sets), earlier, study, device)


def _entries(order: Order, sets: str) -> list[Entry]:
    """Return the entries of an order; `sets`: the digest of the files that say who is forgotten."""
    entries = find_study(order.study).entries(order)
    return [dataclasses.replace(entry, cell=entry.cell.of_sets(sets)) for entry in entries]


def _earlier(order: Order) -> Findings:
    """Return what the results of an earlier run say, which are to be extended."""
    from receraser.reproduce.document import findings_of, read_document

    path = _document(order)
    if not path.exists():
        raise UsageError(f"there is no {path} to be extended{_others(order)}; or leave out --extend")
    return findings_of(read_document(path), order.out)


def _document(order: Order) -> Path:
    from receraser.reproduce.report import document_path

    return document_path(order)


def _written(one: Order, found: Findings | None, say: Say) -> list[Path]:
    """Write what was found, or what a document of before has more of; return the files."""
    from receraser.reproduce.document import read_document
    from receraser.reproduce.report import document_path, rewrite, write

    earlier = document_path(one)
    if one.extend:
        if found is None:
            raise UsageError(f"{one.name}: there are no cells in {one.cells} that it could be extended by")
        return write(found)
    lacks = one.report and (found is None or bool(found.missing))
    if lacks and earlier.exists() and (found is None or len(found.found) < len(read_document(earlier)["cells"])):
        say(f"{one.name}: made of {earlier.name}, which has more than the cells in {one.cells}")
        return rewrite(earlier)
    if found is None:
        raise DataError(
            f"there are no cells of {one.dataset}, or those of several data sets of that name, and no "
            f"{earlier.name}{_others(one)}; compute some (the same command without --report), or say with --data which "
            "rows are meant",
            path=str(one.cells),
        )
    return write(found)


def _others(order: Order) -> str:
    """Say which results of a study there are, where those of an order are not."""
    others = ", ".join(path.name for path in sorted(order.out.glob(f"{order.study}-{order.dataset}*.json")))
    return f" (there is {others}: name its models with --models)" if others else ""


def _say_of_the_split(data: Dataset, say: Say) -> None:
    """Say where the paper's numbers are of another split than ours."""
    if data.name in paper.TABLE3 and data.at_random:
        say(
            f"{data.name}: no files train and test of the paper's authors in {data.folder}: split at random in their "
            "proportions. The paper's numbers, and the pages in benchmarks/results, are of other rows: they differ by "
            "chance (docs/reproduction.md says where the files are)"
        )
