"""A run's life: its folder, its locks, its supervisor, and the one read model of how it goes."""
