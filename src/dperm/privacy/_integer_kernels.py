"""Compiled integer arithmetic on uniform random words and bytes: nothing here rounds or overflows.

Proofs: docs/proofs/shards.md for ``shuffle``, docs/proofs/noise.md for the discrete Gaussian.
"""

import numpy as np

from dperm.compiling import compiled

U = np.uint64
ZERO, ONE, TWO, BYTE, HALF, LOW = U(0), U(1), U(2), U(8), U(32), U(0xFFFFFFFF)
REACH = 64  # scales that a discrete Gaussian reaches


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


# The discrete Gaussian, by Karney's method. ``digits`` is a stream of uniform bytes and ``at`` the next one to read. A
# draw that needs more than there are is void: ``at`` is then digits.size + 1, stays so, and every coin is false.


@compiled()
def coin(digits, at, a, b):
    """True with probability a/b, 0 <= a < b <= 2**56: a uniform number is compared with a/b, byte by byte."""
    rest = a
    while at < digits.size:
        rest <<= BYTE
        next_digit = rest // b
        digit = U(digits[at])
        at += 1
        if digit != next_digit:
            return digit < next_digit, at
        rest -= next_digit * b
        if rest == ZERO:
            return False, at
    return False, digits.size + 1


@compiled()
def coin_root_e(digits, at):
    """True with probability exp(-1/2)."""
    stage = ONE
    while True:
        passed, at = coin(digits, at, ONE, TWO * stage)
        if not passed:
            return at <= digits.size and (stage & ONE) == ONE, at
        stage += ONE


@compiled()
def coin_exp(digits, at, a, b):
    """True with probability exp(-a/b)."""
    stage = ONE
    while True:
        passed, at = coin(digits, at, a, b)
        if passed and stage > ONE:
            passed, at = coin(digits, at, ONE, stage)
        if not passed:
            return at <= digits.size and (stage & ONE) == ONE, at
        stage += ONE


@compiled()
def coin_exp_square(digits, at, a, b):
    """True with probability exp(-(a/b)**2 / 2)."""
    stage = ONE
    while True:
        passed, at = coin(digits, at, ONE, TWO * stage)
        if passed:
            passed, at = coin(digits, at, a, b)
        if passed:
            passed, at = coin(digits, at, a, b)
        if not passed:
            return at <= digits.size and (stage & ONE) == ONE, at
        stage += ONE


@compiled()
def below(digits, at, bound, width, mask):
    """Uniform in 0..bound-1: ``width`` bytes of which ``mask`` keeps the lowest bits, until they are below."""
    while at + width <= digits.size:
        found = ZERO
        for i in range(width):
            found = (found << BYTE) | U(digits[at + i])
        at += width
        found &= mask
        if found < bound:
            return found, at
    return ZERO, digits.size + 1


@compiled()
def one_gaussian(digits, at, scale, width, mask):
    """y with weight exp(-y**2 / (2 scale**2)), given that |y| < 64 scale <= 2**62."""
    end = digits.size
    while at < end:
        whole = 0
        going, at = coin_root_e(digits, at)
        while going:
            whole += 1
            going, at = coin_root_e(digits, at)
        kept = whole < REACH
        for _ in range(whole * (whole - 1)):
            if not kept:
                break
            kept, at = coin_root_e(digits, at)
        if not kept:
            continue
        part, at = below(digits, at, scale, width, mask)
        for _ in range(whole):
            if not kept:
                break
            kept, at = coin_exp(digits, at, part, scale)
        if kept:
            kept, at = coin_exp_square(digits, at, part, scale)
        if not kept:
            continue
        if at >= end:
            break
        negative = (digits[at] & 1) == 1
        at += 1
        if negative and whole == 0 and part == ZERO:
            continue
        y = np.int64(whole) * np.int64(scale) + np.int64(part)
        return (-y if negative else y), at
    return np.int64(0), end + 1


@compiled()
def fill_gaussians(out, done, last, each, columns, digits):
    """Draw until ``last`` or until a draw is void; ``each`` numbers in a row have the scale, the bytes
    and the mask of one of the columns.

    Returns how many are drawn and the first byte that none of them has read: the void draw begins there again.
    """
    at = 0
    while done < last:
        scale, width, mask = columns[done // each]
        y, after = one_gaussian(digits, at, scale, np.int64(width), mask)
        if after > digits.size:
            break
        out[done] = y
        done += 1
        at = after
    return done, at


# The exponential mechanism, by rejection.


@compiled()
def one_choice(digits, at, wholes, parts, scale, width, mask):
    """i with weight exp(-wholes[i] - parts[i] / scale), 0 <= parts[i] < scale <= 2**56, or -1 if the bytes end.

    Also returns the next byte to read: that of the proposal which the bytes did not suffice for, if they end.
    """
    bound = U(wholes.size)
    while True:
        begun = at
        place, at = below(digits, at, bound, width, mask)
        kept = at <= digits.size
        for _ in range(2 * wholes[place]):
            if not kept:
                break
            kept, at = coin_root_e(digits, at)
        if kept:
            kept, at = coin_exp(digits, at, parts[place], scale)
        if at > digits.size:
            return np.int64(-1), begun
        if kept:
            return np.int64(place), at
