"""The table of rules, second part: what logs say after something went wrong, or while it only looks so."""

from __future__ import annotations

from zeroboard.diagnosis.rules import Rule

AFTERMATH: tuple[Rule, ...] = (
    # late: something else may have come before
    Rule(
        code="collective-timeout",
        role="late",
        said=(
            ("Watchdog caught collective operation timeout", r""),
            ("is not joined in", r"rank\S* .*is not joined in"),
        ),
        raised=(
            r"Timed out waiting \d+ ?ms",
            r"[Cc]ollective operation timeout",
            r"Monitored ?[Bb]arrier.*(?:timed? ?out|failed)",
            r"client socket has timed out",
            r"(?:wait|store).*timed? ?out after \d+ ?ms",
            r"Dist\w+Error.*[Tt]imed? ?out",
            r"Socket Timeout",
        ),
    ),
    Rule(
        code="stopped-by-user",
        role="late",
        severity="info",
        said=(
            ("SIGINT death signal", r""),
            ("STEP", r"^slurmstepd: error: \*\*\* (?:STEP|JOB) \S+ .*CANCELLED AT (?!.*DUE TO)"),
        ),
        raised=(r"^KeyboardInterrupt", r"got signal: 2$"),
    ),
    Rule(
        code="killed-by-signal",
        role="late",
        variant="told",
        said=(
            ("death signal", r"Received Signals\.SIG(?:TERM|HUP|USR1) death signal|Received 15 death signal"),
            ("CANCELLED AT", r"^slurmstepd: error: .*CANCELLED AT .*DUE TO (?:TIME LIMIT|PREEMPTION|NODE FAILURE)"),
        ),
        raised=(r"got signal: (?:1|15)$",),
    ),
    # echoes: another process ended
    Rule(
        code="python-exception",
        role="echo",
        raised=(
            r"ChildFailedError",
            r"SignalException",
            r"^SystemExit",
            r"remote process exited or there was a network error",
            r"ncclRemoteError",
            r"Connection (?:closed|reset) by (?:remote )?peer",
            r"ConnectionResetError|BrokenPipeError",
            r"Broken pipe",
            r"recvValue(?:WithTimeout)? failed|failed to recv, got 0 bytes",
            r"NCCL communicator was aborted",
            r"CalledProcessError: Command '\[.*(?:torch\.distributed|deepspeed|accelerate|python)",
            r"gloo.*(?:Connection|EOF|Read error)",
        ),
        said=(("closing signal SIGTERM", r""), ("Killing subprocess", r"sigkill_handler")),
    ),
    # symptoms: it went on
    Rule(
        code="weights-not-gathered",
        role="symptom",
        said=(
            ("didn't save the model, since", r""),
            ("gather_16bit_weights_on_model_save", r"(?:WARN|didn't|can't|cannot)"),
        ),
    ),
    Rule(code="no-training-happened", role="symptom", said=(("to be a single sample in your epoch_iterator", r""),)),
    Rule(
        code="tokenization-mismatch",
        role="symptom",
        severity="warning",
        said=(("tokenization mismatch", r"^(?:.{0,80}WARNING[ :|-]*.{0,40})?tokenization mismatch"),),
    ),
    # noise
    Rule(
        code="benign",
        role="noise",
        severity="info",
        said=(
            ("async_io requires", r""),
            ("destroy_process_group() was not called", r""),
            ("None of the inputs have requires_grad", r""),
            ("use_cache=True", r"incompatible with gradient checkpointing"),
            ("`torch_dtype` is deprecated", r""),
            ("has no pad token", r""),
            ("Unable to register cu", r"factory"),
            ("errno: 97", r"failed to (?:bind|connect|listen)"),
            ("TOKENIZERS_PARALLELISM", r""),
            ("Trainer.tokenizer is now deprecated", r""),
            ("FutureWarning:", r""),
            ("DeprecationWarning:", r""),
            ("were not initialized from the model checkpoint", r""),
            ("OMP_NUM_THREADS environment variable", r""),
            ("Guessing device ID based on global rank", r""),
        ),
    ),
)
