"""Frozen-embedding evaluation: probes, tasks, baselines and the report (paper, Experiments and Appendix E)."""
