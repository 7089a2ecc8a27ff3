"""Retrieval and cited answers over local documents, on `leyden serve` and an existing vector store. See docs/rag.md."""
