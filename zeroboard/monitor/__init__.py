"""Eyes on the machine: GPUs through NVML, processor, memory, disk."""
