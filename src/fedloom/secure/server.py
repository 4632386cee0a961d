"""The server's half of a secure sum: it carries messages between clients, adds masked rows and removes the masks.

Each phase takes what clients answered and returns what each of them is sent next. A client whose message cannot be
right counts as one that dropped out, and ``refused`` says why. With too many of them the sum is ``Abandoned``: nothing
was learned, and the next one begins anew.

A secret that shares gave back is compared with what its client advertised, and each share against the digest that its
owner sent, so a wrong share is found and named, and the others are used. Whatever clients send, no phase ends in
another way than these two.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from fedloom.core.errors import Abandoned, FedloomError
from fedloom.secure import primitives, shamir
from fedloom.secure.identity import RoundKeys, read_advertisement
from fedloom.secure.masks import MaskAdder, pair_key, pair_sign, self_key
from fedloom.secure.messages import PARCEL, SHORT_DIGEST, check_length, enumerate_clients, short_digest
from fedloom.secure.quantise import Words
from fedloom.secure.sum_step import RefusedMessage
from fedloom.secure.terms import SumTerms


class SecureServer:
    """The server in one secure sum.

    Args:
        terms: The terms of the sum.
        roster: The public keys of all clients, by their numbers.
    """

    def __init__(self, terms: SumTerms, roster: Mapping[int, bytes]) -> None:
        self.terms = terms
        self.refused: dict[int, str] = {}
        self._roster = roster
        self._keys: dict[int, RoundKeys] = {}  # of the clients that advertised
        self._digests: dict[tuple[int, int], bytes] = {}  # of the shares of an owner for a holder
        self._peers: dict[int, list[int]] = {}  # of the clients that shared: the neighbours that did, too
        self._total: Words | None = None
        self._added: set[int] = set()

    def route_advertisements(self, advertisements: Mapping[int, bytes]) -> dict[int, dict[int, bytes]]:
        """For each client that advertised, what its neighbours did.

        Args:
            advertisements: What ``SecureClient.advertise`` answered, by clients' numbers.
        """
        for client, message in advertisements.items():
            try:
                self.terms.check_invited(client)
                self._keys[client] = self._read_keys(client, message)
            except RefusedMessage as error:
                self.refused[client] = str(error)
        self._check_quorum(self._keys, "advertised keys")
        return {
            client: {peer: advertisements[peer] for peer in self._among(client, self._keys)} for client in self._keys
        }

    def route_shares(self, shares: Mapping[int, Mapping[int, bytes]]) -> dict[int, dict[int, bytes]]:
        """For each client that shared, what its neighbours shared with it.

        Args:
            shares: What ``SecureClient.share`` answered, by clients' numbers.
        """
        whole = {}
        for owner, parcels in shares.items():
            try:
                whole[owner] = self._check_parcels(owner, parcels)
            except RefusedMessage as error:
                self.refused[owner] = str(error)
        self._check_quorum(whole, "shared their secrets")
        self._peers = {client: self._among(client, whole) for client in sorted(whole)}
        for owner, peers in self._peers.items():
            self._digests |= {(owner, holder): whole[owner][holder][: 2 * SHORT_DIGEST] for holder in peers}
        return {holder: {owner: whole[owner][holder] for owner in peers} for holder, peers in self._peers.items()}

    def add(self, client: int, row: Words) -> None:
        """Add a masked row to the sum. All rows have the form of the first.

        Args:
            row: What ``SecureClient.mask`` answered.
        """
        if client not in self._peers or client in self._added:
            self.refused[client] = f"client {client} sent a row that it was not asked for."
        elif self._total is None:
            self._total, self._added = row.copy(), {client}
        elif row.shape != self._total.shape or row.dtype != self._total.dtype:
            self.refused[client] = f"the row of client {client} is {row.dtype} of shape {row.shape}, unlike the others."
        else:
            self._total += row
            self._added.add(client)

    def survivors(self) -> list[int]:
        """The clients whose rows are in the sum: no row may be added any more."""
        self._check_quorum(self._added, "sent their rows")
        return sorted(self._added)

    def route_confirmations(self, confirmations: Mapping[int, Mapping[int, bytes]]) -> dict[int, dict[int, bytes]]:
        """For each client that confirmed the survivors, what its neighbours confirmed to it.

        Args:
            confirmations: What ``SecureClient.confirm`` answered, by clients' numbers.
        """
        whole = {}
        for sender, codes in confirmations.items():
            try:
                whole[sender] = self._check_codes(sender, codes)
            except RefusedMessage as error:
                self.refused[sender] = str(error)
        self._check_quorum(whole, "confirmed the survivors")
        return {client: {peer: whole[peer][client] for peer in self._among(client, whole)} for client in whole}

    def unmask(self, revealed: Mapping[int, Mapping[int, bytes]]) -> Words:
        """The sum of the survivors' rows, without masks.

        Args:
            revealed: What ``SecureClient.reveal`` answered, by clients' numbers.
        """
        by_owner: dict[int, dict[int, bytes]] = {client: {} for client in self._peers}
        holders = []
        for holder, shares in revealed.items():
            try:
                for owner, share in self._check_shares(holder, shares).items():
                    by_owner[owner][holder] = share
                holders.append(holder)
            except RefusedMessage as error:
                self.refused[holder] = str(error)
        self._check_quorum(holders, "revealed shares")
        if self._total is None:  # the quorum is at least two
            raise AssertionError("a sum without rows")
        total, about = self._total.copy(), self.terms.about
        adder = MaskAdder(len(total), total.dtype)
        for client, shares in by_owner.items():
            secret = self._combine(client, shares)
            if client in self._added:
                adder.add(total, self_key(secret, about, client), -1)
                continue
            key = primitives.ExchangeKey(secret)
            for peer in self._among(client, self._added):
                adder.add(total, pair_key(key, self._keys[peer].mask, about, client, peer), -pair_sign(peer, client))
        return total

    def _among(self, client: int, some: Collection[int]) -> list[int]:
        return [peer for peer in self.terms.neighbours(client) if peer in some]

    def _check_quorum(self, clients: Collection[int], have: str) -> None:
        if len(clients) < self.terms.quorum:
            gone = set(self.terms.invited) - set(clients)
            reasons = "".join(f"; {self.refused[client].rstrip('.')}" for client in sorted(self.refused)[:3])
            raise Abandoned(
                f"{len(clients)} of {len(self.terms.invited)} clients have {have}, and the secure sum needs "
                f"{self.terms.quorum} (missing: {enumerate_clients(gone)}{reasons})"
            )

    def _read_keys(self, client: int, message: bytes) -> RoundKeys:
        """What a client advertised; a key that its neighbours could not use would make them all drop out."""
        keys = read_advertisement(message, self.terms.about, client, self._roster)
        try:
            primitives.check_exchange_key(keys.cipher)
            primitives.check_exchange_key(keys.mask)
        except ValueError as error:
            raise RefusedMessage(f"client {client} advertised a wrong key: {error}.") from None
        return keys

    def _check_parcels(self, owner: int, parcels: Mapping[int, bytes]) -> Mapping[int, bytes]:
        """What a client shared, if it is one parcel for each of its neighbours that advertised."""
        if owner not in self._keys or set(parcels) != set(self._among(owner, self._keys)):
            raise RefusedMessage(f"client {owner} has not shared its secrets with all its neighbours.")
        for holder, parcel in parcels.items():
            check_length(parcel, PARCEL, f"what client {owner} shared with client {holder}")
        return parcels

    def _check_codes(self, sender: int, codes: Mapping[int, bytes]) -> Mapping[int, bytes]:
        """What a client confirmed, if it is one code for each of its neighbours among the survivors."""
        if sender not in self._added or set(codes) != set(self._among(sender, self._added)):
            raise RefusedMessage(f"client {sender} has not confirmed the survivors to its neighbours among them.")
        for receiver, code in codes.items():
            check_length(code, primitives.KEY, f"what client {sender} confirmed to client {receiver}")
        return codes

    def _check_shares(self, holder: int, shares: Mapping[int, bytes]) -> Mapping[int, bytes]:
        """What a client revealed, if it is one share of each neighbour that shared with it and its own."""
        if holder not in self._added or set(shares) != {holder, *self._peers[holder]}:
            raise RefusedMessage(f"client {holder} has not revealed a share of each of its neighbours.")
        for owner, share in shares.items():
            check_length(share, shamir.SHARE, f"the share of client {owner} that client {holder} revealed")
            if short_digest(share) != self._digest_of_share(owner, holder):
                raise RefusedMessage(f"client {holder} revealed a wrong share of client {owner}.")
        return shares

    def _digest_of_share(self, owner: int, holder: int) -> bytes:
        """What the owner of a secret sent about the share that a holder reveals."""
        if owner == holder:
            return self._keys[owner].own_share
        both = self._digests[owner, holder]
        return both[:SHORT_DIGEST] if owner in self._added else both[SHORT_DIGEST:]

    def _combine(self, client: int, shares: Mapping[int, bytes]) -> bytes:
        """The secret of a client: the seed of its own mask if it survived, and else the key of its pair masks."""
        if len(shares) < self.terms.threshold:
            raise Abandoned(
                f"{len(shares)} shares of client {client} were revealed, and {self.terms.threshold} are needed to "
                "open the secure sum"
            )
        keys = self._keys[client]
        try:
            secret = shamir.combine(shares, self.terms.threshold)
            right = (
                short_digest(secret) == keys.seed
                if client in self._added
                else primitives.ExchangeKey(secret).public == keys.mask
            )
        except (ValueError, FedloomError):  # the digests are right, so the client has made no shares
            right = False
        if not right:
            raise Abandoned(f"the shares that client {client} has made do not give its secret: leave this client out")
        return secret
