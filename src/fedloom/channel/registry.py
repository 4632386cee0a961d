"""Steps of the channel by name (``[[channel]]`` in a config)."""

from __future__ import annotations

from fedloom.channel.compression.cmfl import CMFL
from fedloom.channel.compression.topk import TopK
from fedloom.channel.privacy.local_noise import LocalNoise
from fedloom.core.channel_step import ChannelStep

CHANNELS: dict[str, type[ChannelStep]] = {"topk": TopK, "cmfl": CMFL, "localnoise": LocalNoise}
