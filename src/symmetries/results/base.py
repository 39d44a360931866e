"""Base classes of all results: frozen data with a schema, saved as JSON and loaded again."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError


class Record(BaseModel):
    """Plain, frozen data. An unknown field, a NaN or an infinity is an error."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, serialize_by_alias=True
    )


class Result(Record):
    """Base class of the files that commands write: a schema name, saving and loading.

    A saved file ends with the SHA-256 of everything else in it, so that a changed byte is found.
    """

    former_schemas: ClassVar[tuple[str, ...]] = ()  # of older files that can still be read
    schema_name: str = Field(alias="schema")

    def save(self, path: str | Path) -> Path:
        """Write the result as JSON, completely or not at all, and return the path."""
        path = Path(path)
        partial = path.with_name(path.name + ".partial")
        try:
            partial.write_bytes(self.to_bytes())
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)
        return path

    def to_bytes(self) -> bytes:
        """Return the content of the file that ``save`` writes."""
        return _rendered(json.loads(self.model_dump_json()))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file that ``save`` wrote, or that ``--json`` printed (which has no SHA-256).

        Raises:
            ValueError: if the file is not JSON, of another kind, of another version, incomplete,
                or was changed.
        """
        return cls._read(Path(path).read_bytes(), path)

    @classmethod
    def _read(cls, text: bytes, path: str | Path) -> Self:
        """Return the result in the bytes of a file; ``path`` is named in errors."""
        expected = cls.model_fields["schema_name"].default
        try:
            content = json.loads(text.decode())
            signed = isinstance(content, dict) and "sha256" in content
            if signed:
                del content["sha256"]
            plain = json.dumps(content)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}: expected JSON, got {error}; write the file anew") from error
        found = content.get("schema") if isinstance(content, dict) else None
        if found != expected and found not in cls.former_schemas:
            raise ValueError(
                f"{path}: expected schema {expected!r}, got {found!r}; "
                "read it with the version of symmetries that wrote it, or write it anew"
            )
        if signed and _rendered(content) != text:
            raise ValueError(
                f"{path}: expected the SHA-256 that it names, got another; "
                "it was changed: restore it from a copy, or write it anew"
            )
        try:
            return cls.model_validate_json(plain)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise ValueError(
                f"{path}: field {where!r}: {first['msg']}; write the file anew"
            ) from error


def _rendered(content: dict[str, Any]) -> bytes:
    """Return the bytes of a result file, with their own hash at the end."""
    body = json.dumps(content, sort_keys=True)
    digest = hashlib.sha256(body.encode()).hexdigest()
    whole = json.dumps({**content, "sha256": digest}, indent=2, ensure_ascii=False)
    return (whole + "\n").encode(errors="replace")
