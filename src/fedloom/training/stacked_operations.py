"""The operations of a traced forward pass as functions of stacked tensors.

What torch does to one client's ``n x ...`` is done to ``B x n x ...`` by moving each axis one place back. An operation
that is not in the tables has no such function.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from fedloom.training.keyed_dropout import KeyedDropout
from fedloom.training.layer_graph import ELEMENTWISE, flatten, flattens

UNARY = frozenset(
    {torch.relu, torch.tanh, torch.sigmoid, torch.exp, torch.abs, torch.square, torch.sin, torch.cos, torch.neg}
    | {F.relu, F.tanh, F.sigmoid, F.gelu, F.silu, F.elu, F.leaky_relu, F.softplus, F.selu, F.mish, F.hardswish}
    | {F.relu6, F.hardtanh, F.logsigmoid, F.softsign, operator.neg}
)
BINARY = frozenset(
    {operator.add, operator.sub, operator.mul, operator.truediv, operator.iadd, operator.isub, operator.imul}
    | {torch.add, torch.sub, torch.mul, torch.div, torch.maximum, torch.minimum}
)
UNARY_METHODS = frozenset({"relu", "tanh", "sigmoid", "exp", "abs", "square", "float", "contiguous", "neg"})
BINARY_METHODS = frozenset({"add", "sub", "mul", "div", "add_", "mul_"})
ALONG_AXIS = {
    torch.softmax: "softmax",
    F.softmax: "softmax",
    torch.log_softmax: "log_softmax",
    F.log_softmax: "log_softmax",
}


class Untraceable(Exception):  # noqa: N818 (not an error: there is another way)
    """A module is not a graph of operations; the message says why, as the rest of a sentence."""


Operation = tuple[list[fx.Node], Callable[..., Tensor], str]


def stacked_operation(node: fx.Node, model: nn.Module) -> Operation:
    """What a node takes, the function of stacked tensors that does its work, and the name of a linear layer."""
    if node.op == "call_module":
        return _module(node, model)
    if node.op == "get_attr":
        raise Untraceable(f"it uses the tensor '{str(node.target).removeprefix('module.')}' outside of a layer")
    called = node.target if node.op == "call_method" else getattr(node.target, "__name__", str(node.target))
    method = node.op == "call_method"
    if node.target in (UNARY_METHODS if method else UNARY):
        found = _unary(node)
    elif node.target in (BINARY_METHODS if method else BINARY):
        found = _binary(node)
    elif called in ("flatten", "view", "reshape") and (method or node.target in (torch.flatten, torch.reshape)):
        found = _flatten(node) if called == "flatten" else _view(node)
    elif called in ("softmax", "log_softmax") and (method or node.target in ALONG_AXIS):
        found = _along_axis(node, str(called))
    elif not method and node.target in (torch.cat, torch.concat):
        found = _cat(node)
    else:
        raise Untraceable(f"its forward pass calls {called}()")
    return found


def _module(node: fx.Node, model: nn.Module) -> Operation:
    name = str(node.target).removeprefix("module.")
    layer = model.get_submodule(name)
    (x,) = _nodes(node, 1)
    if len(node.args) == 1 and not node.kwargs:
        if type(layer) is nn.Linear:
            return [x], layer, name
        if type(layer) in (KeyedDropout, *ELEMENTWISE):
            return [x], layer, ""
        if flattens(layer):
            return [x], flatten, ""
    raise Untraceable(f"its layer '{name}' is {type(layer).__name__}")


def _nodes(node: fx.Node, count: int) -> list[fx.Node]:
    """The first arguments, which must be results of other steps, while no other argument is one."""
    first, others = list(node.args[:count]), [*node.args[count:], *node.kwargs.values()]
    found = [one for one in first if isinstance(one, fx.Node)]
    if len(found) < count or any(isinstance(one, fx.Node) for one in others):
        raise Untraceable(f"its forward pass calls {node.name} with unusual arguments")
    return found


def _function(node: fx.Node) -> Callable[..., Tensor]:
    """What a node calls, as a function."""
    if node.op == "call_method":
        name = str(node.target)
        return lambda x, *others, **named: getattr(x, name)(*others, **named)
    return node.target  # type: ignore[return-value]


def _unary(node: fx.Node) -> Operation:
    (x,), function, others, named = _nodes(node, 1), _function(node), node.args[1:], dict(node.kwargs)
    if node.target in (torch.relu, F.relu, "relu") and not others and not any(named.values()):
        return [x], nn.ReLU(), ""
    return [x], lambda x: function(x, *others, **named), ""


def _binary(node: fx.Node) -> Operation:
    function, named = _function(node), dict(node.kwargs)
    if len(node.args) != 2:
        raise Untraceable(f"its forward pass calls {node.name} with unusual arguments")
    one, other = node.args
    if isinstance(one, fx.Node) and isinstance(other, fx.Node):

        def both(a: Tensor, b: Tensor) -> Tensor:
            if a.dim() != b.dim():  # torch would align their last axes, and the client is the first
                raise Untraceable(f"its forward pass calls {node.name} on tensors with different numbers of axes")
            return function(a, b, **named)

        return [one, other], both, ""
    if isinstance(one, fx.Node) and isinstance(other, int | float):
        return [one], lambda a: function(a, other, **named), ""
    if isinstance(other, fx.Node) and isinstance(one, int | float):
        return [other], lambda b: function(one, b, **named), ""
    raise Untraceable(f"its forward pass calls {node.name} with unusual arguments")


def _argument(node: fx.Node, place: int, name: str, default: int | None) -> int:
    """A whole number that a node is given by place or by name."""
    found = node.args[place] if len(node.args) > place else node.kwargs.get(name, default)
    if not isinstance(found, int):
        raise Untraceable(f"its forward pass calls {node.name} with unusual arguments")
    return found


def _axis(number: int) -> int:
    """The axis of a stacked tensor that is this axis of one client's."""
    return number + 1 if number >= 0 else number


def _flatten(node: fx.Node) -> Operation:
    (x,) = _nodes(node, 1)
    start, end = _axis(_argument(node, 1, "start_dim", 0)), _axis(_argument(node, 2, "end_dim", -1))
    return [x], lambda x: x.flatten(start, end), ""


def _view(node: fx.Node) -> Operation:
    """``x.view(x.size(0), -1)``, ``x.reshape(-1, 784)`` and the like; the first size may be the number of samples."""
    x = node.args[0]
    sizes = node.args[1:] or (node.kwargs.get("shape"),)
    if len(sizes) == 1 and isinstance(sizes[0], tuple | list):
        sizes = tuple(sizes[0])
    if not isinstance(x, fx.Node) or not all(isinstance(size, int) for size in sizes[1:]):
        raise Untraceable("its forward pass computes a shape")
    first, rest = sizes[0], [int(size) for size in sizes[1:] if isinstance(size, int)]
    if isinstance(first, int):
        return [x], lambda x: x.reshape(len(x), first, *rest), ""
    if isinstance(first, fx.Node) and is_batch_size(first):
        return [x], lambda x: x.reshape(len(x), x.shape[1], *rest), ""
    raise Untraceable("its forward pass computes a shape")


def _along_axis(node: fx.Node, name: str) -> Operation:
    (x,), axis = _nodes(node, 1), _axis(_argument(node, 1, "dim", None))
    function = F.softmax if name == "softmax" else F.log_softmax
    return [x], lambda x: function(x, dim=axis), ""


def _cat(node: fx.Node) -> Operation:
    tensors, axis = node.args[0] if node.args else (), _axis(_argument(node, 1, "dim", 0))
    found = [one for one in tensors if isinstance(one, fx.Node)] if isinstance(tensors, list | tuple) else []
    if not found or len(found) < len(tensors):  # type: ignore[arg-type]
        raise Untraceable("its forward pass calls cat with unusual arguments")
    return found, lambda *several: torch.cat(several, dim=axis), ""


def is_shape(node: fx.Node) -> bool:
    """Whether a node is ``x.shape`` or ``x.size()``."""
    if node.op == "call_function" and node.target is getattr:
        return bool(node.args[1] == "shape")
    return node.op == "call_method" and node.target == "size" and len(node.args) == 1


def is_batch_size(node: fx.Node) -> bool:
    """Whether a node is ``x.shape[0]`` or ``x.size(0)``."""
    if node.op == "call_method" and node.target == "size":
        return node.args[1:] == (0,)
    shape = node.args[0] if node.target is operator.getitem else None
    return isinstance(shape, fx.Node) and is_shape(shape) and node.args[1:] == (0,)
