"""Training: `fit`, and what it is made of. See docs/training.md."""

from .board import dashboard as dashboard
from .callbacks import EarlyStopping as EarlyStopping
from .callbacks import ReduceOnPlateau as ReduceOnPlateau
from .checkpoints import Checkpoints as Checkpoints
from .events import EventFile as EventFile
from .history import History as History
from .log import Log as Log
from .log import read_log as read_log
from .loop import Interrupted as Interrupted
from .loop import evaluate as evaluate
from .loop import fit as fit
from .objective import accuracy as accuracy
from .prediction import predict as predict
from .run import Fitted as Fitted
from .run import Run as Run
