"""The page: Gradio over `services`. The only room that imports Gradio; `serve` opens it."""

from zeroboard.ui.serve import serve

__all__ = ["serve"]
