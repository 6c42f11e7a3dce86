"""Compiled integer arithmetic on uniform random digits. Nothing here rounds, and no random digit is thrown away unread.

See docs/proofs/shards.md for ``shuffle``.
"""

import numpy as np

from dperm.compiling import compiled

U = np.uint64
HALF, LOW = U(32), U(0xFFFFFFFF)


@compiled()
def shuffle(items, first, words):
    """Fisher and Yates from place ``first`` downwards, a 32-bit word for each attempt; returns the place reached.

    A place is chosen by Lemire's method: the high half of word * bound, again if the low half is among the first
    2**32 mod bound, so that every place has as many words. Done when 0 is returned.
    """
    place = first
    for word in words:
        if place == 0:
            break
        bound = U(place + 1)
        product = U(word) * bound
        low = product & LOW
        if low < bound and low < (U(1) << HALF) % bound:
            continue
        other = product >> HALF
        items[place], items[other] = items[other], items[place]
        place -= 1
    return place
