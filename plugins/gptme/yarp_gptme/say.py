"""What the user is told; the model reads none of it."""

from __future__ import annotations

import logging

_logger = logging.getLogger("yarp_gptme")
_said: set[str] = set()


def say_once(message: str) -> None:
    """Tell the user, once a process."""
    if message not in _said:
        _said.add(message)
        _logger.warning("yarp: %s", message)


def fault(what: str, error: Exception) -> None:
    """Tell of a fault of ours, which changes nothing for gptme."""
    say_once(f"{what} ({type(error).__name__}: a fault inside YARP)")
    _logger.debug("yarp: %s", what, exc_info=error)
