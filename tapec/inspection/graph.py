"""Who reads what: the operations of a program as a graph, as text for Graphviz and as a picture."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING

from tapec.ir.core import Block, Module, Operation, Value
from tapec.ir.printer import name_values

if TYPE_CHECKING:
    import networkx as nx

#: Sizes of the picture, in pixels: of a box, and of the gaps beside and below it.
_WIDTH, _HEIGHT, _GAP, _STEP = 150, 30, 14, 56


def graph_of(module: Module) -> nx.DiGraph:
    """The entry's operations and arguments as nodes, in order; an edge goes from what makes a value to who reads it.

    A node has a ``label``; an edge has the ``type`` of the value. What the regions of an operation read counts as
    read by it.
    """
    import networkx as nx  # slow to import, and most who look at a program want no graph

    entry = module.entry
    names = name_values(entry.args, entry.block.ops)
    graph = nx.DiGraph()
    for arg in entry.args:
        graph.add_node(names[arg], label=f"%{names[arg]}", type=str(arg.type))
    places: dict[Operation, str] = {}
    for i, op in enumerate(entry.block.ops):
        places[op] = names[op.results[0]] if op.results else f"op{i}"
        graph.add_node(places[op], label=_label(op, names))
        for value in _read(op, entry.block):
            made = value.op
            source = names[value] if made is None else places[made]
            graph.add_edge(source, places[op], type=str(value.type))
    return graph


def _label(op: Operation, names: Mapping[Value, str]) -> str:
    results = ", ".join(f"%{names[r]}" for r in op.results)
    return f"{results} = {op.name}" if results else op.name


def _read(op: Operation, block: Block) -> dict[Value, None]:
    """The values of a block that an operation, or one in its regions, reads."""
    inner = op.walk()
    return {
        v: None
        for o in inner
        for v in o.operands
        if v.owner is block or (v.op is not None and v.op.block is block)
    }


def dot_of(module: Module) -> str:
    """The graph in Graphviz's language: ``dot -Tpdf``."""
    graph = graph_of(module)
    lines = [
        f"digraph {json.dumps(module.entry.name)} {{",
        "  node [shape=box fontname=monospace];",
    ]
    for node, data in graph.nodes(data=True):
        lines.append(f"  {json.dumps(node)} [label={json.dumps(data['label'])}];")
    for source, target, data in graph.edges(data=True):
        ends = f"{json.dumps(source)} -> {json.dumps(target)}"
        lines.append(f"  {ends} [label={json.dumps(data['type'])}];")
    return "\n".join([*lines, "}", ""])


def svg_of(module: Module) -> str:
    """The graph as a picture: arguments on top, each operation below all that it reads."""
    import networkx as nx  # as in `graph_of`

    graph = graph_of(module)
    rows = list(nx.topological_generations(graph))
    places = {
        node: (column * (_WIDTH + _GAP) + _GAP, row * _STEP + _GAP)
        for row, nodes in enumerate(rows)
        for column, node in enumerate(nodes)
    }
    width = max((len(nodes) for nodes in rows), default=1) * (_WIDTH + _GAP) + _GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{len(rows) * _STEP + _GAP}" '
        'font-family="monospace" font-size="11">'
    ]
    for source, target in graph.edges:
        (x1, y1), (x2, y2) = places[source], places[target]
        middle = _WIDTH / 2
        parts.append(
            f'<path d="M{x1 + middle} {y1 + _HEIGHT} L{x2 + middle} {y2}" stroke="#8a929c" fill="none"/>'
        )
    for node, (x, y) in places.items():
        label = graph.nodes[node]["label"]
        short = label if len(label) <= 21 else label[:20] + "…"
        parts.append(
            f'<g><title>{escape(label)}</title><rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" '
            'fill="#f1f3f5" stroke="#68707a"/>'
            f'<text x="{x + 6}" y="{y + 19}" fill="#1c1e21">{escape(short)}</text></g>'
        )
    return "\n".join([*parts, "</svg>", ""])
