"""Headrace: everything between an API key and a token."""

__version__ = "0.1.0"
