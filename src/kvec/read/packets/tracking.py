"""The loop that puts each packet into its flow: a bounded memory of endpoints, oldest first to be forgotten."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kvec.read.packets.compiled import compiled
from kvec.read.packets.headers import TCP

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

FIN, SYN, RST, ACK = 1, 2, 4, 16
LOW, HALF = (1 << 63) - 1, (1 << 32) - 1
REASSEMBLY = 60_000_000_000  # ns that the first fragment of a datagram is waited for by the others
N_DATAGRAMS = 1 << 13  # whose first fragment is remembered

# columns of the memory, one row for each pair of endpoints
LAST, STARTED, FLOW, GENERATION, CLIENT, PHASE, OPENED_BY, ANSWERED_BY = range(8)
FIN_OF = 8  # and 9: what acknowledges the FIN of each endpoint; -1: none was seen
ACKED, BEFORE, AFTER, STAMP, LOCAL, HASH = range(10, 16)
REPLIED_OF, NEXT_OF = 16, 18  # and 17, 19: what each endpoint acknowledged last, and will send next; -1: not known
COLUMNS = 20
OPEN, OVER, CUT = range(3)  # phases of a flow; CUT: by the active timeout

# a few numbers that last from block to block
N_SLOTS, N_FLOWS, N_ENDED, NEWEST, OLDEST, BLOCK, N_FORGOTTEN, N_REPLACED = range(8)
NOW, SHIFT = 8, 9  # ns: the clock, and what it is ahead of the packets
COUNTS = 10
NO_FIRST, AFTER_END, HELD, ANEW = range(4)


@compiled
def in_order(times: Ints, idle: int, kept: Ints, ordered: Ints, counts: Ints) -> None:
    """The clock of a capture: held where packets step back a little, shifted where they step back by more than idle."""
    now, shift = int(kept[NOW]), int(kept[SHIFT])
    for i in range(len(times)):
        time = int(times[i])
        if time >= now - idle:
            shift = 0
        elif time > LOW - shift or time + shift < now - idle:
            shift = now - time
            counts[ANEW] += 1
        counts[HELD] += time + shift < now
        now = max(now, time + shift)
        ordered[i] = now
    kept[NOW], kept[SHIFT] = now, shift


@compiled
def hash_of(words: Ints, factors: Ints) -> int:
    """The high half of the sum of random factors times the halves of the words: two collide by chance alone."""
    mixed = 0
    for i in range(len(words)):
        word = int(words[i])
        mixed += int(factors[2 * i]) * (word & HALF) + int(factors[2 * i + 1]) * ((word >> 32) & HALF)
    return (mixed & LOW) >> 31


@compiled
def rebuild(table: npt.NDArray[np.int32], state: Ints, n: int) -> None:
    """Enter the first `n` rows of the memory into an empty table."""
    mask = len(table) - 1
    for slot in range(n):
        at = int(state[slot, HASH]) & mask
        while table[at] >= 0:
            at = (at + 1) & mask
        table[at] = slot


@compiled
def _find(table: npt.NDArray[np.int32], state: Ints, known: Ints, words: Ints, hashed: int) -> tuple[int, int]:
    """The row of endpoints, or -1, and where the table has or would have it."""
    mask = len(table) - 1
    at = hashed & mask
    while table[at] >= 0:
        slot = int(table[at])
        if state[slot, HASH] == hashed:
            is_same = True
            for i in range(len(words)):
                if known[slot, i] != words[i]:
                    is_same = False
                    break
            if is_same:
                return slot, at
        at = (at + 1) & mask
    return -1, at


@compiled
def _forget(table: npt.NDArray[np.int32], state: Ints, slot: int) -> None:
    """Take a row out of the table, and move those behind it up."""
    mask = len(table) - 1
    at = int(state[slot, HASH]) & mask
    while table[at] != slot:
        at = (at + 1) & mask
    hole, at = at, (at + 1) & mask
    while table[at] >= 0:
        home = int(state[table[at], HASH]) & mask
        if ((at - home) & mask) >= ((at - hole) & mask):
            table[hole] = table[at]
            hole = at
        at = (at + 1) & mask
    table[hole] = -1


@compiled
def _unlink(state: Ints, kept: Ints, slot: int) -> None:
    before, after = state[slot, BEFORE], state[slot, AFTER]
    if before >= 0:
        state[before, AFTER] = after
    else:
        kept[OLDEST] = after
    if after >= 0:
        state[after, BEFORE] = before
    else:
        kept[NEWEST] = before


@compiled
def _link_newest(state: Ints, kept: Ints, slot: int) -> None:
    newest = kept[NEWEST]
    state[slot, BEFORE], state[slot, AFTER] = newest, -1
    if newest >= 0:
        state[newest, AFTER] = slot
    else:
        kept[OLDEST] = slot
    kept[NEWEST] = slot


@compiled
def _begins(state: Ints, slot: int, time: int, is_tcp: bool, flags: int, sequence: int, idle: int) -> bool:
    """Whether a packet of known endpoints opens a new flow."""
    if time - state[slot, LAST] > idle or state[slot, PHASE] == CUT:
        return True
    if not is_tcp or not flags & SYN or flags & RST:
        return False
    if not flags & ACK:
        return bool(state[slot, OPENED_BY] != sequence)
    return bool(state[slot, PHASE] == OVER and state[slot, ANSWERED_BY] != sequence)


@compiled
def _resets(row: Ints, side: int, sequence: int) -> bool:
    """Whether a RST fits the connection; one that fits neither what was acknowledged nor what was sent was made up."""
    replied, following = row[REPLIED_OF + 1 - side], row[NEXT_OF + side]
    return bool(sequence == replied or sequence == following or (replied < 0 and following < 0))


@compiled
def track(
    times: Ints, problem: Bytes, endpoints: Ints, flipped: Flags, protocols: Bytes, bits: Bytes,
    payload: npt.NDArray[np.int32], sequence: npt.NDArray[np.uint32], acknowledged: npt.NDArray[np.uint32],
    fragment: Ints, is_later: Flags, idle: int, active: int, most: int, factors: Ints,
    table: npt.NDArray[np.int32], state: Ints, known: Ints, kept: Ints, datagrams: Ints, first_words: Ints,
    rows: Ints, locals_: npt.NDArray[np.int32], direction: Bytes, gaps: Ints, is_end: Flags, counts: Ints,
    local_words: Ints, local_as: Ints,
) -> tuple[int, int]:  # fmt: skip
    """Put the packets of a block into flows; returns how many items and how many flows the block has."""
    n = n_local = 0
    kept[BLOCK] += 1
    for i in range(len(times)):
        if problem[i]:
            continue
        time, words, is_flipped = int(times[i]), endpoints[i], flipped[i]
        if fragment[i] != 0:
            at = int(fragment[i]) & (N_DATAGRAMS - 1)
            if not is_later[i]:
                datagrams[at, 0], datagrams[at, 1], datagrams[at, 2] = fragment[i], time, is_flipped
                first_words[at] = words
            elif datagrams[at, 0] == fragment[i] and abs(time - datagrams[at, 1]) <= REASSEMBLY:
                words, is_flipped = first_words[at], datagrams[at, 2] != 0
            else:
                counts[NO_FIRST] += 1
                continue
        is_tcp = protocols[i] == TCP and not is_later[i]
        flags, sent, replied = int(np.int64(bits[i])), int(np.int64(sequence[i])), int(np.int64(acknowledged[i]))
        side = 1 if is_flipped else 0
        hashed = hash_of(words, factors)
        slot, at = _find(table, state, known, words, hashed)
        if slot < 0:
            # endpoints that may have been forgotten never get a number twice
            generation = int(kept[N_FLOWS]) if kept[N_REPLACED] else 0
            if kept[N_SLOTS] < most:
                slot = int(kept[N_SLOTS])
                kept[N_SLOTS] += 1
            else:
                slot = int(kept[OLDEST])
                kept[N_FORGOTTEN] += state[slot, PHASE] == OPEN and time - state[slot, LAST] <= idle
                kept[N_REPLACED] += 1
                _forget(table, state, slot)
                _unlink(state, kept, slot)
                _, at = _find(table, state, known, words, hashed)
            table[at] = slot
            known[slot] = words
            state[slot, HASH], state[slot, GENERATION], state[slot, PHASE] = hashed, generation, OVER
            is_new, was_cut = True, False
        else:
            _unlink(state, kept, slot)
            is_new = _begins(state, slot, time, is_tcp, flags, sent, idle)
            was_cut = is_new and state[slot, PHASE] == CUT and time - state[slot, LAST] <= idle
        _link_newest(state, kept, slot)
        row = state[slot]
        if is_new:
            if not was_cut or (is_tcp and flags & SYN):
                row[CLIENT] = 1 - side if is_tcp and flags & SYN and flags & ACK else side
            row[FLOW], row[STARTED], row[PHASE], row[ACKED] = kept[N_FLOWS], time, OPEN, 0
            row[GENERATION] += 1
            row[OPENED_BY] = row[ANSWERED_BY] = row[FIN_OF] = row[FIN_OF + 1] = -1
            row[REPLIED_OF] = row[REPLIED_OF + 1] = row[NEXT_OF] = row[NEXT_OF + 1] = row[STAMP] = -1
            kept[N_FLOWS] += 1
            gap = 0
        elif row[PHASE] == OVER:
            counts[AFTER_END] += 1
            row[LAST] = time
            continue
        else:
            gap = max(time - row[LAST], 0)
        if row[STAMP] != kept[BLOCK]:
            row[STAMP], row[LOCAL] = kept[BLOCK], n_local
            local_words[n_local] = known[slot]
            local_as[n_local, 0], local_as[n_local, 1], local_as[n_local, 2] = row[GENERATION], row[CLIENT], row[FLOW]
            n_local += 1
        row[LAST] = time
        ends = False
        if is_tcp and flags & RST:
            ends = _resets(row, side, sent)
        elif is_tcp:
            following = (sent + int(payload[i]) + (flags & SYN != 0) + (flags & FIN != 0)) & HALF
            row[NEXT_OF + side] = following
            if flags & ACK:
                row[REPLIED_OF + side] = replied
            if flags & SYN and flags & ACK:
                row[ANSWERED_BY] = sent
                if row[OPENED_BY] < 0:  # the SYN comes later, or never
                    row[OPENED_BY] = (replied - 1) & HALF
            elif flags & SYN:
                row[OPENED_BY] = sent
            if flags & FIN:
                row[FIN_OF + side] = following
            other = row[FIN_OF + 1 - side]
            if flags & ACK and other >= 0 and replied == other:
                row[ACKED] |= 1 << side
            ends = bool(row[ACKED] == 3)
        if ends:
            row[PHASE] = OVER
        elif active >= 0 and time - row[STARTED] >= active:
            ends = True
            row[PHASE] = CUT
        kept[N_ENDED] += ends
        rows[n], locals_[n], gaps[n], is_end[n] = i, row[LOCAL], gap, ends
        direction[n] = 1 if row[CLIENT] != side else 0
        n += 1
    return n, n_local
