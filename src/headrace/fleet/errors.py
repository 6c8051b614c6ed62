"""What can go wrong with a worker, as its supervisor reports it."""

from __future__ import annotations


class WorkerFailed(Exception):
    """The worker could not start; the message is a sentence for the operator."""


class DoesNotFit(ValueError):
    """The configuration does not fit the model; the message is a sentence for the operator."""


class WorkerUnavailable(Exception):
    """There is no ready worker to ask."""
