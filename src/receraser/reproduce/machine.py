"""What a figure means nothing without: the machine, the day, the versions."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Iterable
from pathlib import Path

__all__ = ["about", "hardware", "machines"]


def hardware(device: str) -> str:
    """Return the processor and how many cores of it are ours; on CUDA the GPU too."""
    cores = len(os.sched_getaffinity(0))
    try:
        text = Path("/proc/cpuinfo").read_text()
        model = next(line.split(":", 1)[1].strip() for line in text.splitlines() if line.startswith("model name"))
    except (OSError, StopIteration):
        model = platform.machine()
    here = f"{model}, {cores} cores"
    if device != "cuda":
        return here
    import torch

    return f"{torch.cuda.get_device_name()}; {here}"


def machines(texts: Iterable[str]) -> list[str]:
    """Return the machines that several `hardware` are of: what is computed beside a GPU is on the GPU's machine.

    Examples
    --------
    >>> machines(["an A100; a Xeon, 8 cores", "a Xeon, 8 cores", "a Ryzen, 2 cores"])
    ['an A100; a Xeon, 8 cores', 'a Ryzen, 2 cores']
    """
    found = list(dict.fromkeys(texts))
    hosts = {one.partition("; ")[2] for one in found}
    return [one for one in found if one not in hosts]


def about(device: str, seconds: float) -> dict[str, str | float]:
    """Return where and when a cell was computed, and how long it took."""
    import numpy as np
    import scipy
    import torch

    versions = {"python": platform.python_version(), "torch": torch.__version__}
    versions |= {"numpy": np.__version__, "scipy": scipy.__version__}
    return {
        "device": device,
        "hardware": hardware(device),
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "seconds": round(seconds, 3),
    }
