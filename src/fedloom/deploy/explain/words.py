"""What travels and what stays, in words: by the names that methods give to their tensors."""

from __future__ import annotations

SELECTION, WORK, SCORING = "selection", "work", "scoring"
"""What sites are sent a message for."""

DOWN = {
    "row": "the model's numbers",
    "rows": "the models of all groups",
    "body": "the model's body, all but its head",
    "head": "the model's head",
    "c": "the control variate of all sites",
    "mu": "how near to the model a site has to stay",
    "initial": "the initial model",
    "classes": "which classes the prototypes are of",
    "prototypes": "mean features of each class, all sites",
    "threshold": "how many samples make a site a large one",
    "probe": "how long a site shall train alone",
    "phase": "the phase that the method is in",
    "anchors": "mean embeddings of nodes that sites share",
    "ask": "asks for the embeddings of shared nodes",
    "draw": "asks to join shared nodes to others",
}
UP = {
    "row": "the model that the site trained",
    "body": "the body that the site trained",
    "head": "the head that the site trained",
    "change": "how the site's data move the model",
    "c": "how the site's control variate changed",
    "loss": "mean loss on its training part",
    "leaves": "whether the site has converged",
    "choice": "which group's model fits the site best",
    "prototypes": "mean features of each class of its samples",
    "counts": "how many samples of each class it has",
    "pretrained": "a model trained alone, or its last layer",
    "shared": "the shared model's accuracy, own valid. part",
    "local": "accuracy of a model that it trained alone",
    "size": "how many samples it holds in all",
    "points": "how many validation samples it has",
    "anchors": "its embeddings of nodes that sites share",
}
RESULT = {
    "steps": "how many training steps it made",
    "samples": "how many training samples it has",
    "bytes": "what its reply counts for, in bytes",
    "received/loss": "received model's mean loss, own test part",
    "received/score": "received model's mean score, own test part",
    "trained/loss": "trained model's mean loss, own test part",
    "trained/score": "trained model's mean score, own test part",
}
SCORES = {
    "loss": "its model's summed loss, own test part",
    "score": "its model's summed score, own test part",
    "counts": "how many samples were summed over",
    "global": "its model's mean score, global test set",
    "recall": "its score on the class withheld from it",
}
ASKED = {
    "loss": "mean loss, own validation or training part",
    "score": "mean score, own validation or training part",
    "samples": "how many training samples it has",
}
KEPT = {
    "row": "the site's own model",
    "head": "the model's head, as the site trained it",
    "body": "the model's body, as the site trained it",
    "c": "the site's own control variate",
    "g": "the site's own gradient term",
    "last": "the model that the site trained last",
    "theta": "the site's personal model",
    "v": "the site's personal model",
    "gala/row": "the model that the site trained last",
    "gala/chosen": "the edges that the site drew into its graph",
    "own/row": "the model that the site trained last",
    "fedpredict/row": "the model that the site trained last",
    "fedpredict/round": "the round in which it did",
    "fedpredict/classes": "how many samples of each class it had then",
}


def words_for(name: str, known: dict[str, str]) -> str:
    """What a tensor is, in words; of a method of one's own, that it is one."""
    if name.startswith("exit/"):
        return "the loss by which the site sees whether it has converged"
    return known.get(name, f"a tensor of the method's own, named {name}")
