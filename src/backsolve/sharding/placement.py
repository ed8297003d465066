"""Where the arrays of one compiled function lie: on its devices before it runs, and after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..backends.xla.library import is_array, jax
from ..errors import DeviceError
from .devices import Mesh, name_of
from .following import follow, is_slot
from .rules import Axes, Leaf, Rule, checked


class Placement:
    """A mesh and a rule, for arguments of all forms."""

    def __init__(self, mesh: Mesh, rule: Rule):
        self.mesh, self.rule = mesh, rule

    def of(
        self,
        arguments: Sequence[tuple[str, tuple[int, ...]]],
        results: Sequence[tuple[str, tuple[int, ...]]],
    ) -> Placed:
        """For arguments and results of these names and shapes."""
        given, made = [Leaf(*a) for a in arguments], [Leaf(*r) for r in results]
        rule, sizes = self.rule, self.mesh.sizes
        asked = [leaf for leaf in given if not is_slot(leaf)]
        rule.check(asked, made)
        known = dict(zip(asked, self._checked(asked, rule.axes(asked, sizes)), strict=True))
        others = {leaf: axes for leaf, axes in known.items() if not rule.is_batch(leaf)}
        split = follow(given, [known.get(leaf) for leaf in given], others)
        found = self._checked(made, rule.results(made, sizes))
        lying = list(zip(given, split, strict=True))
        others = {leaf: axes or () for leaf, axes in lying if not rule.is_batch(leaf)}
        used = [None if rule.is_batch(a) else rule.used(axes or ()) for a, axes in lying]
        return Placed(self.mesh, given, split, follow(made, found, others), used)

    def nowhere(self) -> Placed:
        """For arguments that have no names: they stay where they are."""
        return Placed(self.mesh, [], [], [])

    def _checked(self, leaves: Sequence[Leaf], found: Sequence[Axes | None]) -> list[Axes | None]:
        return [
            None if axes is None else checked(axes, leaf, self.mesh.sizes)
            for axes, leaf in zip(found, leaves, strict=True)
        ]


class Placed:
    """The same for one form of arguments.

    An argument that no rule is about lies whole on each device, or as it does if it is on the mesh. Where
    a result lies that none is about, XLA decides.
    """

    def __init__(
        self,
        mesh: Mesh,
        arguments: Sequence[Leaf],
        given: Sequence[Axes | None],
        made: Sequence[Axes | None],
        used: Sequence[Axes | None] = (),
    ):
        self.mesh = mesh
        self._names = [leaf.name for leaf in arguments]
        self._given = [None if a is None else mesh.sharding(a) for a in given]
        self.whole = mesh.sharding()
        self.results = [None if a is None else mesh.sharding(a) for a in made] or None
        self._used = [None if a is None else mesh.sharding(a) for a in used]
        self._devices = set(mesh.devices.flat)

    def argument(self, k: int) -> Any:
        """The sharding of argument number k; None if it is left as it is."""
        return self._given[k] if self._given else None

    def used(self, k: int) -> Any:
        return self._used[k] if self._used else None

    def put(self, leaves: Sequence[Any]) -> list[Any]:
        """Arguments on the mesh; numbers of Python's stay what they are."""
        return [self._put(k, a) for k, a in enumerate(leaves)]

    def _put(self, k: int, a: Any) -> Any:
        wanted = self.argument(k)
        if not is_array(a):
            is_number = not isinstance(a, np.ndarray | np.generic)
            return a if is_number else put(a, wanted or self.whole)
        there = a.sharding
        devices = there.device_set
        if devices == self._devices:
            if wanted is None or there == wanted or there.is_equivalent_to(wanted, a.ndim):
                return a
        elif not (devices <= self._devices) and a.committed:
            where = ", ".join(sorted(map(name_of, devices))[:4])
            name = self._names[k] if self._names else "an argument"
            raise DeviceError(
                f"`{name}` lives on {where}, outside of {self.mesh!r}: give it as np.asarray({name}), or make "
                "the mesh of the devices that it is on"
            )
        return put(a, wanted or self.whole)


def fetched(a: Any) -> Any:
    """An array of NumPy's of its own, with the parts that lie on other devices and with other processes; all
    processes ask for it at once."""
    if is_array(a) and not (a.is_fully_addressable or a.is_fully_replicated):
        whole = jax().sharding.NamedSharding(a.sharding.mesh, jax().sharding.PartitionSpec())
        a = jax().jit(lambda x: x, out_shardings=whole)(a)
    return np.array(a)


def put(a: Any, sharding: Any) -> Any:
    """An array, whole here, as this process's part of one that lies as `sharding` says."""
    if sharding.is_fully_addressable:
        return jax().device_put(a, sharding)
    if is_array(a) and not a.is_fully_addressable:
        return jax().jit(lambda x: x, out_shardings=sharding)(a)
    whole = np.asarray(a)
    return jax().make_array_from_callback(whole.shape, sharding, lambda at: whole[at])
