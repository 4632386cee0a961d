"""Whether the functions of a user's own part can be called as the library calls them.

Python finds a wrong number of arguments only when it calls a function, in the middle of a run, and names no line of the
user's file. So the functions are held against those of the base class before anything is trained.
"""

from __future__ import annotations

import inspect
from types import FunctionType

from fedloom.core.errors import FedloomError


def check_signatures(part: object, base: type) -> None:
    """Refuse a part with a function that does not take the arguments that the function of its base class takes.

    Args:
        part: The part: a method, a prediction stage, a metric.
        base: The class whose functions the library calls.
    """
    for name, function in vars(base).items():
        own = inspect.getattr_static(type(part), name)
        if not isinstance(function, FunctionType) or own is function or (name[0] == "_" and name != "__call__"):
            continue
        expected = list(inspect.signature(function).parameters)[1:]
        called = f"{type(part).__name__}.{name}"
        if not callable(getattr(part, name)):
            raise FedloomError(f"{called} is not a function: write def {name}({', '.join(['self', *expected])}).")
        signature = inspect.signature(getattr(part, name))
        try:
            signature.bind(*expected)
        except TypeError:
            raise FedloomError(
                f"{called}{_without_types(signature)} cannot be called with ({', '.join(expected)}): write def "
                f"{name}({', '.join(['self', *expected])})."
            ) from None


def _without_types(signature: inspect.Signature) -> str:
    plain = [one.replace(annotation=inspect.Parameter.empty) for one in signature.parameters.values()]
    return str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty))
