"""bs.jit: a function, specialised on the types of its arguments, as one native function."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from .. import tree
from ..backends.target import NATIVE, Target
from ..errors import BacksolveError, TracedValueError, location_of
from ..frontend import rewritten
from ..hooks import hooks
from ..module_state import Cells, refuse
from ..primitive import wrap
from ..solve import eager_budget
from ..tensor import Staged, Tensor
from .arguments import Arguments, names_of, raw
from .defaults import default_target, of_default
from .derivative import run_differentiable
from .entrance import entrance
from .specialise import Specialised, recognising, seconds_of, specialise
from .state import Stateful, with_state
from .timed import seconds_as_compiled

_as_written = hooks.as_written

_MOST_ENTRANCES = 8  # forms of arguments that are looked for before the general way


class Jitted:
    """What `bs.jit` returns. `lower(*args)` shows the stages, `stats()` tells what was built."""

    def __init__(
        self,
        f: Callable[..., Any],
        static_argnums: int | Sequence[int],
        target: Target | str | None,
        donate: int | Sequence[int] = (),
        fastmath: bool = False,
        unsafe: bool = False,
    ):
        if not callable(f):
            raise TypeError(f"`jit` compiles a function, got {f!r}")
        if inspect.iscoroutinefunction(f) or inspect.isgeneratorfunction(f):
            raise TypeError(
                f"`jit` compiles functions that return numbers and arrays; `{f.__name__}` is a generator or a "
                "coroutine: compile what it computes, as a function that it calls"
            )
        functools.update_wrapper(self, f)
        self._f = f
        self._static = _places("static_argnums", static_argnums)
        self._donate = _places("donate", donate)
        if self._static & self._donate:
            raise ValueError(
                f"an argument is static or donated, not both: {sorted(self._static & self._donate)}"
            )
        self._static_names = names_of(f, self._static)
        self._donate_names = names_of(f, self._donate)
        self._target = Target(target) if isinstance(target, str) else target
        if target is None:
            of_default.add(self)
        self._freedoms = fastmath, unsafe
        self._known: dict[Any, Specialised | None] = {}
        self._lock = threading.Lock()
        self._fast: Callable[..., Any] | None = None  # the native entry of the latest flat call
        self._entrances: dict[Any, Callable[..., Any] | None] = {}
        self._hits = 0
        self._stateful: Stateful | None = None  # once it has changed state that it closes over

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _as_written.is_set and _as_written.value:
            return self._as_written(args, kwargs)
        if self._fast is not None and not kwargs:
            result = self._fast(*args)
            if result is not NotImplemented:
                return result
        for enter in tuple(self._entrances.values()):
            result = enter and enter(args, kwargs)
            if enter is not None and result is not NotImplemented:
                return result
        return self._call(args, kwargs)

    def _as_written(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Without compiling, but on Tensors: NumPy's own arrays nobody could watch."""
        given = self._arguments(args, kwargs)
        tensors = any(isinstance(x, Tensor) for x in given.numbers)
        staged = [x if isinstance(x, Tensor) else wrap(x, None) for x in given.numbers]
        varied, named = given.rebuild(staged)
        result = hooks.users(self._f)(*varied, **named)
        return result if tensors else tree.map(raw, result)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else Bound(self, instance)

    def __reduce__(self) -> Any:
        """What a module knows by name is found there again; else it is compiled anew."""
        module, name = getattr(self, "__module__", ""), getattr(self, "__qualname__", "")
        found: Any = sys.modules.get(module)
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is self:
            return name
        places = tuple(self._static), tuple(self._donate)
        return Jitted, (self._f, places[0], self._target, places[1], *self._freedoms)

    @property
    def target(self) -> Target:
        return self._target or default_target()

    def forget(self) -> None:
        """Compile anew: what it is made for has changed."""
        with self._lock:
            self._known, self._fast, self._entrances, self._stateful = {}, None, {}, None

    def _arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        on_device = self.target.backend == "xla"
        given = Arguments(args, kwargs, self._static, self._static_names, on_device)
        if not on_device:
            given.turn(self._donated(given))
        return given

    def _donated(self, given: Arguments) -> tuple[int, ...]:
        return given.donated(self._donate, self._donate_names) if self._donate else ()

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._stateful is not None:
            return self._stateful(*args, **kwargs)
        given = self._arguments(args, kwargs)
        leaves = given.numbers
        tensors = any(isinstance(x, Tensor) for x in leaves)
        if tensors and any(isinstance(x, Staged) for x in leaves):
            with recognising(leaves):
                return self._rewritten()(*args, **kwargs)
        special = self._specialise(given)
        if special is None:
            return self._f(*args, **kwargs)
        if special.changed:
            return self._taking_out(special.changed)(*args, **kwargs)
        if tensors and any(isinstance(x, Tensor) and x.row is not None for x in leaves):
            if (
                special.has_own_derivative
            ):  # its Program does not know of it: differentiate f itself
                return self._f(*args, **kwargs)
            found = run_differentiable(special, leaves, eager_budget())
            return special.out_structure.unflatten(found)
        if tensors:  # what a Tensor holds, rows may need later: it is not given away
            results = special.run_on_copies([raw(x) for x in leaves])
            results = [wrap(y, None) for y in results]
        else:
            results = special.run(leaves)
            self._remember(args, kwargs, given, special)
        return special.out_structure.unflatten(results)

    def _remember(self, args: Any, kwargs: Any, given: Arguments, special: Specialised) -> None:
        """Let the next call of this form go straight to the native code."""
        if special.code is None or given.turned:
            return
        out = special.out_structure
        plain = out.kind is tree.LEAF or (
            out.kind is tuple
            and len(out.children) > 1
            and all(c.kind is tree.LEAF for c in out.children)
        )
        bare = given.structure.children[0].children
        arrays = all(child.kind is tree.LEAF for child in bare)
        if plain and arrays and not given.fixed and not kwargs and not self._static:
            self._fast = special.code.call
        if given.key not in self._entrances and len(self._entrances) < _MOST_ENTRANCES:
            self._entrances[given.key] = entrance(given, out, special.code.call)

    def _specialise(self, given: Arguments) -> Specialised | None:
        """The compiled form for these types; None if the function closes over something that varies."""
        try:
            found = self._known[given.key]
        except KeyError:
            pass
        else:
            self._hits += 1
            return found
        given.check_places(self._f, "static_argnums", self._static)
        given.check_places(self._f, "donate", self._donate)
        # Traced and compiled without the lock: the function may call itself, or another jitted one.
        donated = self._donated(given)
        f = self._rewritten()
        try:
            names = given.names(self._f) if self.target.placement is not None else None
            made = specialise(
                f, given.rebuild, given.types, self.target, donated, self._freedoms, names
            )
        except TypeError as error:
            theirs = not isinstance(error, BacksolveError)
            if not (theirs and any(name in str(error) for name in ("Tensor(staged", "not Staged"))):
                raise
            raise TracedValueError(
                f"a function that is not staged got a value of which only the type is known: {error}. Declare "
                "an argument that is a length, a shape or a flag static: bs.jit(f, static_argnums=…)",
                at=location_of(error),
            ) from error
        if made is not None:
            with self._lock:
                made = self._known.setdefault(given.key, made)
        return made

    def _taking_out(self, cells: Cells) -> Stateful:
        """The same function with its state as one more argument, from now on."""
        if self.target.placement is not None:
            refuse(cells, "on a mesh")
        static, donate = ([k + (k >= 0) for k in places] for places in (self._static, self._donate))
        f = with_state(self._f, cells)
        self._stateful = Stateful(cells, Jitted(f, static, self._target, donate, *self._freedoms))
        return self._stateful

    def _rewritten(self) -> Callable[..., Any]:
        unsafe = self._freedoms[1]
        return rewritten(self._f, asserts=not unsafe, compiles=True)

    def staged(self) -> Callable[..., Any]:
        """The function as it is staged: on Tensors, its loops and branches rewritten."""
        return self._rewritten()

    @property
    def static(self) -> tuple[set[int], frozenset[str]]:
        """The places of static arguments, and their names."""
        return self._static, self._static_names

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The stages of compilation for these arguments."""
        special = self._specialise(self._arguments(args, kwargs))
        if special is None:
            raise TypeError(
                "this function closes over a value that an enclosing transformation varies"
            )
        if special.changed:
            stateful = self._stateful or self._taking_out(special.changed)
            return stateful.compiled.lower(stateful.held(), *args, **kwargs)
        stages = {
            "program": lambda: str(special.recorded),
            "rewritten": lambda: str(special.program),
            **(special.code.stages if special.code is not None else {}),
        }
        return Lowered(Stages(stages), special.reason)

    def stats(self) -> dict[str, Any]:
        """What was compiled so far: one entry per set of types, and how often one was found again."""
        if self._stateful is not None:
            return self._stateful.compiled.stats()
        made = [s for s in self._known.values() if s is not None]
        return {
            "specialisations": [
                {
                    "native": s.code is not None and s.target.backend == "native",
                    "reason": s.reason,
                    **(s.code.stats if s.code else {}),
                }
                for s in made
            ],
            "cache_hits": self._hits + sum(s.direct_calls for s in made),
            "disk_cache_hits": sum(
                s.code is not None and s.code.stats["code"] == "disk" for s in made
            ),
        }


class Bound(functools.partial[Any]):
    """A compiled method of one object."""

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        jitted: Any = self.func
        return jitted.lower(*self.args, *args, **kwargs)

    def stats(self) -> dict[str, Any]:
        jitted: Any = self.func
        return jitted.stats()


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

    def __repr__(self) -> str:
        return f"<Lowered: {', '.join(self.stages)}>"

    def _repr_html_(self) -> str | None:
        return hooks.notebook("html", self)


def jit(
    f: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Sequence[int] = (),
    donate: int | Sequence[int] = (),
    backend: str | None = None,
    device: str | None = None,
    precision: str = "highest",
    mesh: Any = None,
    shard: Any = None,
    half: str = "float16",
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

    `backend="xla"` runs the same program through JAX's compiler, on the CPU or on `device="gpu"`: arrays of
    NumPy's and of JAX's go in, JAX's come out and stay on the device. There `precision` says how products of
    float32 are computed: "highest", or as fast as the device likes, "tf32". With `half="bfloat16"` every
    np.float16 of the program is a bfloat16 there; arrays of JAX's of that dtype count as 16-bit floats.

    With `mesh=bs.mesh(data=4, model=2)` it is one program over all its devices. `shard` says along which axes
    of the mesh arrays are split: a dict from patterns of names of arguments and results to axes,
    `{"x": ("data",), "*.weight": ("model", None)}`, a function of (name, shape), or a rule of `bs.sharding`;
    other arguments lie whole on each device.

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
    target = None
    if mesh is not None:
        if not hasattr(mesh, "placement"):
            raise TypeError(f"mesh is one such as bs.mesh(data=-1), got {mesh!r}")
        target = Target(backend or "xla", device, precision, mesh.placement(shard), half)
    elif shard is not None:
        raise ValueError("shard= splits arrays over a mesh: give mesh=bs.mesh(data=-1) as well")
    elif backend is not None or (device, precision, half) != (None, "highest", "float16"):
        given = default_target().backend if backend is None else backend
        target = Target(given, device, precision, None, half)
    if f is None:
        return lambda g: Jitted(g, static_argnums, target, donate, fastmath, unsafe)
    return Jitted(f, static_argnums, target, donate, fastmath, unsafe)


def _own_loops(f: FunctionType) -> Jitted:
    """Loops of the library's own, which call nothing: rewritten as a user's are."""
    as_users = {"__name__": f.__name__, "__builtins__": f.__globals__["__builtins__"]}
    return Jitted(FunctionType(f.__code__, as_users, f.__name__), (), NATIVE)


hooks.compiled, hooks.seconds_of, hooks.timed = _own_loops, seconds_of, seconds_as_compiled


def _places(what: str, given: Any) -> set[int]:
    many = [given] if isinstance(given, int) else given
    if not isinstance(many, Sequence | set | frozenset) or any(type(k) is not int for k in many):
        raise TypeError(f"`{what}` takes the places of arguments, 0 or (0, 2), got {given!r}")
    return set(many)
