"""Ways to damage or twist a file: bytes anywhere, members of archives, leaves of JSON."""

import copy
import io
import json
import random
import re
import zipfile
from typing import Any

ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**30, -0.0, 1e308, 0.5),
    *("", "x", "\x1b[31m", "caf\udce9".encode("utf-8", "replace").decode(), "../../etc/passwd"),
    *([], {}, [[]], {"a": 1}, "__import__('os')", "9" * 5000),
)


def of_bytes(content: bytes, chance: random.Random) -> bytes:
    """Some bytes changed, cut, repeated, inserted; numbers made huge."""
    data = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        if not data:
            break
        place = chance.randrange(len(data))
        length = chance.choice((1, 2, 4, 8, 64))
        kind = chance.randrange(7)
        if kind <= 1:
            data[place] = chance.randrange(256)
        elif kind == 2:
            data[place : place + length] = bytes(chance.choice((0, 255)) for _ in range(length))
        elif kind == 3:
            del data[place : place + length]
        elif kind == 4:
            data[place:place] = data[place : place + length]
        elif kind == 5:
            del data[place:]
        else:
            numbers = [m.span() for m in re.finditer(rb"\d+", bytes(data[:65536]))]
            if numbers:
                start, stop = chance.choice(numbers)
                data[start:stop] = chance.choice(
                    (b"0", b"-1", b"999999999", b"1e999", b"2147483648")
                )
    return bytes(data)


def of_archive(content: bytes, chance: random.Random) -> bytes:
    """One member changed, with a right checksum; sometimes members are left out or named anew."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    chosen = chance.randrange(len(members))
    name, inside = members[chosen]
    kind = chance.randrange(8)
    if kind == 0:
        del members[chosen]
    elif kind == 1:
        members[chosen] = (chance.choice(members)[0], inside)
    elif kind == 2:
        members.append((name, of_bytes(inside, chance)))
    else:
        members[chosen] = (name, of_bytes(inside, chance))
    stream = io.BytesIO()
    packed = chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(stream, "w", packed) as archive:
        for name, inside in members:
            archive.writestr(name, inside)
    return stream.getvalue()


def of_json(content: Any, chance: random.Random) -> Any:  # noqa: ANN401 - JSON
    """One leaf, field or list replaced by something odd, left out, or repeated."""
    whole = copy.deepcopy(content)
    places: list[tuple[Any, Any]] = []

    def walk(part: Any) -> None:  # noqa: ANN401 - JSON
        keys = part.keys() if isinstance(part, dict) else range(len(part))
        for key in [*keys]:
            places.append((part, key))
            if isinstance(part[key], dict | list):
                walk(part[key])

    walk(whole)
    for _ in range(chance.choice((1, 1, 2, 3))):
        part, key = chance.choice(places)
        try:
            if chance.random() < 0.2:
                del part[key]
            else:
                part[key] = chance.choice(ODD)
        except (KeyError, IndexError):
            continue
    return whole


def text(content: Any) -> bytes:  # noqa: ANN401 - JSON
    """JSON as bytes."""
    return json.dumps(content).encode()
