"""Steps of the channel by name (``[[channel]]`` in a config)."""

from __future__ import annotations

from fedloom.channel.cmfl import CMFL
from fedloom.channel.halfprecision import HalfPrecision
from fedloom.channel.lowrank import LowRank
from fedloom.channel.qsgd import QSGD
from fedloom.channel.randomk import RandomK
from fedloom.channel.randommask import RandomMask
from fedloom.channel.selectivesgd import SelectiveSGD
from fedloom.channel.sign import Sign
from fedloom.channel.sketch import Sketch
from fedloom.channel.topk import TopK
from fedloom.core.channel_step import ChannelStep
from fedloom.privacy.local_noise import LocalNoise
from fedloom.privacy.percentile import Percentile
from fedloom.privacy.private_sum import PrivateSum
from fedloom.privacy.svt import SVT
from fedloom.secure.homomorphic_sum import CKKS
from fedloom.secure.secure_sum import SecureSum

CHANNELS: dict[str, type[ChannelStep]] = {
    "topk": TopK,
    "randomk": RandomK,
    "qsgd": QSGD,
    "sign": Sign,
    "sketch": Sketch,
    "lowrank": LowRank,
    "randommask": RandomMask,
    "selectivesgd": SelectiveSGD,
    "halfprecision": HalfPrecision,
    "cmfl": CMFL,
    "localnoise": LocalNoise,
    "svt": SVT,
    "percentile": Percentile,
    "securesum": SecureSum,
    "privatesum": PrivateSum,
    "ckks": CKKS,
}
