"""Mesh: devices in a grid whose axes have names."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..backends.xla.library import device_of, jax
from ..errors import DeviceError

_SHOWN = 64  # devices that are listed one by one


class Mesh:
    """What `bs.mesh` makes: `sizes` by name, and `devices`, an array with an axis for each."""

    def __init__(self, sizes: Mapping[str, int], devices: Sequence[Any]):
        self.sizes = dict(sizes)
        grid = np.empty(len(devices), object)
        grid[:] = devices
        self.devices = grid.reshape(tuple(self.sizes.values()))

    @functools.cached_property
    def of_jax(self) -> Any:
        """The same as JAX has it."""
        return jax().sharding.Mesh(self.devices, tuple(self.sizes))

    def sharding(self, axes: Sequence[Any] = ()) -> Any:
        """How arrays lie on it whose axes are split along these; None, and what is left out, is whole."""
        return jax().sharding.NamedSharding(self.of_jax, jax().sharding.PartitionSpec(*axes))

    @property
    def size(self) -> int:
        """The number of devices."""
        return self.devices.size

    @functools.cached_property
    def is_shared(self) -> bool:
        """Whether other processes have devices in it."""
        here = jax().process_index()
        return any(d.process_index != here for d in self.devices.flat)

    def placement(self, shard: Any = None) -> Any:
        """What `bs.jit` asks where arrays shall lie."""
        from .placement import Placement
        from .rules import as_rule

        return Placement(self, as_rule(shard))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mesh) or [*self.sizes.items()] != [*other.sizes.items()]:
            return False
        return bool(np.all(self.devices == other.devices))

    def __hash__(self) -> int:
        return hash((tuple(self.sizes.items()), tuple(d.id for d in self.devices.flat)))

    def __repr__(self) -> str:
        kind = self.devices.flat[0].platform
        return f"<Mesh {shown(self.sizes)}: {self.size} × {kind}>"

    def __str__(self) -> str:
        """Devices row by row, the last axis across."""
        if self.size > _SHOWN:
            return repr(self)
        *outer, last = self.sizes
        table = [["", *[f"{last} {k}" for k in range(self.sizes[last])]]]
        for at in np.ndindex(self.devices.shape[:-1]):
            name = ", ".join(f"{axis} {k}" for axis, k in zip(outer, at, strict=True))
            table.append([name, *map(name_of, self.devices[at])])
        return "\n".join([repr(self), *aligned(table)])


def mesh(*, device: str | None = None, devices: Sequence[Any] | None = None, **sizes: int) -> Mesh:
    """Devices in a grid with named axes, for `bs.jit(f, mesh=…)` and `bs.fit(…, mesh=…)`.

    Names are yours; ready rules call them "data", "model" and "stage". One size may be -1: what is left.
    Devices are those that JAX finds, of the kind `device` ("cpu", "gpu") or listed one by one, in their order:
    neighbours along the last axis are nearest, so it should be the one along which most is exchanged.

    >>> import backsolve as bs
    >>> bs.mesh(data=1, device="cpu")
    <Mesh data=1: 1 × cpu>
    """
    if not sizes:
        raise ValueError("a mesh needs at least one axis: bs.mesh(data=-1) takes all devices")
    for name, size in sizes.items():
        whole = isinstance(size, int | np.integer) and not isinstance(size, bool)
        if not whole or (size < 1 and size != -1):
            raise ValueError(
                f"{name}={size!r} must be a whole number of devices, or -1 for all that are left"
            )
    sizes = {name: int(size) for name, size in sizes.items()}
    found = _devices(device) if devices is None else _listed(devices)
    return Mesh(_fitted(sizes, found), found[: math.prod(_fitted(sizes, found).values())])


def _devices(kind: str | None) -> list[Any]:
    if kind is None:
        return list(jax().devices())
    if ":" in kind:
        raise ValueError(
            f'device={kind!r} is one device; a mesh is made of all of a kind, such as "gpu"'
        )
    return list(jax().devices(device_of(kind).platform))


def _listed(devices: Sequence[Any]) -> list[Any]:
    found = list(devices)
    if not found or not all(isinstance(d, jax().Device) for d in found):
        raise TypeError(
            f"devices= lists devices of JAX's, such as jax.devices()[:4]; got {devices!r}"
        )
    if len(set(found)) < len(found):
        raise ValueError(f"devices= names a device twice: {', '.join(map(name_of, found))}")
    return found


def _fitted(sizes: Mapping[str, int], devices: Sequence[Any]) -> dict[str, int]:
    """Sizes without -1; an error where there are not enough devices, or where some process had none."""
    count = len(devices)
    here = f"there {'is' if count == 1 else 'are'} {count} × {devices[0].platform}"
    rest = [name for name, size in sizes.items() if size == -1]
    known = math.prod(size for size in sizes.values() if size != -1)
    if len(rest) > 1:
        raise ValueError(f"one axis of a mesh can be -1, not {' and '.join(rest)}")
    if rest:
        if count % known:
            raise DeviceError(
                f"a mesh of {shown(sizes)} does not fit: {here}, which {known} does not divide. "
                f"Change the other sizes, or say how many devices {rest[0]} shall have"
            )
        return {name: count // known if size == -1 else size for name, size in sizes.items()}
    if known > count:
        raise DeviceError(
            f"a mesh of {shown(sizes)} needs {known} devices; {here}. Make an axis smaller, or let one be -1. "
            "On a CPU the environment's XLA_FLAGS=\"--xla_force_host_platform_device_count="
            f'{known}", set before JAX starts, simulates as many'
        )
    processes = {d.process_index for d in devices}
    left_out = processes - {d.process_index for d in devices[:known]}
    if left_out:
        raise DeviceError(
            f"a mesh of {shown(sizes)} takes {known} of {count} devices, and leaves process {min(left_out)} "
            "without any: let an axis be -1"
        )
    return dict(sizes)


def shown(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


def name_of(device: Any) -> str:
    return f"{device.platform}:{device.id}"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of columns of equal width."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = [[c.ljust(w) for c, w in zip(row, widths, strict=True)] for row in rows]
    return ["  ".join(row).rstrip() for row in padded]
