"""Choice of a replica by the beginning of a prompt.

Rendezvous hashing (Thaler and Ravishankar, 1996): every replica has a weight for a key, a hash of both, and the highest wins. If a
replica goes, only its own keys move. The load is bounded (Mirrokni, Thorup and Zadimoghaddam, "Consistent hashing with bounded loads",
2018): a replica with more than `1 + slack` times the mean of running requests is passed over, and the next best weight takes the
request, so that one popular prefix fills further replicas instead of a queue.
"""

import hashlib
import math

import numpy

# Bytes of one block of the key. leyden's cache has blocks of 64 tokens, about 256 bytes of English.
BLOCK_BYTES = 256


def prompt_text(body):
    """Returns the text of a request's prompt, as far as a prefix of it identifies it: roles and contents, or the prompt."""
    messages = body.get("messages")
    if isinstance(messages, list):
        parts = []
        for message in messages:
            if not isinstance(message, dict):
                continue
            content = message.get("content")
            if isinstance(content, list):
                content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
            parts.append(f"{message.get('role', '')}\n{content or ''}\n")
        return "".join(parts)
    prompt = body.get("prompt", body.get("input", ""))
    return prompt if isinstance(prompt, str) else str(prompt)


def prefix_key(text, blocks):
    """Returns the hash of the first `blocks` whole blocks of a text; of all of it where it is shorter than one."""
    data = text.encode("utf-8", "surrogatepass")
    length = min(len(data), blocks * BLOCK_BYTES)
    if length >= BLOCK_BYTES:
        length -= length % BLOCK_BYTES
    return hashlib.blake2b(data[:length], digest_size=8).digest()


class Ring:
    """Replicas and their running requests. Not safe for several threads.

    Weights of all replicas are computed at once by numpy: about 20 microseconds for 1,000 replicas.
    """

    def __init__(self, replicas, slack=0.5):
        if slack <= 0:
            raise ValueError(f"slack: {slack}; give more than 0")
        self.slack, self.total = slack, 0
        self._names, self._places = [], {}
        self._seeds, self._running = numpy.empty(0, "u8"), numpy.empty(0, "i8")
        for replica in replicas:
            self.add(replica)

    @property
    def running(self):
        """Running requests of each replica."""
        return dict(zip(self._names, self._running.tolist()))

    def add(self, replica):
        """Adds a replica."""
        if replica not in self._places:
            self._places[replica] = len(self._names)
            self._names.append(replica)
            seed = int.from_bytes(hashlib.blake2b(str(replica).encode(), digest_size=8).digest(), "big")
            self._seeds = numpy.append(self._seeds, numpy.uint64(seed))
            self._running = numpy.append(self._running, 0)

    def remove(self, replica):
        """Removes a replica. Its running requests are not counted any more."""
        place = self._places.pop(replica, None)
        if place is not None:
            self.total -= int(self._running[place])
            self._seeds, self._running = numpy.delete(self._seeds, place), numpy.delete(self._running, place)
            del self._names[place]
            self._places = {name: i for i, name in enumerate(self._names)}

    def order(self, key):
        """Returns all replicas, the best for the key first."""
        return [self._names[i] for i in numpy.argsort(~self._weights(key), kind="stable")]

    def choose(self, key):
        """Returns the replica for one more request with this key: the best that is below the bound. None without replicas."""
        if not self._names:
            return None
        bound = math.ceil((1 + self.slack) * (self.total + 1) / len(self._names))
        # The bound is above the mean, so at least one replica is below it.
        weights = numpy.where(self._running < bound, self._weights(key), 0)
        return self._names[int(weights.argmax())]

    def begin(self, replica):
        """Counts a request that begins."""
        self._running[self._places[replica]] += 1
        self.total += 1

    def end(self, replica):
        """Counts a request that has ended."""
        if (place := self._places.get(replica)) is not None and self._running[place] > 0:
            self._running[place] -= 1
            self.total -= 1

    def _weights(self, key):
        # The finaliser of splitmix64 (Steele, Lea and Flood, 2014) over key and replica. 0 is left for replicas above the bound.
        x = self._seeds ^ numpy.uint64(int.from_bytes(key, "big"))
        x = (x ^ (x >> 30)) * numpy.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> 27)) * numpy.uint64(0x94D049BB133111EB)
        return (x ^ (x >> 31)) | numpy.uint64(1)
