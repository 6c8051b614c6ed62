"""The text of an API key."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field

from headrace.access.errors import InvalidKey

_FORM = re.compile(r"hr-([!-^`-~]{1,200})_([!-~]{1,512})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Key:
    """`hr-<id>_<secret>`. The id is public and ends at the first underscore; the secret may
    contain more. Both are visible ASCII, so that any HTTP client can send them."""

    id: str
    secret: str = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> Key:
        """Raises InvalidKey if it is not of that form."""
        match = _FORM.fullmatch(text)
        if match is None:
            raise InvalidKey("not of the form hr-<id>_<secret>")
        return cls(*match.groups())

    @classmethod
    def make(cls, id: str | None = None) -> Key:
        """A new key, or a new secret for one: 80 random bits of id, 256 of secret."""
        new = base64.b32encode(secrets.token_bytes(10)).decode().lower()
        return cls(new if id is None else id, secrets.token_urlsafe(32))

    @property
    def text(self) -> str:
        return f"hr-{self.id}_{self.secret}"

    def digest(self, pepper: bytes) -> bytes:
        """32 bytes that stand for the key where it must not be known: HMAC-SHA256. Secrets have
        their 256 bits, so no slow hash is needed."""
        return hmac.digest(pepper, self.text.encode(), hashlib.sha256)
