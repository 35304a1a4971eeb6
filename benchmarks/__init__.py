"""Speed and cost, as ratios measured in one run: ``python -m benchmarks [topic ...]``."""
