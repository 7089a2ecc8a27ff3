"""Rows of texts: inputs of all kinds as lists, and work in pieces with a progress bar."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Iterator, TypeVar

from ._native import RequestError

Result = TypeVar("Result")

#: Number of texts between two looks at Ctrl-C and updates of the bar.
PIECE = 256


def texts_of(given: Any, name: str = "texts") -> list[str]:
    """Returns texts of a list, an Arrow array or any iterable."""
    if hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__"):
        given = _of_arrow(given)
    try:
        texts = list(given)
    except TypeError:
        texts = [given]
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise RequestError(f"{name}[{index}]: a text is expected, not {type(text).__name__}")
    return texts


def _of_arrow(given: Any) -> list[Any]:
    """Returns the values of an Arrow array or column."""
    if hasattr(given, "to_pylist"):
        return list(given.to_pylist())
    import pyarrow

    if hasattr(given, "__arrow_c_stream__"):
        return list(pyarrow.chunked_array(given).to_pylist())
    return list(pyarrow.array(given).to_pylist())


class Bar:
    """A bar of tqdm, if it is wanted."""

    def __init__(self, wanted: bool, total: int, unit: str) -> None:
        self._bar: Any = None
        if wanted:
            try:
                from tqdm.auto import tqdm
            except ImportError:
                raise RequestError("progress=True needs tqdm; install it with: pip install tqdm") from None
            self._bar = tqdm(total=total, unit=unit)

    def total(self, done: int, all_rows: int) -> None:
        """Sets the rows done and their total."""
        if self._bar is not None:
            self._bar.total, self._bar.n = all_rows, done
            self._bar.refresh()

    def add(self, n: int) -> None:
        """Moves the bar by n rows."""
        if self._bar is not None:
            self._bar.update(n)

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()


def pieces(rows: list[str], progress: bool, compute: Callable[[list[str]], Result]) -> Iterator[Result]:
    """Computes rows in pieces, in order."""
    with Bar(progress, len(rows), "text") as bar:
        for start in range(0, len(rows), PIECE):
            piece = rows[start : start + PIECE]
            yield compute(piece)
            bar.add(len(piece))


def given(**options: Any) -> dict[str, Any]:
    """Returns the options that are not None."""
    return {name: value for name, value in options.items() if value is not None}


def listed(stop: str | Iterable[str] | None) -> list[str] | None:
    """Returns one or several texts as a list."""
    if stop is None:
        return None
    return [stop] if isinstance(stop, str) else list(stop)
