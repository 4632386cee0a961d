"""Readers of the text sets: from lines and posts to fixed windows of numbers.

Shakespeare (next character, by role): 80 characters of a role's text, the 81st is the target, over the 80 symbols of
LEAF (Caldas et al. 2018). Stack Exchange (next word, by user): pieces of 20 words with the following 20 as targets,
over the 10,000 most frequent words and four special tokens (Reddi et al. 2021 for Stack Overflow).
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from pathlib import Path

import numpy as np
import torch

from fedloom.core.errors import FedloomError
from fedloom.core.settings import Count, check_value
from fedloom.data.federate import Samples
from fedloom.data.folder import read_tsv_columns

CHARACTERS = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
WINDOW = 80
PAD, BEGIN, END, OTHER = range(4)
PIECE = 20
WORDS = 10_000
IGNORED = -100
_WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")


def read_shakespeare(path: Path, stride: int = 20) -> Samples:
    """Windows of 80 characters per role, every ``stride`` characters; x is uint8 (N, 80), y the next character.

    Windows overlap when the stride is under 81, so a role's text is split in order with a gap.
    """
    check_value("stride", stride, Count)
    table = read_tsv_columns(path, ["play", "role", "line"])
    lines: dict[tuple[str, str], list[str]] = {}
    for play, role, line in zip(table["play"], table["role"], table["line"], strict=True):
        lines.setdefault((play, role), []).append(line)
    code = np.full(0x110000, CHARACTERS.index(" "), dtype=np.uint8)
    code[[ord(symbol) for symbol in CHARACTERS]] = np.arange(len(CHARACTERS))
    roles: list[str] = []
    windows, targets, natural = [], [], []
    for (play, role), said in sorted(lines.items()):
        text = code[np.frombuffer("\n".join(said).encode("utf-32-le"), dtype=np.uint32)]
        if len(text) <= WINDOW:
            continue
        seen = np.lib.stride_tricks.sliding_window_view(text, WINDOW + 1)[::stride]
        windows.append(seen[:, :WINDOW])
        targets.append(seen[:, WINDOW])
        natural.append(np.full(len(seen), len(roles)))
        roles.append(f"{role.title()} ({play.replace('_', ' ')})")
    if not roles:
        raise FedloomError(f"{path}: no role says more than {WINDOW} characters.")
    keys = np.concatenate(natural)
    return Samples(
        {
            "x": torch.from_numpy(np.concatenate(windows)),
            "y": torch.from_numpy(np.concatenate(targets).astype(np.int64)),
        },
        len(CHARACTERS),
        [{"\n": "⏎", " ": "␣"}.get(symbol, symbol) for symbol in CHARACTERS],
        natural=keys,
        names=roles,
        blocks=keys,
        gap=-(-(WINDOW + 1) // stride) - 1,
    )


def read_stackexchange(path: Path) -> Samples:
    """Pieces of 20 words per post in the order a user wrote them; x is int16 (N, 20), y int64 (N, 20), -100 for none.

    Numbers: 0 padding, 1 begin, 2 end, 3 any other word, then the 10,000 most frequent words.
    """
    table = read_tsv_columns(path, ["site", "user", "date", "text"])
    users = [f"{site}/{user}" for site, user in zip(table["site"], table["user"], strict=True)]
    order = sorted(range(len(users)), key=lambda post: (users[post], table["date"][post], post))
    posts = [_WORD.findall(table["text"][post].lower()) for post in order]
    counted = Counter(itertools.chain.from_iterable(posts))
    if not counted:
        raise FedloomError(f"{path}: there is no word in the column 'text'.")
    ranked = sorted(counted.items(), key=lambda entry: (-entry[1], entry[0]))[:WORDS]
    number = {word: OTHER + 1 + rank for rank, (word, _) in enumerate(ranked)}
    stream = np.fromiter(
        itertools.chain.from_iterable([BEGIN, *(number.get(word, OTHER) for word in post), END] for post in posts),
        dtype=np.int16,
    )
    lengths = np.array([len(post) + 1 for post in posts])  # pairs of a word and its next
    pieces = -(-lengths // PIECE)
    rank = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    row = np.repeat(np.cumsum(pieces) - pieces, lengths) + rank // PIECE
    now = np.arange(lengths.sum()) + np.repeat(np.arange(len(posts)), lengths)
    x = np.full((pieces.sum(), PIECE), PAD, dtype=np.int16)
    y = np.full((pieces.sum(), PIECE), IGNORED, dtype=np.int64)
    x[row, rank % PIECE] = stream[now]
    y[row, rank % PIECE] = stream[now + 1]
    names, key_of_post = np.unique([users[post] for post in order], return_inverse=True)
    keys = np.repeat(key_of_post, pieces)
    return Samples(
        {"x": torch.from_numpy(x), "y": torch.from_numpy(y)},
        WORDS + OTHER + 1,
        natural=keys,
        names=[str(name) for name in names],
        blocks=keys,
    )
