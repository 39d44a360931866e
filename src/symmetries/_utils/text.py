"""Text from outside, made fit to be shown and stored: visible, and without secrets."""

import re
import unicodedata

_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}  # control, format, half characters, ...

_USER = re.compile(r"(\w+://[^\s:/@?#]*):.*@")  # from ":" to the last "@"
# password=... in an address or in a list of settings, also where "=" and ";" are quoted
_SETTING = re.compile(
    r"(?i)((?:^|[?&;\s'\"]|%3B)[\w.-]*(?:pass|pwd|secret|token|key)[\w.-]*(?:=|%3D))"
    r"(?:(?!%3B)[^&;\s'\"#])+"
)


def masked(text: str) -> str:
    """Return the text with the passwords of all addresses in it replaced by stars.

    Example:
        >>> masked("postgresql://ann:s3cret@host/db?sslpassword=x&a=1")
        'postgresql://ann:***@host/db?sslpassword=***&a=1'
    """
    return _SETTING.sub(r"\1***", _USER.sub(r"\1:***@", text))


def printable(text: str) -> str:
    r"""Return the text with every character that cannot be seen written as an escape.

    Names of files may hold bytes that are no UTF-8 (Python keeps them as surrogates, which cannot
    be written to a file) and control characters (which a terminal obeys).

    Example:
        >>> printable("caf\udce9"), printable("\x1b[31mred"), printable("ü °")
        ('caf\\xe9', '\\x1b[31mred', 'ü °')
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if unicodedata.category(c) not in _UNSEEN else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    number = ord(character)
    if 0xDC80 <= number <= 0xDCFF:  # a byte that was no UTF-8
        number -= 0xDC00
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
