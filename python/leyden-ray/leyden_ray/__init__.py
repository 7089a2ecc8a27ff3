"""leyden on many machines.

`run` computes the rows of a file on a Ray cluster, `Rows` those of a Ray dataset; `serving` has the Ray Serve deployment, `router` the
router with prefix affinity, `simulate` the simulator. Names are imported when they are used, so that those without Ray do not need it.
"""

import importlib

_PLACES = {
    "run": "batch",
    "Rows": "batch",
    "Report": "batch",
    "LocalServer": "program",
    "LeydenError": "errors",
    "deployment": "serving",
    "Ring": "affinity",
}

__all__ = sorted(_PLACES)


def __getattr__(name):
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_PLACES[name]}", __name__), name)
