"""The regions being staged now, innermost last, and who may write into what there.

Code in a region runs once, on types. A write into something from outside must therefore be part of the
region's state: it is found when it happens (`Discovered`), and the region is staged again with it.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable
from types import CellType, SimpleNamespace
from typing import Any

from .. import trace, tree
from ..changes import Noted
from ..control import calls
from ..errors import ControlFlowError
from ..tensor import Staged, Tensor
from .containers import Container
from .places import Array, Attribute, Place, Variable


class Discovered(BaseException):
    """An object from outside (or an attribute of one) that a region changes. Not an Exception: users
    catch those."""

    def __init__(self, region: Region, owner: Any, attribute: str | None, site: Any):
        super().__init__()
        self.region, self.owner, self.attribute, self.site = region, owner, attribute, site


class Memory:
    """What is known of a region when the one around it is staged again: it need not find that out once more."""

    def __init__(self) -> None:
        # Of a loop: the types that it carries, by those that it begins with; by variable, those that hold
        # the same object after a round, and those that held it before the loop.
        self.types: dict[Any, Any] = {}
        self.twins: dict[Any, set[Any]] = {}
        self.heirs: dict[Any, set[Any]] = {}
        self.inner: dict[Any, Memory] = {}  # of the regions in it


class Region:
    """One branch or loop body being staged."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.level = trace._level()  # what is recorded inside has a higher one
        self.places: list[Place] = []
        self.held: set[Any] = set()  # ids of objects, and (id, attribute)
        self.made: dict[int, Any] = {}  # objects created inside
        self.spoilt: list[
            tuple[Tensor, str]
        ] = []  # since an array that they share was written into
        self.sites: set[Any] = (
            set()
        )  # lines that write into what they made themselves, and its type
        self.writes = 0  # into anything at all, since it was entered
        self.way = ""  # which of its functions runs
        self.met: Counter[Any] = Counter()  # the regions in it, since it was entered
        self.inner: dict[Any, Memory] = {}

    def hold(self, place: Place) -> None:
        self.places.append(place)
        if isinstance(place, Container):
            self.held.update(id(part) for part in place.parts)
        else:
            self.held.add(_identity(place))

    def __enter__(self) -> Region:
        self.made, self.writes, self.met = {}, 0, Counter()
        stack().append(self)
        return self

    def __exit__(self, *error: Any) -> None:
        stack().pop()

    def memory_of(self, codes: tuple[Any, ...]) -> Memory:
        """Of a region in this one, which is known by its code and by how many of that code came before it."""
        key = self.way, codes
        self.met[key] += 1
        return self.inner.setdefault((key, self.met[key]), Memory())

    def learn(self, found: Discovered) -> None:
        """Hold what was found, unless it died with the failed attempt: then it was made inside."""
        attribute = found.attribute
        found.__traceback__ = None
        if _count_of_owner(found) <= _ALONE:
            self.sites.add(found.site)
            return
        owner, found.owner = found.owner, None
        if isinstance(owner, CellType):
            assert attribute is not None
            self.hold(Variable(attribute, owner))
        elif attribute is not None:
            self.hold(Attribute(f"{type(owner).__name__}.{attribute}", owner, attribute))
        else:
            self.hold(Array("an array from outside", owner))


def _count_of_owner(found: Any) -> int:
    return sys.getrefcount(found.owner)


_ALONE = _count_of_owner(SimpleNamespace(owner=object()))


class _Local(threading.local):
    staging = compiling = False


_local = _Local()


def stack() -> list[Region]:
    try:
        return _local.regions
    except AttributeError:
        _local.regions = []
        return _local.regions


at_end: list[Callable[[], None]] = []  # called when the outermost staging is over


class Staging:
    """While a function is run to be recorded, as `jit` does; what it `compiles` is run without it later."""

    def __init__(self, compiles: bool = False):
        self.compiles = compiles

    def __enter__(self) -> None:
        self.before, self.compiled = is_staging(), is_compiling()
        _local.staging = True
        _local.compiling = self.compiled or self.compiles

    def __exit__(self, *error: Any) -> None:
        _local.staging, _local.compiling = self.before, self.compiled
        if not self.before:
            for forget in at_end:
                forget()


def is_staging() -> bool:
    return _local.staging


def is_compiling() -> bool:
    return _local.compiling


def in_region() -> bool:
    return bool(stack())


def _identity(place: Place) -> Any:
    if isinstance(place, Array):
        return id(place.tensor)
    if isinstance(place, Attribute):
        return id(place.owner), place.attribute
    assert isinstance(place, Variable)
    return id(place.cell), place.name


class Called(Region):
    """A function being recorded for itself: it changes nothing outside, and not the given arguments.

    Whoever records it may carry the attributes of modules that it sets.
    """

    def __init__(self, what: str, arguments: Any = (), carries: bool = False):
        super().__init__(what)
        self.carries = carries
        recorder = trace.innermost_region()
        if recorder is not None:
            self.level = recorder.level - 1  # that is ours
        self.arguments = {id(x) for x in tree.flatten(arguments)[0]}


calls.watch = lambda name, arguments: Called(f"the recursive function `{name}`", arguments)


def made(x: Any) -> Any:
    """Note that `x` was created here."""
    regions = stack()
    if regions:
        regions[-1].made[id(x)] = x
    return x


def check_write(x: Any, attribute: str | None = None) -> None:
    """Before `x` (or an attribute of it) is changed: every region between its creation and here holds it."""
    regions = stack()
    if not regions:
        return
    key = id(x) if attribute is None else (id(x), attribute)
    for start, region in enumerate(reversed(regions)):  # the outermost region it was not made in
        if is_made_in(x, region):
            inside = regions[len(regions) - start :]
            break
    else:
        inside = regions
    for region in inside:
        if key in region.held:
            continue
        if isinstance(region, Called):
            if region.carries and isinstance(x, Noted):
                continue
            raise ControlFlowError(
                f"{region.what} changes something that it got or found outside, which a call of a compiled "
                "function cannot do. Let it work on a copy and return that, y = y.copy(); …; return y, and "
                "bind what it returns where it is called, also by itself: y = f(y, …) or y[a:b] = f(y[a:b])"
            )
        if attribute is None and not isinstance(x, Tensor):
            raise ControlFlowError(
                f"{region.what} changes a {type(x).__name__} from outside it, which staging cannot follow. "
                + _ADVICE.get(type(x), "Keep what changes in local variables")
            )
        site = _site(), type(x), attribute
        if site not in region.sites:
            raise Discovered(region, x, attribute, site)


def count_write() -> None:
    for region in stack():
        region.writes += 1


def rebinding(f: Any, *names: str) -> None:
    """Before a function binds variables of the one around it; `f` refers to them."""
    if in_region():
        cells = dict(zip(f.__code__.co_freevars, f.__closure__, strict=True))
        for name in names:
            check_write(cells[name], name)


def _site() -> tuple[Any, int]:
    """The line of the user's that is running."""
    frame: Any = sys._getframe(2)
    while frame.f_globals.get("__name__", "").startswith("backsolve."):
        frame = frame.f_back
    return frame.f_code, frame.f_lineno


_ADVICE: dict[type, str] = {
    list: "Write into an array of fixed length, `y = np.zeros(n)` and `y[i] = v`, instead of "
    "letting a list grow",
    dict: "Give the dict all its keys before, in the function that has the loop",
}


_slot = vars(Tensor)["_v"].__get__  # also of a Tensor that must not be used any more


def is_made_in(x: Any, region: Region) -> bool:
    return id(x) in region.made or _recorded_in(x, region)


def _recorded_in(x: Any, region: Region) -> bool:
    if not isinstance(x, Staged) or id(x) in region.held:
        return False
    if isinstance(region, Called) and id(x) in region.arguments:
        return False
    return bool(_slot(x).recorder.level > region.level)
