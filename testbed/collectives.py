# SPDX-License-Identifier: BSD-3-Clause
"""What each collective has to move between P hosts, for N bytes that a rank puts in (of a scatter: the root).

The fullest link is a receiver's. A multicast leaves its sender once and comes to every receiver. A reduction combines
in the hosts, so that P - 1 times N has to be received somewhere before a result is complete.
"""
from dataclasses import dataclass
from typing import Callable


@dataclass(frozen=True)
class Collective:
    link: Callable[[int], float] | None  # bytes that the fullest link receives, over N; None: nothing worth counting
    link_formula: str
    sent: Callable[[int], float]  # bytes that all hosts have to send, and to receive, over N
    received: Callable[[int], float]
    moved_formula: str  # of both together
    reduces: bool = False
    divides: bool = False  # N is of all ranks' blocks


COLLECTIVES = {
    "barrier": Collective(None, "", lambda p: 0, lambda p: 0, ""),
    "broadcast": Collective(lambda p: 1, "N", lambda p: 1, lambda p: p - 1, "P N"),
    "reduce": Collective(lambda p: 1, "N", lambda p: p - 1, lambda p: p - 1, "2 N (P-1)", reduces=True),
    "allreduce": Collective(lambda p: 2 * (p - 1) / p, "2 N (P-1)/P", lambda p: p, lambda p: 2 * (p - 1), "N (3 P - 2)",
                            reduces=True),
    "reduce-scatter": Collective(lambda p: (p - 1) / p, "N (P-1)/P", lambda p: p - 1, lambda p: p - 1, "2 N (P-1)",
                                 reduces=True, divides=True),
    "allgather": Collective(lambda p: p - 1, "N (P-1)", lambda p: p, lambda p: p * (p - 1), "P^2 N"),
    "gather": Collective(lambda p: p - 1, "N (P-1)", lambda p: p - 1, lambda p: p - 1, "2 N (P-1)"),
    "scatter": Collective(lambda p: (p - 1) / p, "N (P-1)/P", lambda p: (p - 1) / p, lambda p: (p - 1) / p,
                          "2 N (P-1)/P", divides=True),
}

# Those that both tutti and MPI have, with the bytes of an element.
TYPES = {"int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8, "fp32": 4,
         "fp64": 8}
OPERATIONS = ("sum", "product", "min", "max", "and", "or", "xor")


def least_bytes(collective, hosts, type_name):
    """The smallest size of which every rank has something: benches round down to whole elements."""
    of = COLLECTIVES[collective]
    return (TYPES[type_name] if of.reduces else 1) * (hosts if of.divides else 1)
