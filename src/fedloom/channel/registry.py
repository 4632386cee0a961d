"""Steps of the channel by name (``[[channel]]`` in a config)."""

from __future__ import annotations

from fedloom.channel.compression.cmfl import CMFL
from fedloom.channel.compression.halfprecision import HalfPrecision
from fedloom.channel.compression.lowrank import LowRank
from fedloom.channel.compression.qsgd import QSGD
from fedloom.channel.compression.randomk import RandomK
from fedloom.channel.compression.randommask import RandomMask
from fedloom.channel.compression.selectivesgd import SelectiveSGD
from fedloom.channel.compression.sign import Sign
from fedloom.channel.compression.sketch import Sketch
from fedloom.channel.compression.topk import TopK
from fedloom.channel.privacy.local_noise import LocalNoise
from fedloom.channel.privacy.percentile import Percentile
from fedloom.channel.privacy.private_sum import PrivateSum
from fedloom.channel.privacy.svt import SVT
from fedloom.channel.secure.homomorphic_sum import CKKS
from fedloom.channel.secure.secure_sum import SecureSum
from fedloom.core.channel_step import ChannelStep

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
