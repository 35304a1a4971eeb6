"""Run every ``bench_*.py`` (or those named) and print one table: ``python -m benchmarks encoder signals``.

Each module has ``run() -> list[dict]`` with the keys name, value, unit and, where there is something to compare with,
ratio and note. Absolute speeds differ between machines; the ratios were measured side by side in this run.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table


def topics() -> list[str]:
    """Names of the benchmarks in this folder."""
    folder = [str(Path(__file__).parent)]
    return sorted(m.name.removeprefix("bench_") for m in pkgutil.iter_modules(folder) if m.name.startswith("bench_"))


def show(console: Console, topic: str, rows: list[dict[str, object]]) -> None:
    """One rich table for a topic."""
    table = Table("what", "value", "unit", "ratio", "note", title=topic, title_justify="left")
    for row in rows:
        value = row.get("value", "")
        text = f"{value:,.4g}" if isinstance(value, float) else str(value)
        ratio = row.get("ratio")
        table.add_row(
            str(row.get("name", "")),
            text,
            str(row.get("unit", "")),
            f"{ratio:.2f}x" if isinstance(ratio, (int, float)) else "",
            str(row.get("note", "")),
        )
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("topic", nargs="*", help=f"one or more of: {', '.join(topics())} (default: all)")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    options = parser.parse_args()
    unknown = set(options.topic) - set(topics())
    if unknown:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}; there are {', '.join(topics())}")
    console, results = Console(width=140), {}
    for topic in options.topic or topics():
        started = time.perf_counter()
        results[topic] = importlib.import_module(f"benchmarks.bench_{topic}").run()
        show(console, f"{topic} ({time.perf_counter() - started:.0f} s)", results[topic])
    if options.json:
        options.json.write_text(json.dumps(results, indent=1, default=str))


if __name__ == "__main__":
    main()
