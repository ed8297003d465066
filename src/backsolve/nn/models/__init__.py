"""Well-known networks, with the names of their weights as they are published for PyTorch."""

from .gpt2 import GPT2 as GPT2
from .lenet import LeNet as LeNet
from .lstm import LSTMLanguageModel as LSTMLanguageModel
from .resnet import ResNet as ResNet
from .resnet import resnet18 as resnet18
