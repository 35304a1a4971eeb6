"""Training objectives (paper, Appendix C). They see tensors only; docs/objectives.md maps equations to functions."""
