"""Fine-tuning, pruning and quantisation-aware training of encoders for leyden."""

__version__ = "0.1.0"
