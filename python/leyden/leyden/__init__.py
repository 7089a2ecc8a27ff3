"""Language models on CPUs, in this process.

    import leyden
    model = leyden.Model("smollm2")
    print(model.chat("Name a river in Europe."))

`Model` loads a GGUF file, a folder of the Hugging Face hub or a name of the store, and generates, chats, embeds,
classifies, reranks and scores. All computing happens without Python's lock. See docs/python.md.
"""

from ._chat import ChatAnswer, ChatPiece, ToolCall
from ._model import Model
from ._native import EMBEDDED, Error, ModelError, RequestError, ResourceError, __version__
from ._results import Entity, Generation, Label, Score, to_arrow
from ._store import pull

__all__ = [
    "EMBEDDED",
    "ChatAnswer",
    "ChatPiece",
    "Entity",
    "Error",
    "Generation",
    "Label",
    "Model",
    "ModelError",
    "RequestError",
    "ResourceError",
    "Score",
    "ToolCall",
    "__version__",
    "pull",
    "to_arrow",
]
