"""Data for training: sources of examples, and batches of them."""

from .batches import Batches as Batches
from .sources import Arrays as Arrays
from .sources import Examples as Examples
from .sources import Images as Images
from .sources import Part as Part
from .sources import as_source as as_source
from .sources import split as split
from .sources import stacked as stacked
from .sources import table as table
