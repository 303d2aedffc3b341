"""The studies by name. A module is imported when its study is asked for."""

from __future__ import annotations

from importlib import import_module

from receraser.reproduce.order import STUDIES
from receraser.reproduce.studies.study import Study

__all__ = ["find_study"]


def find_study(name: str) -> Study:
    """Return the study of that name."""
    assert name in STUDIES, name
    study = import_module(f"receraser.reproduce.studies.{name}").STUDY
    assert isinstance(study, Study)
    return study
