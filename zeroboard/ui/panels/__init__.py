"""Panels: parts of a tab with their components."""
