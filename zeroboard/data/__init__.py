"""Data files: read, recognised and judged row by row, made into conversations. No torch, no tokenizer."""
