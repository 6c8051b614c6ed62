"""What the parts of a template cost, in units.

What a part does that depends on its values is charged when it runs. What it takes at most
beside that is here. A test measures every kind.
"""

from __future__ import annotations

from jinja2 import nodes

STEP = 96  # of a call, and of a loop's pass
CALL = 288  # more, of a call of a macro or a function, beside its body
LOOKUP = 400  # of an attribute or item that is no field of a dictionary or namespace
ABSENT = 64  # of a field that is not there

_NODE = 4  # of each part that is not named here
_PRICES: dict[type[nodes.Node], int] = {
    nodes.Name: 8,
    nodes.Getattr: 16,
    nodes.Getitem: 16,
    nodes.Concat: 24,
    nodes.Add: 24,
    nodes.Sub: 48,
    nodes.Mul: 48,
    nodes.FloorDiv: 48,
    nodes.Mod: 48,
    nodes.Compare: 16,
    nodes.Operand: 16,
    nodes.Filter: 32,
    nodes.Test: 32,
    nodes.Call: 64,
    nodes.For: 128,
    nodes.Macro: 128,
    nodes.CallBlock: 256,
    nodes.Block: 128,
    nodes.Slice: 32,
    nodes.Tuple: 16,
}


def work_of(node: nodes.Node) -> int:
    """Units that this part of a body takes at most, with all that is in it."""
    own = _PRICES.get(type(node), _NODE)
    if isinstance(node, nodes.TemplateData):
        own += len(node.data)
    elif isinstance(node, nodes.Const) and isinstance(node.value, str):
        own += len(node.value)
    return own + sum(map(work_of, node.iter_child_nodes()))
