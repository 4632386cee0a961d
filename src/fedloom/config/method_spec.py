"""Method specs: a method as text, ``fedprox:mu=0.1``, or with prediction stages ``fedavg+finetune:epochs=2``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError
from fedloom.core.prediction_stage import PredictionStage
from fedloom.registry.kinds import METHODS, PREDICTION_STAGES
from fedloom.registry.nested_keys import flatten
from fedloom.registry.spec import split_commas, split_spec

Method = str | Algorithm | type[Algorithm]
"""A method's spec, the method itself, or its class."""


def method_from(spec: Method, settings: Mapping[str, Any] | None = None) -> Algorithm:
    """A method from its spec, its class, or itself; settings in the spec override ``settings``."""
    if isinstance(spec, type) and issubclass(spec, Algorithm):
        return spec()
    if isinstance(spec, str):
        name, own = split_spec(split_stages(spec)[0])
        made: Algorithm = METHODS.make({"name": name, **(settings or {}), **own})
        return made
    if not isinstance(spec, Algorithm):
        raise FedloomError(f"method={spec!r}: give a spec such as 'fedprox:mu=0.1', a method, or its class.")
    return spec


def split_stages(spec: str) -> tuple[str, list[dict[str, Any]]]:
    """``fedavg+fedpredict+finetune:epochs=2`` as the method's spec and the values of the stages."""
    method, *stages = spec.split("+")
    parts = [split_spec(stage) for stage in stages]
    return method, [{"name": name, **settings} for name, settings in parts]


def split_methods(text: str) -> list[str]:
    """The specs in a comma-separated list; in ``fedprox:mu=1,adaptive=true`` the comma separates two settings."""
    found: list[str] = []
    for piece in filter(None, split_commas(text)):
        if found and ":" in found[-1] and "=" in piece and ":" not in piece:
            found[-1] += f",{piece}"
        else:
            found.append(piece)
    return found


def with_method(values: Mapping[str, Any], spec: str) -> dict[str, Any]:
    """A config's values with the method of a spec; the spec's stages are appended to those in the config.

    Settings of the method in ``values`` are kept if they belong to the same method.
    """
    method, stages = split_stages(spec)
    name, settings = split_spec(method)
    given = values.get("method", {})
    if isinstance(given, str):
        given = {"name": given}
    kept = given if given.get("name") in (None, name) else {}
    before = values.get("prediction", [])
    prediction = [*before, *stages] if isinstance(before, list | tuple) else before  # any other type is refused later
    return {**values, "method": {**kept, "name": name, **settings}, "prediction": prediction}


def label_of(spec: str | Algorithm | PredictionStage) -> str:
    """The spec of a method or a stage in its shortest form: its name and the settings that are not the default."""
    if isinstance(spec, str):
        (method, settings), *stages = (split_spec(part) for part in spec.split("+"))
        first = _spec(METHODS.canonical(method), settings)
        return "+".join([first, *(_spec(PREDICTION_STAGES.canonical(name), given) for name, given in stages)])
    given = {f.name: getattr(spec, f.name) for f in fields(spec) if getattr(spec, f.name) != f.default}
    return _spec(type(spec).__name__.lower(), given)


def run_label(config: Mapping[str, Any]) -> str:
    """The method and the prediction stages of a run's config, without their settings."""
    stages = [str(stage["name"]).rpartition(":")[2] for stage in config.get("prediction", ())]
    return "+".join([str(config["method"]["name"]), *stages])


def _spec(name: str, settings: Mapping[str, Any]) -> str:
    return ":".join([name, ",".join(f"{key}={value}" for key, value in flatten(settings))]).rstrip(":")


def spec_without_settings(spec: str) -> str:
    """The method and the stages of a spec, without their settings."""
    return "+".join(split_spec(part)[0] for part in spec.split("+"))
