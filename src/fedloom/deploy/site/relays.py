"""A site in an encrypted chain: it opens the model of the one before it, and seals its own for the one after it.

Where it stands it finds in its own copy of the plan, never in a request. So a server that asks it to show its model in
the middle of a chain, gives it a model of the server's own there, or puts another key or member in its neighbour's
place, is refused before the site trains. What was sealed opens only in the run, round, pass and place that it was
sealed for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from fedloom.core.algorithm import Algorithm, handover_of
from fedloom.core.message import Message
from fedloom.core.relays import RELAY, ROOM, Handover
from fedloom.deploy.protocol.relay_requests import NEXT, PREVIOUS, to_bytes, to_tensor
from fedloom.deploy.protocol.wire import RejectedMessage, SiteRequest
from fedloom.deploy.relay_keys import RelayKeys
from fedloom.deploy.site.policy import Refused
from fedloom.rounds.jobs import REPLY
from fedloom.secure.sealing import seal, unseal


@dataclass(frozen=True)
class SiteRelays:
    """The site's half of handing models on.

    Args:
        algorithm: The method, as the site runs it.
        sites: The names of the training sites, by client number.
        seed: The run's seed.
        width: How many numbers the model has.
        keys: What it encrypts with.
    """

    algorithm: Algorithm
    client: int
    sites: tuple[str, ...]
    seed: int
    width: int
    keys: RelayKeys

    def place(self, request: SiteRequest) -> Handover:
        """Where the site stands in a request, by its own plan."""
        if not request.round:
            raise Refused("its chain is in the plan, so that it trains in rounds only, and not before the first one")
        found = handover_of(self.algorithm, self.client, request.round, request.turn, self.seed)
        if found is None:
            raise RejectedMessage("it belongs to a chain, and the run of this site has none")
        return found

    def open(self, request: SiteRequest, message: Message, tensors: Mapping[str, Tensor]) -> Message:
        """The message with the model that the one before has sealed, in an open envelope; anything else is refused.

        Args:
            message: What the server sent.
            tensors: All tensors of the request, with the introductions of the neighbours in the chain.
        """
        place = self.place(request)
        wanted = "row" if place.previous is None else RELAY
        if message.shared or set(message.each) != {wanted}:
            start = "gets the server's model" if place.previous is None else "gets the sealed model of"
            whom = "" if place.previous is None else f" {self.sites[place.previous]}"
            raise Refused(f"it {start}{whom} in round {request.round}, and nothing else")
        if place.next is not None:
            self._key(place.next, NEXT, tensors)  # before it trains
        if place.previous is None:
            return message
        sender, about = self._key(place.previous, PREVIOUS, tensors), self._about(request, place, receives=True)
        text = unseal(to_bytes(message.each[RELAY]), about, self.keys.own, sender)
        if text is None:
            raise Refused(
                f"what it got was not sealed by {self.sites[place.previous]} for it, in this run, round and place"
            )
        if len(text) != 4 * self.width:
            raise Refused(f"the model that {self.sites[place.previous]} sealed has another size than its own")
        return Message({}, {RELAY: to_tensor(text + bytes(ROOM))[None]})

    def seal(
        self, request: SiteRequest, result: Mapping[str, Tensor], tensors: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        """What leaves the site: its model is sealed for the next one, unless the site is the end of its chain.

        Args:
            result: What the site has trained.
            tensors: All tensors of the request.
        """
        place = self.place(request)
        if place.next is None:
            return dict(result)
        text = to_bytes(result[f"{REPLY}{RELAY}"])[:-ROOM]
        receiver, about = self._key(place.next, NEXT, tensors), self._about(request, place, receives=False)
        return {**result, f"{REPLY}{RELAY}": to_tensor(seal(text, about, self.keys.own, receiver))[None]}

    def _key(self, client: int, name: str, tensors: Mapping[str, Tensor]) -> bytes:
        """The key of a neighbour, by an introduction that the authority stands behind."""
        key = self.keys.identify(client, to_bytes(tensors[name])) if name in tensors else None
        if key is None:
            raise Refused(f"it got no key of {self.sites[client]}, its neighbour in the chain, that is certified")
        return key

    def _about(self, request: SiteRequest, place: Handover, receives: bool) -> bytes:
        """What a sealed model belongs to: the run, which has the digest of its plan, the place, and both parties."""
        sender, receiver = (place.previous, self.client) if receives else (self.client, place.next)
        parties = [(client, self.sites[client]) for client in (sender, receiver) if client is not None]
        step = place.place - receives  # of the sender
        return json.dumps([request.run, request.round, place.chain, step, parties]).encode()
