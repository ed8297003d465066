"""Parts of networks; `functional` holds those without parameters of their own."""

from . import functional as functional
