"""Ask which method to use for small, intermediate and big clients, within a quarter of a minute.

    python examples/ask_for_advice.py [FOLDER]

A quarter of a minute is for the example; give it some minutes, and all methods, to rely on what it says.
"""

import sys
import tempfile
from pathlib import Path

import fedloom as fl
from fedloom.reports.advice_page import write_advice_page


def main(folder: Path) -> None:
    task = fl.task("digits", clients=12, alpha=0.1)
    advice = fl.advise(task, minutes=0.25, methods="fedavg,fedper,fedavg+finetune", rounds=8, out=folder / "advice")
    print(advice)
    for pick in advice.groups:
        cost = advice.costs[pick.use.candidate]
        print(f"{pick.group}: {pick.use.candidate}, {pick.use.test:.1%}, {cost.bytes_up:,.0f} bytes up per round")
    print("Report:", write_advice_page(advice, folder / "advice" / "report.html"))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp(prefix="fedloom-")))
