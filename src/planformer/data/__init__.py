"""Radio training data: recordings, simulated or real, augmentations, mixtures, sampling (paper, Appendices C and D)."""
