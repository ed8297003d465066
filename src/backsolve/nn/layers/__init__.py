"""Layers under PyTorch's names: modules around the functions of `nn.functional`. One kind per file."""

from .containers import Flatten as Flatten
from .containers import Identity as Identity
from .containers import Sequential as Sequential
from .containers import Unflatten as Unflatten
from .convolutions import Conv1d as Conv1d
from .convolutions import Conv2d as Conv2d
from .convolutions import Conv3d as Conv3d
from .convolutions import ConvTranspose1d as ConvTranspose1d
from .convolutions import ConvTranspose2d as ConvTranspose2d
from .convolutions import ConvTranspose3d as ConvTranspose3d
from .normalisations import BatchNorm1d as BatchNorm1d
from .normalisations import BatchNorm2d as BatchNorm2d
from .normalisations import BatchNorm3d as BatchNorm3d
from .normalisations import GroupNorm as GroupNorm
from .normalisations import LayerNorm as LayerNorm
from .normalisations import LocalResponseNorm as LocalResponseNorm
from .normalisations import RMSNorm as RMSNorm
