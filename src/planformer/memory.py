"""Keep freed memory for the next step instead of giving it back to the system (glibc only).

A training step frees and allocates the same few hundred large tensors over and over. glibc maps blocks above its
threshold afresh each time, and the kernel has to find and clear every page of them again. docs/decisions.md has what
that costs, and what keeping the blocks costs in memory.
"""

from __future__ import annotations

import ctypes
import os

# malloc.h: parameters of mallopt. 32 MB is the largest threshold glibc accepts.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
_SETTINGS = {_MMAP_THRESHOLD: 32 << 20, _TRIM_THRESHOLD: 2**31 - 1, _TOP_PAD: 64 << 20}
# Whoever sets one of these in the environment has decided already.
_VARIABLES = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "GLIBC_TUNABLES", "LD_PRELOAD")


def keep_freed_memory() -> bool:
    """Whether the allocator could be told; anything but glibc, or a choice in the environment, is left alone.

    >>> keep_freed_memory() in (True, False)
    True
    """
    if any(os.environ.get(name) for name in _VARIABLES):
        return False
    try:
        libc = ctypes.CDLL(None)
        libc.gnu_get_libc_version  # noqa: B018 - other C libraries may have a mallopt that means something else
        mallopt = libc.mallopt
    except (OSError, TypeError, AttributeError):
        return False
    accepted = [mallopt(name, value) == 1 for name, value in _SETTINGS.items()]
    return all(accepted)
