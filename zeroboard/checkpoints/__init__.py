"""Trust, without torch: what is in a folder, and is it sound. Bytes, headers, sizes and names; nothing is executed."""
