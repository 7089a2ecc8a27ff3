"""`python -m rag index|ask|agent`: see docs/rag.md."""

import argparse
import json
import sys
from dataclasses import asdict

from . import agent, pipeline
from .service import Service
from .stores import open_store


def main(words=None):
    """Runs a command. Returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m rag", description="Cited answers from local documents.")
    parser.add_argument("command", choices=("index", "ask", "agent"))
    parser.add_argument("what", metavar="FOLDER|QUESTION")
    parser.add_argument("--store", default="rag.lance", help="a folder, for LanceDB, or the postgresql:// address of a database")
    parser.add_argument("--url", default="http://127.0.0.1:8080/v1", help="the server")
    parser.add_argument("--embed", default="all-MiniLM-L6-v2", help="its embedder")
    parser.add_argument("--chat", default="qwen2.5-coder-0.5b-instruct-q4_k_m", help="its chat model")
    parser.add_argument("--rerank", help="its reranker")
    parser.add_argument("--likelihood", help="its language model that reranks, where there is no reranker")
    parser.add_argument("--reader", help="index: embedder by which `leyden batch` reads documents, a name or path (default: --embed)")
    parser.add_argument("-k", type=int, default=5, help="chunks of an answer (default 5)")
    parser.add_argument("--free-quotes", action="store_true", help="let the model write quotes instead of choosing sentences")
    args = parser.parse_args(words)
    service = Service(args.url, embed=args.embed, chat=args.chat, rerank=args.rerank, likelihood=args.likelihood)
    store = open_store(args.store)
    if args.command == "index":
        documents, chunks = pipeline.index(store, service, args.what, args.reader or args.embed)
        print(json.dumps({"documents": documents, "chunks": chunks}))
        return 0
    if args.command == "ask":
        queries, (_, answer) = [args.what], pipeline.ask(store, service, args.what, args.k, not args.free_quotes)
    else:
        queries, _, answer = agent.run(store, service, args.what, count=args.k, exact=not args.free_quotes)
    print(json.dumps({"queries": queries, **asdict(answer)}, ensure_ascii=False, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
