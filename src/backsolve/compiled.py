"""bs.jit: a function, specialised on the types of its arguments, as one native function."""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import tree
from .api import jvp, vjp
from .backends.native.compile import Native, compile_program
from .backends.native.schedule import Unsupported
from .errors import StaticArgumentError
from .frontend import rewritten
from .ir import Program, Type, type_of
from .joint import record_joint
from .operators import Custom
from .primitive import coerce, hooks, wrap
from .rewrite import rewrite, rewrite_for_machines
from .rewrite.stable import recognise
from .row import ancestors, next_index
from .tensor import Staged, Tensor
from .trace import evaluate, stage

_PYTHON = (float, int, bool, complex)


@dataclass(eq=False)
class Specialised:
    """A function for one set of types: its Program, and the native code if all of it has some."""

    recorded: Program  # to be shown: its constants hold nothing
    program: Program
    out_structure: tree.Structure
    native: Native | None
    reason: str = ""  # why there is no native code
    donated: tuple[int, ...] = ()  # leaves whose memory results may take
    freedoms: tuple[bool, bool] = (False, False)  # fastmath, unsafe
    has_own_derivative: bool = False  # a stop_gradient or a Function stands in it
    derivatives: dict[str, Specialised] = field(default_factory=dict)

    @functools.cached_property
    def outputs(self) -> list[Type]:
        return [type_of(a) for a in self.program.outputs]

    def run(self, leaves: Sequence[Any]) -> list[Any]:
        """Raw results for raw leaves of the compiled types."""
        if self.native is not None:
            result = self.native.call(*leaves)
            if result is NotImplemented:  # strided, unaligned, or a NumPy scalar
                arrays = [
                    a if type(a) in (float, complex) else np.array(a, order="C") for a in leaves
                ]
                result = self.native.call(*arrays)
            if result is not NotImplemented:
                return [result] if len(self.outputs) == 1 else list(result)
        raw = [y._v if isinstance(y, Tensor) else y for y in evaluate(self.program, leaves)]
        return [y[()] if isinstance(y, np.ndarray) else y for y in raw]

    def run_on_copies(self, leaves: Sequence[Any]) -> list[Any]:
        """The same for a caller who goes on using donated leaves."""
        own = [
            x.copy() if k in self.donated and isinstance(x, np.ndarray) else x
            for k, x in enumerate(leaves)
        ]
        return self.run(own)


class Jitted:
    """What `bs.jit` returns. `lower(*args)` shows the stages, `stats()` tells what was built."""

    def __init__(
        self,
        f: Callable[..., Any],
        static_argnums: int | Sequence[int],
        backend: str,
        donate: int | Sequence[int] = (),
        fastmath: bool = False,
        unsafe: bool = False,
    ):
        functools.update_wrapper(self, f)
        self._f = f
        self._static = _places("static_argnums", static_argnums)
        self._donate = _places("donate", donate)
        if self._static & self._donate:
            raise ValueError(
                f"an argument is static or donated, not both: {sorted(self._static & self._donate)}"
            )
        self._backend, self._freedoms = backend, (fastmath, unsafe)
        self._known: dict[Any, Specialised | None] = {}
        self._lock = threading.Lock()
        self._fast: Callable[..., Any] | None = None  # the entry of the latest flat specialisation
        self._hits = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if hooks.runs_as_written:
            return self._as_written(args, kwargs)
        if self._fast is not None and not kwargs:
            result = self._fast(*args)
            if result is not NotImplemented:
                return result
        return self._call(args, kwargs)

    def _as_written(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Without compiling, but on Tensors: NumPy's own arrays nobody could watch."""
        leaves, rebuild, *_ = self._flatten(args, kwargs)
        tensors = any(isinstance(x, Tensor) for x in leaves)
        given, named = rebuild([x if isinstance(x, Tensor) else wrap(x, None) for x in leaves])
        result = self._f(*given, **named)
        return result if tensors else tree.map(_raw, result)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        leaves, rebuild, key, donated = self._flatten(args, kwargs)
        tensors = any(isinstance(x, Tensor) for x in leaves)
        if tensors and any(isinstance(x, Staged) for x in leaves):
            return self._rewritten()(*args, **kwargs)
        special = self._specialise(rebuild, key, donated)
        if special is None:
            return self._f(*args, **kwargs)
        if tensors and any(isinstance(x, Tensor) and x.row is not None for x in leaves):
            if (
                special.has_own_derivative
            ):  # the Program does not know of it: differentiate f itself
                return self._f(*args, **kwargs)
            return special.out_structure.unflatten(_differentiable(special, leaves))
        if tensors:  # what a Tensor holds, rows may need later: it is not given away
            results = special.run_on_copies([_raw(x) for x in leaves])
            results = [wrap(y, None) for y in results]
        else:
            results = special.run(leaves)
            if self._is_flat(args, kwargs, special):
                self._fast = special.native.call  # type: ignore[union-attr]
        return special.out_structure.unflatten(results)

    def _is_flat(self, args: tuple[Any, ...], kwargs: Any, special: Specialised) -> bool:
        """Whether arguments go to the entry, and its results to the caller, as they are."""
        out = special.out_structure
        plain = out.kind is tree.LEAF or (
            out.kind is tuple
            and len(out.children) > 1
            and all(c.kind is tree.LEAF for c in out.children)
        )
        arrays = all(type(a) in (np.ndarray, float, complex) for a in args)
        return special.native is not None and plain and arrays and not kwargs and not self._static

    def _flatten(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[Any], Any, Any, Any]:
        """The leaves, how to put them back, the key of their specialisation, and who is donated."""
        count = len(args)
        static = {k % count: args[k] for k in self._static if -count <= k < count}
        dynamic = [a for k, a in enumerate(args) if k not in static]
        leaves, structure = tree.flatten((dynamic, kwargs))
        fixed = {k: x for k, x in enumerate(leaves) if not _is_number(x)}
        for x in fixed.values():
            if not (tree.is_immutable(x) or type(x) is int):
                raise StaticArgumentError(
                    f"`jit` cannot look into an argument of type {type(x).__name__}: pass numbers, arrays, "
                    "dicts, lists, tuples or dataclasses; or declare it static (static_argnums=…), and "
                    "what it holds is captured at the first call"
                )
        numbers = [x for k, x in enumerate(leaves) if k not in fixed]
        types = tuple(
            [
                type_of(x) if type(x) in _PYTHON else Type(np.shape(_raw(x)), x.dtype)
                for x in numbers
            ]
        )
        values = [*static.items(), *fixed.items()]
        key = (structure, types, tuple([(k, _exactly(v)) for k, v in values]))
        try:
            hash(key)
        except TypeError:
            raise StaticArgumentError(
                f"static arguments of a jitted function must be hashable, got {dict(values)!r}; "
                "pass arrays as ordinary arguments, and tuples instead of lists"
            ) from None

        def rebuild(values: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
            rest = iter(values)
            full = [fixed[k] if k in fixed else next(rest) for k in range(len(leaves))]
            inner, named = structure.unflatten(full)
            given = iter(inner)
            total = len(inner) + len(static)
            return [static[k] if k in static else next(given) for k in range(total)], named

        def donated() -> tuple[int, ...]:
            """Among the numbers."""
            given = {k % count for k in self._donate if -count <= k < count}
            owners = [k for k in range(count) if k not in static]
            sizes = [child.size for child in structure.children[0].children]
            owner = [k for k, n in zip(owners, sizes, strict=True) for _ in range(n)]
            kept = [k for k in range(len(leaves)) if k not in fixed]
            return tuple(at for at, k in enumerate(kept) if k < len(owner) and owner[k] in given)

        return numbers, rebuild, key, donated

    def _specialise(self, rebuild: Any, key: Any, donated: Any) -> Specialised | None:
        """The compiled form for these types; None if the function closes over something that varies."""
        found = self._known.get(key, self)
        if found is not self:
            self._hits += 1
            return found  # type: ignore[return-value]
        # Traced and compiled without the lock: the function may call itself, or another jitted one.
        f = self._rewritten()
        made = _build(f, rebuild, key[1], self._backend, donated(), self._freedoms)
        if made is not None:
            with self._lock:
                made = self._known.setdefault(key, made)
        return made

    def _rewritten(self) -> Callable[..., Any]:
        unsafe = self._freedoms[1]
        return rewritten(self._f, asserts=not unsafe)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The stages of compilation for these arguments."""
        special = self._specialise(*self._flatten(args, kwargs)[1:])
        if special is None:
            raise TypeError(
                "this function closes over a value that an enclosing transformation varies"
            )
        stages = {
            "program": lambda: str(special.recorded),
            "rewritten": lambda: str(special.program),
            **(special.native.stages if special.native is not None else {}),
        }
        return Lowered(Stages(stages), special.reason)

    def stats(self) -> dict[str, Any]:
        """What was compiled so far: one entry per set of types, and how often one was found again."""
        made = [s for s in self._known.values() if s is not None]
        return {
            "specialisations": [
                {
                    "native": s.native is not None,
                    "reason": s.reason,
                    **(s.native.stats if s.native else {}),
                }
                for s in made
            ],
            "cache_hits": self._hits,
            "disk_cache_hits": sum(
                s.native is not None and s.native.stats["code"] == "disk" for s in made
            ),
        }


class Stages(Mapping[str, str]):
    """Texts by name, each made when it is first asked for."""

    def __init__(self, makers: Mapping[str, Callable[[], str]]):
        self._makers = makers
        self._made: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


@dataclass(frozen=True)
class Lowered:
    """Text of each stage: `.stages["program" | "rewritten" | "steps" | "llvm" | "assembly"]`."""

    stages: Stages
    reason: str = ""

    def __str__(self) -> str:
        shown = ("program", "rewritten", "steps")
        return "\n\n".join(
            f"# {name}\n{self.stages[name]}" for name in shown if name in self.stages
        )


def jit(
    f: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Sequence[int] = (),
    donate: int | Sequence[int] = (),
    backend: str = "native",
    fastmath: bool = False,
    unsafe: bool = False,
) -> Any:
    """Compile a function on its first call with each set of types; as a decorator or a call.

    Arrays in, arrays out. A Program with an equation that has no native form yet runs on the NumPy
    backend; `stats()` says so and names it. What the function closes over is captured at that call.

    An argument at `donate` gives its arrays away: a result of the same type is computed in that memory
    and is that very array, so that `params = step(params, batch)` allocates nothing. Arrays that cannot be
    written, are strided, or share memory with another argument are copied instead; so is what a Tensor
    holds. If a run fails half-way, donated arrays may hold anything.

    With `fastmath`, arithmetic may be reordered and NaN, infinities and the sign of zero are not kept up.
    With `unsafe`, indices are not looked at: one that is out of range reads or writes foreign memory; and
    assertions about values are taken to hold.

    >>> import numpy as np, backsolve as bs
    >>> @bs.jit
    ... def loss(x):
    ...     return np.sum(np.sin(x) * x)
    >>> bs.jit(bs.grad(loss))(np.array([0.0, 1.0]))
    array([0.        , 1.38177329])
    """
    if backend not in ("native", "numpy"):
        raise ValueError(f'backend must be "native" or "numpy", got {backend!r}')
    if f is None:
        return lambda g: Jitted(g, static_argnums, backend, donate, fastmath, unsafe)
    return Jitted(f, static_argnums, backend, donate, fastmath, unsafe)


def _places(what: str, given: Any) -> set[int]:
    many = [given] if isinstance(given, int) else given
    if not isinstance(many, Sequence | set | frozenset) or any(type(k) is not int for k in many):
        raise TypeError(f"`{what}` takes the places of arguments, 0 or (0, 2), got {given!r}")
    return set(many)


def _is_number(x: Any) -> bool:
    if type(x) is int:
        return -(2**31) <= x < 2**31  # larger ones are constants: NumPy decides what they fit into
    if type(x) in _PYTHON or isinstance(x, Tensor | np.generic):
        return True
    return isinstance(x, np.ndarray) and coerce(x) is not None  # refuses matrices and masked arrays


def _exactly(v: Any) -> Any:
    """A static value as a key: 2, 2.0 and True differ, and so do 0.0 and −0.0."""
    if isinstance(v, tuple):
        return (type(v), *[_exactly(x) for x in v])
    if isinstance(v, frozenset):
        return (frozenset, frozenset(_exactly(x) for x in v))
    if dataclasses.is_dataclass(v) and not isinstance(v, type):
        fields = [_exactly(getattr(v, f.name)) for f in dataclasses.fields(v)]
        return (type(v), v, *fields)
    return type(v), repr(v) if isinstance(v, float | complex) else v


def _raw(x: Any) -> Any:
    return x._v if isinstance(x, Tensor) else x


def _build(
    f: Any,
    rebuild: Any,
    types: Sequence[Type],
    backend: str,
    donated: tuple[int, ...] = (),
    freedoms: tuple[bool, bool] = (False, False),
) -> Specialised | None:
    structures: list[tree.Structure] = []
    recorders: list[Any] = []

    def flat(*staged: Any) -> list[Any]:
        recorders.extend(x._v.recorder for x in staged[:1])
        args, kwargs = rebuild(staged)
        outputs, structure = tree.flatten(f(*args, **kwargs))
        structures.append(structure)
        return outputs

    start = next_index()
    recorded, _ = stage(flat, types, recognise=recognise)
    if any(isinstance(c, Tensor) and _varies(c, start) for _, c in recorded.constants):
        return None
    # A constant may still carry a row of the function itself, which differentiated at a plain array.
    constants = tuple(
        [(v, wrap(c._v, None) if isinstance(c, Tensor) else c) for v, c in recorded.constants]
    )
    recorded = Program(recorded.inputs, constants, recorded.equations, recorded.outputs)
    program = rewrite(recorded)
    nothing = [(v, np.broadcast_to(np.zeros((), v.dtype), v.shape)) for v, _ in recorded.constants]
    shown = Program(recorded.inputs, tuple(nothing), recorded.equations, recorded.outputs)
    native, reason = None, 'backend="numpy"'
    if backend == "native":
        try:
            machine = rewrite_for_machines(program)
            native, reason = compile_program(machine, donated, *freedoms), ""
        except Unsupported as missing:
            reason = f"`{missing}` has no native form yet"
    own = any(x.has_own_derivative for x in recorders)
    return Specialised(shown, program, structures[0], native, reason, donated, freedoms, own)


def _varies(c: Tensor, start: int) -> bool:
    """Whether somebody outside of the staging that began at index `start` varies this value."""
    if isinstance(c, Staged):
        return True
    return c.row is not None and (c.row.index < start or ancestors([c.row], start)[1])


# ---- differentiating through compiled code


def _differentiable(special: Specialised, leaves: Sequence[Any]) -> list[Any]:
    """Run the native code forward, as one joint row whose block is compiled when it is first needed."""
    raw = [x._v if isinstance(x, Tensor) else x for x in leaves]
    places = [k for k, x in enumerate(leaves) if isinstance(x, Tensor) and x.row is not None]
    results = special.run_on_copies(raw)

    def restricted(*varying: Any) -> list[Any]:
        full = list(raw)
        for k, v in zip(places, varying, strict=True):
            full[k] = v
        return evaluate(special.program, full)

    def operator_of(values: Sequence[Any], record: bool) -> Custom:
        values = list(values)

        def push(ts: Sequence[Any]) -> tuple[Any, ...]:
            seeds = [
                np.zeros(np.shape(_raw(v))) if t is None else t
                for v, t in zip(values, ts, strict=True)
            ]
            if record or any(isinstance(t, Tensor) for t in seeds):
                return tuple(jvp(restricted, values, seeds)[1])
            return run(_compiled_push, seeds)

        def pull(cts: Sequence[Any]) -> tuple[Any, ...]:
            seeds = [
                np.zeros(t.shape, t.dtype) if c is None else c
                for c, t in zip(cts, special.outputs, strict=True)
            ]
            if record or any(isinstance(c, Tensor) for c in seeds):
                return tuple(vjp(restricted, *values)[1](seeds))
            return run(_compiled_pull, seeds)

        def run(derivative: Any, seeds: list[Any]) -> tuple[Any, ...]:
            full = list(raw)
            for k, v in zip(places, values, strict=True):
                full[k] = v
            results = derivative(special, tuple(places)).run([*full, *seeds])
            return tuple([coerce(y) for y in results])

        return Custom(push, pull, name="compiled")

    rows = [leaves[k].row for k in places]
    return record_joint("compiled", operator_of, [raw[k] for k in places], rows, results)


def _compiled_push(special: Specialised, places: tuple[int, ...]) -> Specialised:
    """(inputs, differentials of the inputs at `places`) ↦ differentials of the outputs, compiled once."""
    inputs = [v.type for v in special.program.inputs]

    def push(f: Any, values: Sequence[Any], seeds: Sequence[Any]) -> Any:
        return jvp(f, values, seeds)[1]

    return _compiled(special, "push", push, places, [inputs[k] for k in places])


def _compiled_pull(special: Specialised, places: tuple[int, ...]) -> Specialised:
    """(inputs, adjoints of the outputs) ↦ adjoints of the inputs at `places`, compiled once."""

    def pull(f: Any, values: Sequence[Any], seeds: Sequence[Any]) -> Any:
        return vjp(f, *values)[1](seeds)

    return _compiled(special, "pull", pull, places, special.outputs)


def _compiled(
    special: Specialised, name: str, derivative: Any, places: tuple[int, ...], seeds: Sequence[Type]
) -> Specialised:
    key = f"{name} {places}"
    if key not in special.derivatives:
        program = special.program
        inputs = [v.type for v in program.inputs]

        def together(values: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
            return [values], {}

        def body(values: Sequence[Any]) -> list[Any]:
            xs, given = list(values[: len(inputs)]), list(values[len(inputs) :])

            def restricted(*varying: Any) -> list[Any]:
                for k, v in zip(places, varying, strict=True):
                    xs[k] = v
                return evaluate(program, xs)

            return list(derivative(restricted, [xs[k] for k in places], given))

        types = [*inputs, *[Type(t.shape, t.dtype) for t in seeds]]
        made = _build(body, together, types, "native", freedoms=special.freedoms)
        assert made is not None
        special.derivatives[key] = made
    return special.derivatives[key]
