"""The ``fedloom`` command: verbs, errors in one sentence, exit code 2 for errors that the user can fix."""

from __future__ import annotations

import errno
import logging
import os
import re
import sys
import warnings

import click
import typer

from fedloom.cli.advise import advise
from fedloom.cli.audit import audit
from fedloom.cli.compare import compare
from fedloom.cli.conform import conform
from fedloom.cli.data import data
from fedloom.cli.demo import demo
from fedloom.cli.deploy.app import app as deploy
from fedloom.cli.flows.app import flows
from fedloom.cli.graphs import app as graphs
from fedloom.cli.listing import listing
from fedloom.cli.memory import keep_freed_memory
from fedloom.cli.predict import predict
from fedloom.cli.privacy import privacy
from fedloom.cli.report import report
from fedloom.cli.reproduce import reproduce
from fedloom.cli.run import resume, run
from fedloom.cli.sweep import sweep
from fedloom.cli.terminal.say import VisibleFormatter, say
from fedloom.cli.watch import watch
from fedloom.core.errors import FedloomError, StoppedWarning
from fedloom.registry.user_errors import describe_user_error

app = typer.Typer(
    name="fedloom",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Federated learning when clients differ: simulate, compare, report.\n\n"
    "Start with:  fedloom compare --task digits --clients 20 --alpha 0.1 fedavg fedprox fedyogi",
)
app.command()(demo)
app.command()(run)
app.command()(compare)
app.command()(sweep)
app.command()(advise)
app.command()(audit)
app.command()(conform)
app.command()(resume)
app.command()(report)
app.command()(watch)
app.command()(predict)
app.command()(privacy)
app.command()(data)
app.command("list")(listing)
app.command()(reproduce)
app.add_typer(flows, name="flows")
app.add_typer(graphs, name="graphs")
app.add_typer(deploy, name="deploy")


@app.callback(invoke_without_command=True)
def _options(version: bool = typer.Option(False, "--version", help="Print the version and stop.")) -> None:
    if version:
        from fedloom import __version__

        say(f"fedloom {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line."""
    keep_freed_memory()
    warnings.simplefilter("ignore", StoppedWarning)  # commands say it themselves
    warnings.filterwarnings("ignore", "Glyph .* missing from font")  # a name in another script: boxes in a PNG
    shown = logging.StreamHandler(sys.stderr)
    shown.setFormatter(VisibleFormatter("%(message)s"))
    logging.basicConfig(handlers=[shown], level=logging.WARNING)
    logging.captureWarnings(True)
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except FedloomError as error:
        say(f"error: {error}", err=True)
        sys.exit(2)
    except click.ClickException as error:
        if error.format_message():  # a command without any word has printed its help instead
            say(f"error: {_usage_sentence(error)}", err=True)
        sys.exit(2)
    except (KeyboardInterrupt, click.Abort):
        say("stopped.", err=True)
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        say(f"error: {_disk_sentence(error)}", err=True)
        sys.exit(2)
    except Exception as error:
        described = describe_user_error(error)
        if described is None:  # a mistake of this library: its traceback is what we need
            raise
        say(f"error: your code raised {described}; fl.run in Python shows the whole traceback.", err=True)
        sys.exit(2)


def _usage_sentence(error: click.ClickException) -> str:
    """What is wrong with the words of a command, and where its help is."""
    context = getattr(error, "ctx", None)
    where = f" See {context.command_path} --help." if context is not None else ""
    words = error.format_message().rstrip(".")
    hint = re.search(r" Did you mean [^?]+\?$", words)  # click and typer both add it to a misspelt command
    if hint is not None and words.endswith(2 * hint.group()):
        words = words.removesuffix(hint.group())
    return f"{words}{'' if words.endswith('?') else '.'}{where}"


def _disk_sentence(error: OSError) -> str:
    """What a file or a disk refused, and what to do."""
    what = f"{error.filename}: " if error.filename else ""
    reason = (error.strerror or str(error) or type(error).__name__).rstrip(".")
    advice = "make room and try again" if error.errno == errno.ENOSPC else "check the path and its permissions"
    return f"{what}{reason[0].lower()}{reason[1:]}; {advice}."


if __name__ == "__main__":
    main()
