"""What comes next in a workflow under construction: train personalised models on flows, then ask one of them.

With the n8n corpus in the data folder, owners of real workflows train together and the question is about a workflow
export of n8n; without it, organisations of the synthetic corpus do, and it is about a flow of their platform.

    python examples/recommend_next_action.py [FOLDER]
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

import fedloom as fl
from fedloom.runs.results.client_model import client_standalone_model
from fedloom.tasks.flows import Recommender

FLOWS = Path(__file__).parent / "flows"
SMALL = {"width": 48, "blocks": 3}


def main(folder: Path) -> None:
    try:
        task = fl.task("n8n", clients=8, model_options=SMALL)
        file, questions = "support_mail.n8n.json", [(None, None), ("Urgent?", "main 1"), ("Sort the mail", None)]
    except fl.FedloomError as missing:
        print(f"{missing}\nThe synthetic corpus is used instead.\n")
        task = fl.task("flows", clients=4, options={"largest": 2000}, model_options=SMALL)
        file, questions = "order_approval.json", [("any order?", "False"), ("approve", None)]
    local = {"optimizer": "adam", "lr": 0.001, "batch_size": 32}
    history = fl.run(task, "fedavg+finetune", rounds=10, eval_every=10, local=local, out=folder / "run")
    own = history.last("client_model/own_test/accuracy/mean")
    print(f"clients' own models are right about {own:.1%} of the next actions in flows they never saw")

    client = task.federation.name(0)
    client_standalone_model(folder / "run", client).write(folder / "model.safetensors")
    recommender = Recommender.load(folder / "model.safetensors")
    flow = recommender.read(FLOWS / file)
    for after, label in questions:
        question = recommender.question(flow, after, label).edges[-1]
        way = f" by '{question.label}'" if question.label else ""
        print(f"\n{flow.name}: after '{question.source}'{way}, {client} would place")
        for kind, probability in recommender.recommend(flow, 5, after, label):
            print(f"{probability:>8.1%}  {kind}")

    seconds = []
    for _ in range(50):
        began = time.perf_counter()
        recommender.recommend(flow, 5, *questions[0])
        seconds.append(time.perf_counter() - began)
    print(f"\nan answer takes {1000 * statistics.median(seconds):.0f} ms")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp(prefix="fedloom-")))
