"""Clean waveforms at their native rate: unit mean power while active, no hardware, no channel (paper, Appendix E.1)."""
