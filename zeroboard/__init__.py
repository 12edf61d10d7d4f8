"""ZeroBoard: fine-tune a language model from a web page, under ZeRO, and prove what was done."""

__version__ = "0.1.0"
