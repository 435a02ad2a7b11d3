"""Every draw of the judge comes from one secret per session: HMAC(secret, purpose, case, i)."""

import hashlib
import hmac
import secrets

SECRET_BYTES = 32


def new_secret() -> bytes:
    """A fresh session secret."""
    return secrets.token_bytes(SECRET_BYTES)


def commitment(secret: bytes) -> str:
    """What the session's header states of the secret before anything is measured: its SHA-256."""
    return hashlib.sha256(secret).hexdigest()


def seed(secret: bytes, purpose: str, case: str, i: int) -> int:
    """A 63-bit seed for one draw."""
    message = f"{purpose}\0{case}\0{i}".encode()
    return int.from_bytes(hmac.new(secret, message, hashlib.sha256).digest()[:8], "little") >> 1
