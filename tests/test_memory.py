"""The allocator is told only where it is glibc's and nobody else has told it anything."""

import ctypes
import platform
import subprocess
import sys

import pytest

from planformer import memory

glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
# Blocks of 16 to 24 MB, more in all than glibc keeps of its own accord, allocated and freed in turn as a step does:
# how many pages must the kernel supply again?
FAULTS = """
import resource, sys
from planformer.memory import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
def rounds():
    for _ in range(5):
        blocks = [b"1" * (size << 20) for size in (16, 24, 20, 24)]
        del blocks
rounds()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
rounds()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(mode: str) -> int:
    result = subprocess.run([sys.executable, "-c", FAULTS, mode], capture_output=True, text=True, check=True)
    return int(result.stdout)


@glibc
def test_kept_blocks_cost_no_page_faults(monkeypatch):
    for name in memory._VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert faults("keep") < 100
    assert faults("plain") > 1000  # else there is nothing to gain, and the module can go


def test_a_choice_in_the_environment_is_respected(monkeypatch):
    monkeypatch.setenv("MALLOC_TOP_PAD_", "0")
    monkeypatch.setattr(ctypes, "CDLL", lambda name: pytest.fail("asked the C library"))
    assert memory.keep_freed_memory() is False


@pytest.mark.parametrize("library", [object(), None])
def test_another_c_library_is_left_alone(monkeypatch, library):
    for name in memory._VARIABLES:
        monkeypatch.delenv(name, raising=False)

    def load(name):
        if library is None:
            raise OSError("no such library")
        return library

    monkeypatch.setattr(ctypes, "CDLL", load)
    assert memory.keep_freed_memory() is False
