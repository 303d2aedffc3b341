"""`receraser forget`: users, items or single interactions leave the store, and with them what was learned from them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from receraser.cli import options
from receraser.cli.console import Bar, count, print_json, say, warn
from receraser.cli.outcome import cost, done_by, rounded, say_published

if TYPE_CHECKING:
    from receraser.engine import Engine, ForgetReport
    from receraser.erasure.request import ForgetRequest
    from receraser.proof.receipt import Receipt

__all__ = ["forget"]

_EXAMPLES = 5  # unknown subjects that are named in a message


def forget(
    store: options.Store,
    user: Annotated[
        list[str], typer.Option("--user", metavar="U", help="A user with all their rows; repeatable.")
    ] = [],  # noqa: B006
    item: Annotated[list[str], typer.Option("--item", metavar="I", help="An item with all its rows; repeatable.")] = [],  # noqa: B006
    interaction: Annotated[
        list[str], typer.Option("--interaction", metavar="U,I", help="A single row; repeatable.")
    ] = [],  # noqa: B006
    requests: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A batch: CSV or JSON lines with user, item, or both in each line."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Change nothing and exit 1 if a subject is unknown.")
    ] = False,
    keep_old: Annotated[
        bool, typer.Option("--keep-old", help="Keep the state before it; the level is then at most L2.")
    ] = False,
    hide: Annotated[
        bool, typer.Option("--hide", help="Keep the items of forgotten interactions out of their users' lists.")
    ] = False,
    receipts: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write a receipt for every subject into this new folder.")
    ] = None,
    keys: options.Keys = None,
    dry_run: options.DryRun = False,
    as_json: options.AsJson = False,
) -> None:
    """Forget users, items or interactions.

    The shards that held their rows are retrained from nothing, the aggregation is fitted again, and the new state takes
    the place of the old one, which is destroyed. The request is durable before work begins: what is interrupted is
    finished by the next command that changes the store. A certificate says what was done; receipts, written before it
    begins, open it for whoever asked.
    """
    from receraser.cli.opening import opened
    from receraser.errors import UsageError

    if not (user or item or interaction or requests is not None):
        raise UsageError("name what is to be forgotten: --user, --item, --interaction or --requests")
    if hide and not (interaction or requests is not None):
        raise UsageError("--hide is for interactions: name them with --interaction or --requests")
    if receipts is not None and receipts.exists() and (not receipts.is_dir() or any(receipts.iterdir())):
        raise UsageError(f"--receipts {receipts}: expected a new or empty folder")
    request = _request(user, item, interaction, requests)
    with opened(store, keys, to_change=not dry_run, keep_old=keep_old) as (engine, reading):
        planned = engine.forget_request(request, dry_run=True)
        _say_what_is_unknown(planned.unknown, len(request))
        refused = strict and bool(planned.unknown)
        report = planned
        if not dry_run and not refused and request:
            if receipts is not None and not engine.certifies:
                raise UsageError(
                    "--receipts: without keys nothing is certified, and receipts open certificates (--keys)"
                )
            with Bar("starting a worker") as bar:
                report = engine.forget_request(
                    request,
                    hide=hide,
                    receipts=None if receipts is None else partial(_hand_over, receipts),
                    progress=bar.update,
                )
    seconds = {"read": reading, **engine.seconds}
    if as_json:
        print_json(_document(engine, report, seconds, dry_run=dry_run or refused))
    if refused:
        say("nothing was changed (--strict)")
        raise typer.Exit(1)
    if not as_json:
        _say(report, seconds, engine, store, dry_run=dry_run)


def _request(users: list[str], items: list[str], interactions: list[str], file: Path | None) -> ForgetRequest:
    """Return everything that was named, on the command line and in the file, as one batch."""
    from receraser.erasure.request import ForgetRequest
    from receraser.erasure.requests_file import read_requests

    request = ForgetRequest.of(
        [options.id_given(one, "--user") for one in users],
        [options.id_given(one, "--item") for one in items],
        [options.pair_given(one, "--interaction") for one in interactions],
    )
    if file is not None:
        request |= read_requests(file)
    if request.repeated:
        warn(f"{count(request.repeated, 'subject')} named more than once")
    if not request:
        say("the batch is empty: there is nothing to forget")
    return request


def _say_what_is_unknown(unknown: ForgetRequest, asked: int) -> None:
    """Name what nothing was held of; a few of it, to whoever named it."""
    if not unknown:
        return
    names = [f"user {one}" for one in unknown.users] + [f"item {one}" for one in unknown.items]
    names += [f"interaction {user},{item}" for user, item in unknown.interactions]
    more = f" and {len(names) - _EXAMPLES:,} more" if len(names) > _EXAMPLES else ""
    say(f"nothing held for {len(names):,} of {count(asked, 'subject')}: {'; '.join(names[:_EXAMPLES])}{more}")


def _document(engine: Engine, report: ForgetReport, seconds: dict[str, float], *, dry_run: bool) -> dict[str, object]:
    """Return what scripts depend on: these keys, in this order."""
    unknown = report.unknown
    return {
        **({"dry_run": True} if dry_run else {}),
        "digest": engine.digest,
        "level": engine.level,
        "rows_removed": report.rows_removed,
        "valid_rows_removed": report.valid_rows_removed,
        "shards_retrained": list(report.shards_retrained),
        "path": report.path,
        "certificate": None if report.certificate is None else str(report.certificate),
        "seconds": rounded(seconds),
        "estimated_seconds": report.estimated_seconds,
        "users_left_empty": report.users_left_empty,
        "items_left_empty": report.items_left_empty,
        "unknown": {
            "users": list(unknown.users),
            "items": list(unknown.items),
            "interactions": [list(pair) for pair in unknown.interactions],
        },
    }


def _say(report: ForgetReport, seconds: dict[str, float], engine: Engine, store: Path, *, dry_run: bool) -> None:
    rows = f"{count(report.rows_removed, 'row')} and {count(report.valid_rows_removed, 'validation row')}"
    how = done_by(engine, report.path, report.shards_retrained)
    if not report.shards_retrained:
        say(f"nothing to forget: the store in {store} is as it was")
    elif dry_run:
        say(f"would forget {rows}, by {how}{cost(report.estimated_seconds)}")
    else:
        lines = [f"forgot {rows}, by {how}"]
        left = report.users_left_empty, report.items_left_empty
        if any(left):
            lines.append(f"of {count(left[0], 'user')} and {count(left[1], 'item')} nothing is left")
        say_published(engine, store, seconds, *lines, certificate=report.certificate)
    if report.certificate is not None and not report.shards_retrained:
        say(f"certificate: {report.certificate}")
    if not dry_run:
        _say_whom_to_tell(engine)


def _say_whom_to_tell(engine: Engine) -> None:
    """Name those who hold copies of what has just been forgotten, as far as the store knows."""
    told = [one for one in engine.recipients if one["what"] == "export"]
    if told:
        who = "; ".join(dict.fromkeys(f"{one['to']} ({one['time'][:10]})" for one in told))
        say(f"exports were handed over before, and are not changed by this; tell: {who}")


def _hand_over(folder: Path, receipts: Sequence[Receipt]) -> None:
    """Write, to the disk, what opens the certificate for each subject: for them, and to be kept nowhere else."""
    from receraser.errors import UsageError
    from receraser.keys import flush_folder, make_folder

    paths = [folder / f"receipt-{number:05d}.json" for number in range(1, len(receipts) + 1)]
    try:
        make_folder(folder, mode=0o700)
        for path, one in zip(paths, receipts, strict=True):
            with path.open("xb") as stream:
                stream.write(one.payload() + b"\n")
                stream.flush()
                os.fsync(stream.fileno())
        flush_folder(folder)
    except OSError as error:
        for path in paths:
            with suppress(OSError):
                path.unlink(missing_ok=True)  # they are of a request that is not made
        raise UsageError(f"--receipts {folder}: cannot be written ({error.strerror}); nothing was changed") from None
    say(f"{count(len(receipts), 'receipt')} in {folder}: hand each to whoever asked, and keep no copy")
