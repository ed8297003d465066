"""Many processes as one: how they start, feed their parts of a batch, save, end together and go on.

    backsolve launch -n 4 train.py

starts `train.py` four times; `start()` in it makes them one run over all their devices. See
docs/many-machines.md.
"""

from . import plan as plan
from .batches import part_of as part_of
from .batches import whole_batch as whole_batch
from .pieces import load as load
from .pieces import newest as newest
from .pieces import save as save
from .start import Place as Place
from .start import place as place
from .start import start as start
from .together import gather as gather
