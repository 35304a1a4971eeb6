"""Pretraining: recipe, curriculum, loop, checkpoints, probes, pictures (paper, Appendix D)."""
