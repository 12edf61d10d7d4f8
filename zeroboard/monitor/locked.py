"""How much memory a process may lock: the limit, and whether this process is bound by it.

NVMe offload reads and writes through locked buffers (`mlock`), and DeepSpeed ends the rank where it is given none. The
hard limit counts, for the ranks raise the soft one themselves. Root is not bound by it outside of containers, and often
is inside, so a byte too many is tried (without touching the memory) instead of asking who we are.
"""

from __future__ import annotations

import ctypes
import mmap
import resource

MLOCK_ONFAULT = 1
"""Lock pages when they are touched: nothing is allocated by the trial."""


def lockable() -> int | None:
    """Bytes that a process may lock; None: as many as there are, or it cannot be told."""
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if hard == resource.RLIM_INFINITY:
        return None
    return None if soft != resource.RLIM_INFINITY and _locks(soft + mmap.PAGESIZE) else hard


def _locks(size: int) -> bool:
    """Whether so many bytes can be locked at once; they are let go again."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mlock2.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        with mmap.mmap(-1, size) as memory:
            held = ctypes.c_char.from_buffer(memory)
            done = libc.mlock2(ctypes.addressof(held), size, MLOCK_ONFAULT) == 0
            del held
            return bool(done)  # unmapping unlocks
    except (AttributeError, OSError, ValueError):  # no such call here, or no room for the address
        return False
