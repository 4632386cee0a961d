"""The settings of a run as options: one declaration for ``run``, ``compare``, ``sweep`` and ``advise``.

A setting that declares a flag (``tasks/settings.py``, ``config/settings.py``) has an option here. A command with
``@takes_settings`` takes all of them, or all but some, and receives the nested values of a config, from the TOML file,
the options and ``--set``. A command that needs only a few has parameters of the same names and ``@declares_settings``.
Options that are not settings (``--out``, ``--json`` ...) are annotations.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_origin

import typer

from fedloom.cli import completion
from fedloom.cli.data_notes import collect_notes
from fedloom.config.settings import ROUND, ResumeSettings, RunSettings
from fedloom.core.local_work import LocalWork
from fedloom.registry.setting import DeclaredSetting, base_type, declared_settings
from fedloom.tasks.settings import DATA, TaskSection

SET_HELP = "Any other setting, for instance local.momentum=0.9. Repeatable."
LOCAL, OUTPUT = "Local training", "Output"


@dataclass(frozen=True)
class SettingOption:
    """An option that sets a key of a run's config."""

    flag: str
    kind: Any
    key: str
    """The dotted path in the config; empty for options that ``collect`` reads itself."""
    panel: str | None
    help: str
    metavar: str | None = None

    @property
    def parameter(self) -> str:
        """The name of the command function's parameter."""
        return self.flag.removeprefix("--").replace("-", "_")

    @property
    def as_parameter(self) -> inspect.Parameter:
        """The parameter of a command function, with the annotation that typer reads."""
        option = typer.Option(
            self.flag,
            help=self.help,
            rich_help_panel=self.panel,
            metavar=self.metavar,
            autocompletion=completion.OPTIONS.get(self.flag),
        )
        annotation = Annotated[self.kind | None, option]  # type: ignore[name-defined]
        return inspect.Parameter(self.parameter, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def declared_options(owner: type, section: str = "") -> list[SettingOption]:
    """The options of the settings that a class declares with a flag."""
    return [
        SettingOption(
            one.setting.flag, _option_type(one.kind), section + one.name, one.setting.panel, _option_help(one)
        )
        for one in declared_settings(owner)
        if one.setting.flag is not None
    ]


def _option_type(kind: Any) -> Any:
    found = base_type(kind)
    return list[str] if get_origin(found) is list else found if found in (int, float, bool) else str


def _option_help(one: DeclaredSetting) -> str:
    usual = one.setting.usual or ("" if one.default in (None, [], {}) else str(one.default))
    repeatable = " Repeatable." if isinstance(one.default, list) else ""
    shown = re.sub("`(.*?)`", r"[b]\1[/b]", one.setting.help)
    return (f"{shown.rstrip('.')} (default: {usual})." if usual else shown) + repeatable


def local_option(name: str, flag: str, kind: type) -> SettingOption:
    """The option of a setting of local work, with the help of its docstring."""
    (words,) = re.findall(rf"^ +{name}: (.*)$", LocalWork.__doc__ or "", re.MULTILINE)
    return SettingOption(flag, kind, f"local.{name}", LOCAL, words)


SETTINGS = (
    *declared_options(TaskSection, "task."),
    SettingOption("--alpha", float, "", DATA, "Dirichlet label skew: 0.1 is strong, 100 is almost none."),
    local_option("epochs", "--epochs", int),
    local_option("batch_size", "--batch-size", int),
    local_option("lr", "--lr", float),
    *declared_options(RunSettings),
    SettingOption(
        "--selection", str, "", ROUND, "Client selection, see [b]fedloom list selectors[/b] (default: random)."
    ),
    SettingOption("--fraction", float, "selection.fraction", ROUND, "Share of clients per round (default: 1)."),
    SettingOption("--number", int, "selection.number", ROUND, "Number of clients per round, instead of a share."),
    SettingOption(
        *("--patience", int, "early_stopping.patience", ROUND),
        "Stop after this many evaluations without a better score on validation data (task.valid_share).",
    ),
    SettingOption("--set", list[str], "", None, SET_HELP, metavar="KEY=VALUE"),
)
"""Every option that sets a key of the config: those that settings declare, and shortcuts to settings of parts."""
CHANGE_HELP = "With --from-round: another setting from there on. Repeatable."
CHANGE = SettingOption("--set", list[str], "settings", None, CHANGE_HELP, metavar="KEY=VALUE")
OWN_READING = ("partition",)
"""Declared options that ``collect`` reads itself."""
BY_NAME = {setting.parameter: setting for setting in SETTINGS}

Config = Annotated[
    Path | None, typer.Option("--config", help="A TOML file with any of the settings; options override it.")
]
Set = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help=SET_HELP)]
Seeds = Annotated[int, typer.Option("--seeds", help="How many seeds; three or more give a spread.")]


def output_folder(text: str) -> Path:
    """The folder of ``--out``; an empty text, such as a shell variable without a value, is not the current folder."""
    if not text.strip():
        raise typer.BadParameter("it is empty: name a folder.")
    return Path(text)


Out = Annotated[
    Path | None,
    typer.Option("--out", help="The output folder.", parser=output_folder, metavar="PATH", rich_help_panel=OUTPUT),
]
Track = Annotated[
    list[str] | None,
    typer.Option("--track", help="Also send metrics to tensorboard, mlflow or wandb.", rich_help_panel=OUTPUT),
]
Trust = Annotated[
    list[str] | None,
    typer.Option(
        "--trust", metavar="FILE.py", help="A file of your own code that the folder names and that may run; repeatable."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.", rich_help_panel=OUTPUT)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.", rich_help_panel=OUTPUT)]

Method = Annotated[
    str | None,
    typer.Option(
        "--method",
        help="A method of [b]fedloom list methods[/b], or my_file.py:MyMethod.",
        autocompletion=completion.complete_method,
    ),
]

Values = dict[str, Any]
"""The nested values of a config; ``takes_settings`` replaces the parameter with this annotation by its options."""


def takes_settings(*, without: Collection[str] = ()) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace a command's parameter ``values`` by the options of ``SETTINGS``.

    The command's ``config``, or else its ``file``, is the TOML file that the options override.

    Args:
        without: Settings, by their parameters' names, that the command does not take.
    """
    settings = [setting for setting in SETTINGS if setting.parameter not in without]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        parameters: list[inspect.Parameter] = []
        for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
            parameters += [setting.as_parameter for setting in settings] if name == "values" else [parameter]

        @functools.wraps(command)
        def wrapper(**given: Any) -> None:
            options = {setting.parameter: given.pop(setting.parameter) for setting in settings}
            with collect_notes(bool(given.get("as_json"))):
                command(values=collect(given.get("config", given.get("file")), options), **given)

        return _with_parameters(wrapper, parameters)

    return decorate


def takes_changes(command: Callable[..., None]) -> Callable[..., None]:
    """Replace a command's parameter ``changes`` by the options of ``ResumeSettings`` and ``--set``."""
    settings = [*declared_options(ResumeSettings), CHANGE]
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        parameters += [setting.as_parameter for setting in settings] if name == "changes" else [parameter]

    @functools.wraps(command)
    def wrapper(**given: Any) -> None:
        options = {setting.parameter: given.pop(setting.parameter) for setting in settings}
        command(changes=_changes(options), **given)

    return _with_parameters(wrapper, parameters)


def _changes(options: Mapping[str, Any]) -> ResumeSettings:
    """What a run continues with, from the options that are given."""
    from fedloom.config.resolve import override
    from fedloom.registry.nested_keys import flatten
    from fedloom.registry.validation import validate

    values = {name: value for name, value in options.items() if name != "set" and value is not None}
    settings = dict(flatten(override({}, options["set"] or [])))
    changes: ResumeSettings = validate(ResumeSettings, {**values, "settings": settings}, "")
    return changes


def flag_of(name: str) -> str:
    """The option of what a run continues with."""
    return next(one.flag for one in (*declared_options(ResumeSettings), CHANGE) if one.key == name)


def declares_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Turn the plain parameters of a command into the options of the same names in ``SETTINGS``."""
    found = inspect.signature(command, eval_str=True).parameters.values()
    plain = {one.name for one in found if one.name in BY_NAME and not hasattr(one.annotation, "__metadata__")}
    parameters = [BY_NAME[one.name].as_parameter if one.name in plain else one for one in found]
    return _with_parameters(functools.wraps(command)(lambda **given: command(**given)), parameters)


def _with_parameters(wrapper: Callable[..., None], parameters: list[inspect.Parameter]) -> Callable[..., None]:
    """A wrapper whose signature, as typer reads it, has these parameters."""
    keywords = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    wrapper.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in keywords}
    return wrapper


def collect(file: Path | None, options: Mapping[str, Any]) -> Values:
    """The nested values of a config from a TOML file, then the options, then ``--set``."""
    from fedloom.config.python_objects import refuse_to_run, without_replaced_objects
    from fedloom.config.resolve import override
    from fedloom.core.errors import FedloomError
    from fedloom.registry.nested_keys import set_nested
    from fedloom.registry.validation import read_toml

    if file is not None and not file.exists() and _names_method(str(file)):
        raise FedloomError(f"there is no configuration file {file}: for a method write --method {file}.")
    values: Values = read_toml(file) if file is not None else {}
    before = deepcopy(values)
    for section in ("task", "local", "selection", "made_by"):
        if not isinstance(values.get(section, {}), dict):
            raise FedloomError(f"{section} in {file} must be a section with keys, [{section}], not a value.")
    _set_partition(values, options.get("alpha"), options.get("partition"))
    _set_selection(values, options.get("selection"))
    for name, value in options.items():
        setting = BY_NAME[name]
        if value is not None and setting.key and name not in OWN_READING:
            set_nested(values, setting.key, value, setting.flag)
    if "path" in values.get("task", {}):
        values["task"].setdefault("name", "own")
        values["task"]["path"] = str(Path(values["task"]["path"]).resolve())
        _ask_about_alpha(values["task"], options.get("alpha"))
    if isinstance(values.get("method"), str):
        values["method"] = {"name": values["method"]}
    values = override(values, options.get("set") or [])
    for section in ("task", "local", "selection", "method", "made_by"):
        if not isinstance(values.get(section, {}), dict):
            raise FedloomError(f"--set {section}=...: {section} is a section; set one of its keys.")
    values = without_replaced_objects(values, before)
    refuse_to_run(values, str(file), with_method=False)
    return values


def _names_method(text: str) -> bool:
    """Whether a text is a built-in method, with its settings and stages or without."""
    from fedloom.registry.kinds import METHODS

    return METHODS.canonical(re.split("[:+]", text)[0]) in METHODS


def _set_partition(values: Values, alpha: float | None, partition: str | None) -> None:
    from fedloom.core.errors import FedloomError
    from fedloom.data.partition.partitioner import dirichlet, partition_config, partitioner
    from fedloom.registry.nested_keys import set_nested

    if alpha is not None and partition is not None:
        raise FedloomError(f"--alpha {alpha} and --partition {partition} both say how to divide the data: give one.")
    divide = dirichlet(alpha) if alpha is not None else partitioner(partition) if partition is not None else None
    if divide is not None:
        set_nested(values, "task.partition", partition_config(divide), "--partition")


def _ask_about_alpha(task: Values, alpha: float | None) -> None:
    """Ask what is meant by ``--alpha`` on data that have clients of their own."""
    from fedloom.data.read import refuse_unclear_alpha
    from fedloom.data.tables.read_table import USUAL_CLIENT

    if alpha is not None and task["name"] == "own":
        refuse_unclear_alpha(task["path"], str(task.get("client_column", USUAL_CLIENT)), alpha)


def _set_selection(values: Values, selection: str | None) -> None:
    """Set the selector; its settings in ``values`` are kept if they belong to the same selector."""
    from fedloom.registry.spec import split_spec

    if selection is not None:
        name, settings = split_spec(selection)
        given = values.get("selection", {})
        kept = given if given.get("name") in (None, name) else {}
        values["selection"] = {**kept, "name": name, **settings}
