"""What the processes say to each other: frozen models of everything that crosses a process or the disk."""
