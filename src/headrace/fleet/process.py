"""What a child process needs: its variables, its end with its parent, its name and its log."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import signal
import sys
from collections.abc import Mapping
from typing import TextIO, cast

import structlog

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15

_KEPT = (
    *("PATH", "HOME", "USER", "LOGNAME", "TZ", "LANG", "LANGUAGE", "LC_", "TMPDIR", "VIRTUAL_ENV"),
    *("PYTHON", "LD_LIBRARY_PATH", "LD_PRELOAD", "DYLD_", "GLIBC_TUNABLES", "MALLOC_"),
    *("OMP_", "OPENBLAS_", "MKL_", "COVERAGE_"),
)
"""Variables, by the beginnings of their names, that a worker may see."""


def environment(ours: Mapping[str, str]) -> dict[str, str]:
    """The variables of ours that a worker gets: those that Python and libraries need. Its launch
    line has everything else, so a worker never gets a key or an address with a password."""
    return {name: value for name, value in ours.items() if name.startswith(_KEPT)}


def tie_to_parent(parent: int) -> None:
    """Die when the parent does, however it dies, and leave signals to it.

    A terminal's Ctrl-C and a service manager's SIGTERM reach the whole group; the parent
    decides what they mean and tells us. Only Linux can tie processes; elsewhere the end of
    the socket to it says the same a little later. Exits if the parent (its pid) has gone before.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if sys.platform == "linux":
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the parent process is gone")


def name_process(name: str) -> None:
    """What process listings show, up to 15 bytes; Linux only, elsewhere nothing changes."""
    if sys.platform == "linux":
        _prctl(_PR_SET_NAME, name.encode()[:15])


def configure_log(level: str) -> None:
    """One line of JSON an event, on standard error; warnings and errors of libraries, too. level:
    a name of the logging module.

    Tracebacks are without the values of variables: those hold prompts.
    """
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        logger_factory=lambda *_: structlog.WriteLogger(cast("TextIO", _Stderr())),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(handlers=[_LibraryLog()], level=logging.WARNING, force=True)
    logging.captureWarnings(True)


class _LibraryLog(logging.Handler):
    """What libraries tell the logging module becomes events of ours."""

    def emit(self, record: logging.LogRecord) -> None:
        structlog.get_logger("headrace").log(
            record.levelno,
            "library_log",
            logger=record.name,
            message=record.getMessage(),
            exc_info=record.exc_info or None,
        )


class _Stderr:
    """Standard error. A line that cannot be written is lost: a full disk must not end the thread
    that logs."""

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            sys.stderr.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            sys.stderr.flush()


def _prctl(option: int, argument: int | bytes) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, argument, 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
