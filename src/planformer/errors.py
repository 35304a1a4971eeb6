"""The errors a user can cause, each with a one-line message that names the cause and what to do.

The command line prints the message and exits with code 2; nothing else in the package is allowed to surface
for bad input.
"""

from __future__ import annotations


class PlanFormerError(Exception):
    """Base of every error that this package raises on purpose."""


class InputError(PlanFormerError):
    """A file, array or option of the user's can't be used. The message names it and says what to do."""


class ConfigError(PlanFormerError):
    """A configuration or recipe has an unknown key or an impossible value."""


class WeightsError(PlanFormerError):
    """Weights are missing, damaged, of another architecture or of a newer format."""


class MissingExtraError(PlanFormerError):
    """An optional dependency is needed; the message names the extra that installs it."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs {package}: pip install 'planformer[{extra}]'")
