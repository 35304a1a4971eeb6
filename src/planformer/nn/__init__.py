"""The bricks of the network, one mechanism a file (paper, Appendix A)."""
