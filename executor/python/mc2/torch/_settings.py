"""Settings from environment variables, which are read when mc2.torch is imported."""

from __future__ import annotations

import dataclasses
import logging
import os
import sys
import typing
import warnings

from ..errors import Error

log = logging.getLogger("mc2.torch")
_LEVELS = {"": None, "off": logging.CRITICAL + 1, "error": 40, "warning": 30, "info": 20, "debug": 10}
_warned: set[str] = set()


@dataclasses.dataclass
class Settings:
    """The values of MC2_STORE, MC2_SERVER, MC2_SERVER_TOKEN, MC2_SERVER_CA, MC2_DISABLE and MC2_TRANSFER."""

    store: str = ""
    server: str = ""
    is_disabled: bool = False
    may_transfer: bool = True  # whether a model of another n and k may answer
    server_token: str = ""
    server_ca: str = ""

    @classmethod
    def of_environment(cls) -> Settings:
        disable, transfer = _switch("MC2_DISABLE", "0"), _switch("MC2_TRANSFER", "1")
        level = os.environ.get("MC2_LOG", "")
        if level not in _LEVELS:
            raise Error("unknown_name", "MC2_LOG", f"is '{level}'; legal: off, error, warning, info, debug")
        if _LEVELS[level] is not None:
            _log_to_stderr(typing.cast(int, _LEVELS[level]))
        store, server, token, ca = (
            os.environ.get(f"MC2_{name}", "") for name in ("STORE", "SERVER", "SERVER_TOKEN", "SERVER_CA")
        )
        return cls(store, server, disable, transfer, token, ca)


def _switch(name: str, otherwise: str) -> bool:
    value = os.environ.get(name, "") or otherwise
    if value not in ("0", "1"):
        raise Error("invalid_spec", name, f"is '{value}'; legal: 0, 1")
    return value == "1"


def _log_to_stderr(level: int) -> None:
    log.setLevel(level)
    if not log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("mc2: %(levelname)s: %(message)s"))
        log.addHandler(handler)


settings = Settings.of_environment()


def warn(about: str, message: str) -> None:
    """Warns once per process and cause `about`; repetitions go to the log."""
    if about in _warned:
        log.info("%s", message)
        return
    _warned.add(about)
    warnings.warn(f"mc2.torch: {message}", RuntimeWarning, stacklevel=_callers_level())


def _callers_level() -> int:
    """The stacklevel by which warn() names the innermost line that is neither mc2's nor PyTorch's."""
    frame, level = sys._getframe(1).f_back, 2
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("mc2", "torch"):
        frame, level = frame.f_back, level + 1
    return level


def forget() -> None:
    """Forgets which causes have been warned of."""
    _warned.clear()
