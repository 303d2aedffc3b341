from __future__ import annotations

from tests.verify.conftest import original, world

__all__ = ["original", "world"]
