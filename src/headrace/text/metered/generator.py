"""The code that templates become."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame


class MeteredGenerator(CodeGenerator):
    """Has the environment do what native operations would do without a bound, and computes
    nothing when it compiles."""

    def visit_Add(self, node: nodes.BinExpr, frame: Frame) -> None:
        terms = [node.right]
        left = node.left
        while isinstance(left, nodes.Add):
            terms.append(left.right)
            left = left.left
        self._call("added", [left, *reversed(terms)], frame)

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        self._call("joined", node.nodes, frame)

    def visit_Compare(self, node: nodes.Compare, frame: Frame) -> None:
        operands = [node.expr, *(operand.expr for operand in node.ops)]
        # With a constant it costs no more than the constant's length.
        cheap = sum(map(_is_constant, operands)) >= len(operands) - 1
        self.write("(")
        self._weigh("read", node.expr, frame, cheap)
        for operand in node.ops:
            self.write({"in": " in ", "notin": " not in "}.get(operand.op) or _SIGNS[operand.op])
            if operand.op in ("in", "notin"):
                method = "searched" if cheap else "read"
                self._weigh(method, operand.expr, frame, _is_constant(operand.expr))
            else:
                self._weigh("read", operand.expr, frame, cheap)
        self.write(")")

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:
        if isinstance(node.arg, nodes.Slice):
            self.write("environment.made(context, ")
            super().visit_Getitem(node, frame)
            self.write(")")
        else:
            self.write("environment.item(context, ")
            self.visit(node.node, frame)
            self.write(", ")
            self.visit(node.arg, frame)
            self.write(")")

    def visit_Getattr(self, node: nodes.Getattr, frame: Frame) -> None:
        self.write("environment.field(context, ")
        self.visit(node.node, frame)
        self.write(f", {node.attr!r})")

    def visit_Tuple(self, node: nodes.Tuple, frame: Frame) -> None:
        # A tuple may be a key, which is read whole.
        made = node.ctx == "load" and not _is_constant(node)
        self.write("environment.read(context, " if made else "")
        super().visit_Tuple(node, frame)
        self.write(")" if made else "")

    def _call(self, method: str, terms: Iterable[nodes.Node], frame: Frame) -> None:
        self.write(f"environment.{method}(context, (")
        for term in terms:
            self.visit(term, frame)
            self.write(", ")
        self.write("))")

    def _weigh(self, method: str, node: nodes.Expr, frame: Frame, cheap: bool) -> None:
        self.write("" if cheap else f"environment.{method}(context, ")
        self.visit(node, frame)
        self.write("" if cheap else ")")

    def _output_child_to_const(self, node: nodes.Expr, frame: Frame, finalize: Any) -> str:
        if not isinstance(node, nodes.TemplateData | nodes.Const):
            raise nodes.Impossible
        return super()._output_child_to_const(node, frame, finalize)

    def _output_child_pre(self, node: nodes.Expr, frame: Frame, finalize: Any) -> None:
        # Texts that were joined are paid for.
        if isinstance(node, nodes.Concat):
            self.write("(")
        elif isinstance(node, nodes.Add):
            self.write("environment.sum(context, ")
        else:
            self.write("environment.text(context, ")


_SIGNS = {
    "eq": " == ", "ne": " != ", "gt": " > ", "gteq": " >= ", "lt": " < ", "lteq": " <= ",
}  # fmt: skip


def _is_constant(node: nodes.Node) -> bool:
    if isinstance(node, nodes.List | nodes.Tuple):
        return all(map(_is_constant, node.items))
    return isinstance(node, nodes.Const)
