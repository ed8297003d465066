"""What the things take that pricing.py counts, on two processors: benchmarks/steps.py fits and compares."""

import platform

# Seconds for each: of an x86-64 (Skylake) with vectors of four numbers in loops and eight in products, and of
# an arm64 (Neoverse N1) with vectors of two. Fitted to times of some 2,000 steps of Jacobians, most of them of
# a thousand points, and to whole calls of one point; rounded.
_RATES = {
    "step": (1e-9, 1.9e-9),
    "row": (4.2e-10, 8.8e-10),  # an innermost loop that is started
    # Vectors along the innermost loop.
    "load": (1e-10, 1.1e-10),
    "mask": (1e-10, 1.2e-10),  # of truths, a byte each
    "store": (6.5e-10, 3e-10),
    "store at hand": (5.6e-10, 2.7e-10),  # in an array that never leaves the first cache
    "masked": (3.4e-10, 0.0),  # more
    "operation": (8e-11, 1.75e-10),
    "factor": (8e-11, 1e-10),  # a product that is only added to something
    "waited": (4.5e-10, 5.5e-10),  # for one that it needs, along the longest chain of them
    "division": (1.8e-9, 3.1e-9),
    "function": (4.2e-9, 7e-9),
    # Single numbers: ends of rows, and rows that are shorter than a vector.
    "single load": (4.5e-11, 1.1e-10),
    "single mask": (4.5e-11, 1.2e-10),
    "single store": (1.2e-10, 3e-10),
    "single store at hand": (1.2e-10, 2.7e-10),
    "single operation": (4e-11, 1.75e-10),
    "single factor": (4e-11, 1e-10),
    "single division": (1.1e-9, 1.6e-9),
    "single function": (4e-9, 6e-9),
    # Numbers that do not lie side by side.
    "load apart": (1.3e-10, 1.4e-10),
    "load off pages": (1.6e-10, 1.4e-10),  # more, from an array of more pages than are remembered
    "load across pages": (0.0, 1e-9),  # more, where a row comes to many, and not all stays near
    "load from few sets": (0.0, 8.5e-10),  # more, of lines that push each other out of a cache
    "load far apart": (
        3.3e-10,
        1.6e-10,
    ),  # more, from lines that leave the cache before they are read on
    "load together": (1.15e-10, 8.4e-11),  # with those that lie between them
    "line loaded": (
        1.4e-10,
        1.8e-10,
    ),  # a line of the first cache, where arrays are larger than that
    "store apart": (1.7e-10, 1.75e-10),
    "store with gaps": (6e-10, 2.7e-10),  # where all that lies between would be turned in registers
    "store from columns": (
        2.2e-10,
        2.6e-10,
    ),  # more, of rows longer than what is turned in registers
    "line stored": (7e-10, 2.6e-10),
    "gather": (4.2e-10, 3.2e-10),
    "gather far apart": (2.3e-9, 2.5e-9),  # more, each from another line of a large array
    "scatter": (6.2e-10, 6.9e-10),
    "in turn": (1.1e-10, 1.05e-10),  # a number that is loaded or computed in a loop with a scatter
    "same place": (4e-9, 4.3e-9),  # as the number before: it waits for it
    # Sums.
    "total": (1.25e-9, 1e-9),  # of a vector's entries
    "row added": (3.3e-10, 3.5e-10),  # to one in memory
    "short sum": (9e-10, 9.7e-10),  # a number added to one in memory, in rows that are no vectors
    "running": (1.8e-10, 1.9e-10),  # a number of a scan, of lines side by side
    "waiting": (6.3e-10, 5.7e-10),  # the same along lines, each waiting for the one before
    "waiting far": (7e-10, 8.9e-10),  # more, for what comes from memory
    "cleared": (6e-10, 2e-10),  # a vector of zeros
    "cleared far": (1.7e-9, 5e-11),  # more, in one that leaves the cache before it is written into
    # Vectors of arrays that are together larger than the first cache, the second, or a share of the third.
    "near": (1.1e-10, 4e-11),
    "far": (2.2e-10, 1.3e-10),
    "farther": (1.9e-10, 1e-10),
    "written near": (1.2e-10, 6e-11),
    "written far": (4.2e-10, 0.0),
    "written farther": (4.3e-10, 0.0),
    # Products of matrices.
    "by tiles": (
        1.1e-7,
        1.1e-7,
    ),  # a product; its wide vectors wait for what narrow ones have just written
    "tile": (2.5e-8, 6.1e-9),
    "tile in part": (2e-8, 2e-8),  # more, whose columns do not fill vectors that have no masks
    "term of a tile": (1.08e-9, 5.1e-10),  # its sums wait for the term before
    "multiplied": (2.25e-10, 2.05e-10),  # a vector, in registers
    "packed": (1.3e-10, 5e-10),  # a number of a matrix that is put into panels
    "placed": (2e-9, 2.2e-9),  # a piece of an operand that is no matrix in memory, put into panels
    "by BLAS": (1.9e-7, 2.1e-7),
    "turned by BLAS": (
        9.5e-10,
        9.7e-10,
    ),  # more, an entry of a product whose second matrix lies in columns
    "narrow by BLAS": (1.3e-10, 2.2e-10),  # more, a term of a piece of few columns or rows
    "multiplied by BLAS": (2.7e-10, 2.45e-10),
}
IS_ARM = platform.machine() in ("aarch64", "arm64")
RATES = {what: seconds[IS_ARM] for what, seconds in _RATES.items()}
FIRST, SECOND, THIRD = 1 << 15, 1 << 21, 1 << 23  # bytes of caches
OWN = 1 << 20  # bytes that one core has for itself
WAYS, WAY = 4, 1 << 14  # of the first cache: in how many places a line may stand, and bytes of each
# Bytes of the pages whose addresses are at hand, and of those that a row may come to while all stays near.
PAGES, SPREAD = 5 << 17 if IS_ARM else 1 << 18, 1 << 18
TURNED = 0.1 if IS_ARM else 0.3  # of a sine or cosine whose other one is computed, too
# What a function takes of an exponential's time.
FUNCTIONS = {
    **dict.fromkeys(["exp2", "expm1", "exp", "sigmoid", "tanh"], 1.0),
    **dict.fromkeys(["sin", "cos"], 1.3),
    **dict.fromkeys(["log", "log1p"], 1.5),
    **dict.fromkeys(["cosh", "log2", "log10", "sinh"], 1.9),
    **dict.fromkeys(["arccos", "softplus", "log_sigmoid", "arctan", "arcsin"], 2.4),
    **dict.fromkeys(["erf", "cbrt", "tan"], 2.7),
    **dict.fromkeys(["arctanh", "arctan2", "erfc", "arccosh", "arcsinh"], 4.2),
    **dict.fromkeys(["power", "logaddexp"], 5.5),
}
