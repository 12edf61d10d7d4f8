"""Tabs: components, then handlers, then wiring."""
