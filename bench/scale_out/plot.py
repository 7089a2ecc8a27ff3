#!/usr/bin/env python3
"""Draws docs/scale-out.svg from simulation.json: `python3 bench/scale_out/plot.py`. Needs matplotlib."""

import json
import pathlib

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams.update({"svg.hashsalt": "leyden", "font.size": 9, "svg.fonttype": "none"})
import matplotlib.pyplot as plt

HERE = pathlib.Path(__file__).resolve().parent


def main(to=HERE.parents[1] / "docs/scale-out.svg"):
    data = json.loads((HERE / "simulation.json").read_text())
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for rows, style in ((100, "o-"), (1000, "s-")):
        of = [r for r in data["batch"] if r["unit_rows"] == rows]
        left.plot([r["nodes"] for r in of], [r["rows_per_second"] for r in of], style, label=f"units of {rows} rows", markersize=4)
    one = data["batch"][0]
    nodes = sorted({r["nodes"] for r in data["batch"]})
    left.plot(nodes, [n * one["rows_per_second"] / one["efficiency"] for n in nodes], ":", color="gray", label="all actors always busy")
    left.set(xscale="log", yscale="log", xlabel="nodes of 16 one-thread actors", ylabel="rows/s", title="Batch: the driver limits small units")
    left.legend(frameon=False)
    for policy, style in (("prefix", "o-"), ("round-robin", "s-")):
        of = [r for r in data["serving"] if r["policy"] == policy and r["routers"] == 1]
        of = list({r["nodes"]: r for r in of}.values())
        right.plot([r["nodes"] for r in of], [r["first_token_p50"] for r in of], style, label=f"{policy}, p50", markersize=4)
        right.plot([r["nodes"] for r in of], [r["first_token_p99"] for r in of], style[0] + "--", color=right.lines[-1].get_color(), label=f"{policy}, p99", markersize=4)
    right.set(xscale="log", yscale="log", xlabel="nodes", ylabel="time to the first token, s", title="Serving: equal load for each node")
    right.set_ylim(0.08, 2000)
    right.legend(frameon=False, ncols=2)
    for axes in (left, right):
        axes.grid(alpha=0.3)
    figure.savefig(to, metadata={"Date": None})


if __name__ == "__main__":
    main()
