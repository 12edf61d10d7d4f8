"""Why did it fail: logs, events and exit codes → findings, the root cause first."""
