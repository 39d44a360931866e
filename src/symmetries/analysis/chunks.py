"""Work on many examples in parts of a fixed size, so that results do not depend on the memory."""

from collections.abc import Callable

from torch import Tensor

from symmetries.auditing.examine import joined

Part = Callable[[int, int], dict[str, Tensor]]
Over = Callable[[Part, int], dict[str, Tensor]]


def in_parts(size: int, advance: Callable[[str], None]) -> Over:
    """Return a function that evaluates ``part(start, stop)`` on all examples, some at a time.

    Args:
        size: examples of a part.
        advance: called after each part.

    Example:
        >>> import torch
        >>> over = in_parts(2, lambda done: None)
        >>> over(lambda start, stop: {"x": torch.arange(start, stop)}, 5)["x"].tolist()
        [0, 1, 2, 3, 4]
    """

    def over(part: Part, count: int) -> dict[str, Tensor]:
        found = []
        for start in range(0, count, size):
            found.append(part(start, min(start + size, count)))
            advance("")
        return joined(found)

    return over
