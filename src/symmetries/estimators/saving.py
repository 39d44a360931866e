"""Fitted estimators on disk: ``save(folder)`` and ``load(folder)``, without pickle.

Weights are safetensors; arguments and fitted attributes are JSON. Both are written by
:func:`symmetries.training.save_model`, so a file that is newer, foreign or changed gives a clear
error, and a crash leaves the old files or the new ones.
"""

from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted
from torch import nn

from symmetries._validation.checks import invalid
from symmetries.estimators.networks import OwnNetwork
from symmetries.groups.base import Group
from symmetries.groups.names import group_name, parse_group
from symmetries.learners.invariant_network import InvariantNetworkConfig
from symmetries.learners.orbit_posterior import OrbitConfig
from symmetries.learners.symmetry_model import SymmetryConfig
from symmetries.results import Invariance, SymmetrySummary
from symmetries.training import load_state, save_model
from symmetries.training.checkpoint import rebuilding

LARGEST_SIZE = 10**7  # of samples, steps, features, ...


class Saved:
    """Saving and loading for an estimator whose weights are in ``model_``.

    A subclass names its other fitted attributes in ``_fitted`` and builds an untrained ``model_``
    from them in ``_build``.
    """

    _fitted: ClassVar[tuple[str, ...]] = ()
    model_: Any

    def save(self, folder: str | Path) -> Path:
        """Write the fitted estimator into a folder, which is made if it is not there.

        Args:
            folder: other files in it are left alone.

        Returns:
            The JSON file that names the rest.
        """
        check_is_fitted(self)
        parameters = self.get_params(deep=False)  # type: ignore[attr-defined]
        fitted = [name for name in self._fitted if hasattr(self, name)]
        meta = {
            "estimator": type(self).__name__,
            "parameters": {name: encode(value) for name, value in parameters.items()},
            "fitted": {name: encode(getattr(self, name)) for name in fitted},
        }
        return save_model(folder, self.model_, meta)

    @classmethod
    def load(cls, folder: str | Path, device: str = "cpu", **given: Any) -> Self:  # noqa: ANN401
        """Read what :meth:`save` wrote.

        Args:
            folder: that was given to :meth:`save`.
            device: where the estimator is to work.
            given: arguments that files cannot hold: ``network``, if it was one of your own.

        Raises:
            ValueError: if the files are missing, changed, of a newer version, or of something else.
        """
        state, meta = load_state(folder)
        if meta.get("estimator") != cls.__name__:
            got = str(meta.get("estimator") or meta.get("learner") or "something else")
            remedy = "load it with the class that saved it"
            raise invalid(str(folder), f"a saved {cls.__name__}", got, remedy)
        with rebuilding(folder, f"a {cls.__name__}"):
            stored = {name: decode(value) for name, value in meta["parameters"].items()}
            parameters = stored | given
            _check_sizes(parameters, folder)
            estimator = cls(**(parameters | {"device": device}))
            for name, value in meta["fitted"].items():
                if name not in cls._fitted:
                    raise AttributeError(f"no fitted attribute {name!r}")
                setattr(estimator, name, decode(value))
            if "fill_" in cls._fitted and not hasattr(estimator, "fill_"):
                raise AttributeError("no background 'fill_', which older versions did not look for")
            model = estimator._build()
            dtypes = [value.dtype for value in state.values() if value.is_floating_point()]
            model.to(device, dtypes[0]).load_state_dict(state)
        estimator.model_ = model.eval()
        return estimator

    def _build(self) -> nn.Module:
        """Return an untrained ``model_``, built from arguments and fitted attributes."""
        raise NotImplementedError


def _check_sizes(parameters: dict[str, Any], folder: str | Path) -> None:
    """Refuse implausible sizes before memory is allocated."""
    for name, value in parameters.items():
        if type(value) is int and name != "random_state" and abs(value) > LARGEST_SIZE:
            remedy = "train it again: this file was not written by symmetries"
            raise invalid(str(folder), f"{name} of at most {LARGEST_SIZE}", value, remedy)


def encode(value: Any) -> Any:  # noqa: ANN401 - anything an estimator holds
    """Return a value as plain data for JSON.

    Example:
        >>> encode((1, np.array(["a", "b"])))
        {'tuple': [1, {'array': ['a', 'b'], 'dtype': '<U1'}]}
    """
    match value:
        case None | bool() | int() | float() | str():
            return value
        case np.generic():
            return value.item()
        case np.ndarray():
            return {"array": value.tolist(), "dtype": value.dtype.str}
        case tuple():
            return {"tuple": [encode(part) for part in value]}
        case list():
            return [encode(part) for part in value]
        case Invariance():
            return {"invariance": value.model_dump(mode="json")}
        case SymmetryConfig():
            return {"symmetry_config": value.to_dict()}
        case OrbitConfig():
            return {"orbit_config": value.to_dict()}
        case SymmetrySummary():
            return {"symmetries": value.model_dump(mode="json")}
        case dict():
            return {"mapping": {name: encode(part) for name, part in value.items()}}
        case InvariantNetworkConfig():
            return {"network_config": value.to_dict()}
        case nn.Module():
            return {"own_network": type(value).__name__}
        case Group():
            return {"group": group_name(value)}
        case np.random.RandomState():
            return None  # it has done its work
    raise invalid("attribute", "plain data, an array or a group", type(value).__name__, "convert")


def decode(value: Any) -> Any:  # noqa: ANN401 - anything an estimator holds
    """Return the value that :func:`encode` was given.

    Example:
        >>> decode(encode((1, [2.5, None])))
        (1, [2.5, None])
    """
    match value:
        case {"array": content, "dtype": dtype}:
            return np.array(content, dtype=dtype)
        case {"tuple": parts}:
            return tuple(decode(part) for part in parts)
        case {"invariance": fields}:
            return Invariance(**fields)
        case {"symmetry_config": fields}:
            return SymmetryConfig.from_dict(fields)
        case {"orbit_config": fields}:
            return OrbitConfig.from_dict(fields)
        case {"symmetries": fields}:
            return SymmetrySummary.model_validate(fields)
        case {"mapping": parts}:
            return {name: decode(part) for name, part in parts.items()}
        case {"network_config": fields}:
            return InvariantNetworkConfig.from_dict(fields)
        case {"own_network": str()}:
            return OwnNetwork()
        case {"group": name}:
            return parse_group(name)
        case list():
            return [decode(part) for part in value]
    return value
