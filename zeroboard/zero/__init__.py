"""ZeRO as pure functions: from a wish to DeepSpeed's file, and what a stage promises to hold on each rank."""
