"""Nested configurations: frozen dataclasses with presets, ``replace`` and a form for JSON."""

import dataclasses
import difflib
from collections.abc import Iterator, Mapping
from typing import Any, Self

from symmetries._utils.field_rules import check_field, field_types
from symmetries._validation.checks import invalid, short, wrong_type

# The presets of every kind of configuration: by class for learners, by name for commands.
_PRESETS: dict[object, dict[str, Any]] = {}


def register_presets(kind: object, presets: dict[str, Any]) -> dict[str, Any]:
    """Add the presets of one kind of configuration to the registry, and return them.

    Args:
        kind: the class of the configurations, or the name of what they configure.
        presets: by name, such as "quick", "default" and "paper".
    """
    _PRESETS[kind] = presets
    return presets


def presets_of(kind: object) -> dict[str, Any]:
    """Return the presets of a kind of configuration, by name."""
    return _PRESETS[kind]


class Config:
    """Base class of configurations, which are frozen dataclasses whose fields may be such parts.

    Fields are checked by their types (:mod:`symmetries._utils.field_rules`) when they are set.

    Example:
        >>> @dataclasses.dataclass(frozen=True)
        ... class Network(Config):
        ...     widths: tuple[int, ...] = (64, 32)
        >>> @dataclasses.dataclass(frozen=True)
        ... class Model(Config):
        ...     steps: int = 100
        ...     network: Network = Network()
        >>> Model().replace(steps=5, widths=(8,))
        Model(steps=5, network=Network(widths=(8,)))
        >>> Model().replace(network={"widths": (8,)}).to_dict()
        {'steps': 100, 'network': {'widths': (8,)}}
        >>> Model().replace(width=8)
        Traceback (most recent call last):
        ValueError: width: expected a field of Model, got 8; did you mean widths?
    """

    def __post_init__(self) -> None:
        for name, kind in field_types(type(self)).items():  # type: ignore[arg-type]
            value = getattr(self, name)
            if isinstance(kind, type) and issubclass(kind, Config):
                if not isinstance(value, kind):
                    raise wrong_type(name, f"{kind.__name__}(...)", value, f"try {kind.__name__}()")
            else:
                check_field(value, name, kind)

    @classmethod
    def preset(cls, name: str) -> Self:
        """Return the preset of this name, such as "quick"."""
        presets = presets_of(cls)
        if not isinstance(name, str) or name not in presets:
            names = ", ".join(repr(known) for known in sorted(presets))
            expected = f"{cls.__name__}(...), or one of {names}"
            raise invalid("config", expected, short(name), "choose one of these")
        return presets[name]

    @classmethod
    def resolve(cls, config: Self | str) -> Self:
        """Return the configuration, or the preset if a name is given."""
        return config if isinstance(config, cls) else cls.preset(config)  # type: ignore[arg-type]

    def replace(self, **changes: Any) -> Self:  # noqa: ANN401 - values of fields
        """Return a copy with other values.

        Args:
            changes: fields by name. The field of a part needs no path if no other part has a field
                of that name; otherwise give the part the fields that change, as in
                ``replace(inference={"steps": 100})``, or the whole part.
        """
        own: dict[str, Any] = {}
        inner: dict[str, dict[str, Any]] = {}
        fields = {field.name for field in dataclasses.fields(self)}  # type: ignore[arg-type]
        for name, value in changes.items():
            part = getattr(self, name, None) if name in fields else None
            if isinstance(part, Config) and isinstance(value, Mapping):
                inner.setdefault(name, {}).update(value)
            elif name in fields:
                own[name] = tuple(value) if isinstance(value, list) else value
            else:
                inner.setdefault(self._part_with(name, value), {})[name] = value
        for name, values in inner.items():
            own[name] = own.get(name, getattr(self, name)).replace(**values)
        return dataclasses.replace(self, **own)  # type: ignore[type-var]

    def to_dict(self) -> dict[str, Any]:
        """Return the configuration as plain data for JSON."""
        return dataclasses.asdict(self)  # type: ignore[call-overload]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_dict` wrote, and JSON kept."""
        unknown = sorted(set(data) - {field.name for field in dataclasses.fields(cls)})  # type: ignore[arg-type]
        if unknown:
            remedy = "read it with the version of symmetries that wrote it, or train it again"
            raise invalid("config", f"the fields of {cls.__name__}", unknown[0], remedy)
        return cls().replace(**data)

    def _parts(self) -> Iterator[tuple[str, "Config"]]:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if isinstance(value, Config):
                yield field.name, value

    def _leaves(self) -> set[str]:
        parts = dict(self._parts())
        own = {f.name for f in dataclasses.fields(self)} - set(parts)  # type: ignore[arg-type]
        return own.union(*(part._leaves() for part in parts.values()))

    def _part_with(self, name: str, value: object) -> str:
        """Return the one part that has a field of this name."""
        found = [part for part, config in self._parts() if name in config._leaves()]
        if len(found) == 1:
            return found[0]
        if found:
            remedy = f"say which: replace({found[0]}={{{name!r}: {short(value)}}})"
            raise invalid(name, f"a field of one part, not of {' and '.join(found)}", name, remedy)
        near = difflib.get_close_matches(name, sorted(self._leaves()), 1)
        remedy = f"did you mean {near[0]}?" if near else "see its documentation"
        raise invalid(name, f"a field of {type(self).__name__}", short(value), remedy)


def check_parts(config: Config, parts: Mapping[str, type[Config]]) -> None:
    """Raise unless these fields of a configuration have parts of these classes."""
    for name, kind in parts.items():
        value = getattr(config, name)
        if not isinstance(value, kind):
            raise wrong_type(name, f"{kind.__name__}(...)", value, f"try {kind.__name__}()")
