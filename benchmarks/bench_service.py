"""The service on loopback: throughput, latency and memory under concurrent clients.

``python -m benchmarks service`` sends for 20 s; ``python -m benchmarks.bench_service 10000 [WEIGHTS]`` sends that many
requests, to a service with those weights.
"""

from __future__ import annotations

import itertools
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from planformer.deploy.page import chirp

CLIENTS = 8


def run(requests: int | None = None, seconds: float = 20.0, weights: str = "random") -> list[dict[str, object]]:
    """Rows for ``python -m benchmarks service``."""
    return _load(requests, seconds, weights)


@contextmanager
def _server(weights: str) -> Iterator[tuple[str, int]]:
    """A real ``planformer serve``; its address and process number."""
    import httpx

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "planformer", "serve", "--weights", weights, "--port", str(port)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        while True:
            try:
                httpx.get(address + "/health")
                break
            except httpx.TransportError:
                if process.poll() is not None:
                    raise
                time.sleep(0.2)
        yield address, process.pid
    finally:
        process.terminate()
        process.wait()


def _load(requests: int | None, seconds: float, weights: str) -> list[dict[str, object]]:
    import httpx
    import psutil

    times: list[float] = []
    errors: list[str] = []
    count = itertools.count()
    body = chirp()

    def client(address: str, deadline: float) -> None:
        with httpx.Client(base_url=address, timeout=120) as session:
            while time.monotonic() < deadline and (requests is None or next(count) < requests):
                started = time.perf_counter()
                answer = session.post("/embed", content=body)
                times.append(time.perf_counter() - started)
                if answer.status_code != 200:
                    errors.append(answer.text)

    with _server(weights) as (address, number):
        for _ in range(4):  # reading processes start with their first file
            httpx.post(address + "/embed", content=body, timeout=120)
        family = psutil.Process(number)
        before = _memory(family)
        started = time.monotonic()
        deadline = started + (seconds if requests is None else 1e9)
        threads = [threading.Thread(target=client, args=(address, deadline)) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took, after = time.monotonic() - started, _memory(family)
        health = httpx.get(address + "/health").json()
    note = f"{len(times)} requests of 8,000 samples (2 segments), {CLIENTS} clients, two reading processes"
    shared = health["embedded"] / max(1, health["batches"])
    return [
        {"name": "throughput", "value": len(times) / took, "unit": "requests/s", "note": note},
        {"name": "latency p50", "value": 1000 * float(np.percentile(times, 50)), "unit": "ms"},
        {"name": "latency p99", "value": 1000 * float(np.percentile(times, 99)), "unit": "ms"},
        {"name": "requests a batch", "value": shared, "unit": ""},
        {"name": "errors", "value": len(errors), "unit": "", "note": errors[0][:80] if errors else ""},
        {
            "name": "memory after",
            "value": after,
            "unit": "MB",
            "ratio": after / before,
            "note": f"{before:.0f} MB before",
        },
    ]


def _memory(process: object) -> float:
    family = [process, *process.children(recursive=True)]  # type: ignore[attr-defined]
    return sum(member.memory_info().rss for member in family) / 2**20


if __name__ == "__main__":
    for row in run(int(sys.argv[1]) if len(sys.argv) > 1 else None, weights=[*sys.argv[2:], "random"][0]):
        print(row)
