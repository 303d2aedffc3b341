"""Kernels where numba is missing, or broken."""

from __future__ import annotations

import sys

import pytest

from receraser.training import kernels

__all__ = ["break_numba", "forget_numba"]


def forget_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this process one where numba is not installed, and no kernel has been imported yet."""
    _import_again(monkeypatch)
    monkeypatch.setitem(sys.modules, "numba", None)


def break_numba(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Make this process one where importing numba fails, as it does beside a numpy that is too new for it."""

    class Finder:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "numba":
                raise error

    _import_again(monkeypatch)
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])


def _import_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cpu", "pairs_cpu", "attention_cpu", "non_sampling_cpu", "draws_cpu"):
        monkeypatch.delitem(sys.modules, f"{kernels.__name__}.{name}", raising=False)
