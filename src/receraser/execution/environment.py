"""The environment that bits depend on: what is pinned in workers before anything is imported, and what is recorded.

Results must not depend on the number of cores or on whether a CPU has wider vector units than the one a store was made
on. So workers run BLAS and torch with one thread, and on x86-64 with AVX2 code paths, whatever the CPU could do beyond.
CPU and CUDA are different environments; so are different versions of the libraries that compute.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

__all__ = ["pinned_variables", "recorded"]

_ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
_AVX2 = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_CBWR": "AVX2",
    "OPENBLAS_CORETYPE": "Haswell",
    "NUMBA_CPU_NAME": "haswell",
    "NUMBA_CPU_FEATURES": "+avx2",
}
_FIXED_CUDA = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}


def pinned_variables(kernel_threads: int) -> dict[str, str]:
    """Return the environment variables a worker is started with; only the thread count of our kernels may differ."""
    pins = _ONE_THREAD | _FIXED_CUDA | {"NUMBA_NUM_THREADS": str(kernel_threads), "PYTHONHASHSEED": "0"}
    return pins | _AVX2 if _has_avx2() else pins


def _has_avx2() -> bool:
    if platform.machine() not in ("x86_64", "AMD64"):
        return False
    try:
        return " avx2 " in Path("/proc/cpuinfo").read_text()
    except OSError:
        return True  # not Linux: every x86-64 CPU that torch supports there has it


def recorded(device: str) -> Mapping[str, str]:
    """Return what a store notes about where its weights were computed. Called inside the worker."""
    import torch

    versions = {f"version.{name}": _version(name) for name in ("numba", "numpy", "scipy", "torch")}
    pins = {f"pin.{name}": value for name, value in sorted(pinned_variables(1).items()) if "NUMBA_NUM" not in name}
    place = torch.cuda.get_device_name() if device == "cuda" else platform.machine()
    return {"device": device, "processor": place, "python": platform.python_version(), **versions, **pins}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
