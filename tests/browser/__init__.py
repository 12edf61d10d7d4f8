"""Journeys in headless Chromium on the real program."""
