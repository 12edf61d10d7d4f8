"""The use cases: what both faces, page and command line, can do. The only room that composes others."""
