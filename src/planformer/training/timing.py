"""Where a training step's time goes: waiting for data, forward, backward, update, everything else."""

from __future__ import annotations

import time

PHASES = ("wait", "forward", "backward", "update", "other")


class StepClock:
    """Measures phases of one step after the other and keeps the sums.

    >>> clock = StepClock()
    >>> clock.start(0.0); clock.mark("forward"); sorted(clock.finish())
    ['seconds', 'seconds_forward', 'seconds_other', 'seconds_wait']
    """

    def __init__(self) -> None:
        self.totals = dict.fromkeys(PHASES, 0.0)
        self.steps = 0
        self._last_end: float | None = None

    def start(self, waited: float) -> None:
        """Begin a step after having waited this long for its batch."""
        now = time.perf_counter()
        self._phases = {"wait": waited}
        self._mark = now
        # Since the last step ended: waiting, and whatever else happened between steps.
        self._begin = now - waited if self._last_end is None else min(self._last_end, now - waited)

    def mark(self, phase: str) -> None:
        now = time.perf_counter()
        self._phases[phase] = self._phases.get(phase, 0.0) + now - self._mark
        self._mark = now

    def finish(self) -> dict[str, float]:
        """Seconds of this step by phase."""
        now = time.perf_counter()
        seconds = now - self._begin
        self._phases["other"] = max(0.0, seconds - sum(self._phases.values()))
        for phase, value in self._phases.items():
            self.totals[phase] += value
        self.steps += 1
        self._last_end = now
        return {"seconds": seconds, **{f"seconds_{phase}": value for phase, value in self._phases.items()}}

    def pause(self) -> None:
        """What follows (a probe, a checkpoint) is not part of the next step."""
        self._last_end = None

    def shares(self) -> dict[str, float]:
        """Each phase's share of all time so far."""
        total = sum(self.totals.values()) or 1.0
        return {phase: value / total for phase, value in self.totals.items()}
